"""`python -m groundtrace.cli` is `groundtrace`."""

from groundtrace.cli import main

main()
