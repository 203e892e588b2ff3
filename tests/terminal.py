"""groundtrace as a user runs it: a process of its own, its output and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

BIN = Path(sys.executable).parent


def shell(
    command: str, folder: Path, *, env: Mapping[str, str] | None = None, stdin: str | bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in a folder, with groundtrace on the path and lines of 100 characters."""
    around = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
    around |= {"PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"} | dict(env or {})
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=around, input=given or b"", capture_output=True, check=False
    )
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(command, done.returncode, out, err)


def groundtrace(
    line: str, folder: Path, *, env: Mapping[str, str] | None = None, stdin: str | bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """Run groundtrace; whatever happens, a traceback is never what the user sees."""
    done = shell(f"{sys.executable} -m groundtrace.cli {line}", folder, env=env, stdin=stdin)
    assert "Traceback" not in done.stderr, done.stderr
    return done
