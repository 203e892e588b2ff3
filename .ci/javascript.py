"""Install OpenTelemetry's JavaScript SDK for the tests to export with, exactly as tests/javascript/ says.

`python3 .ci/javascript.py` does it once: the folder is found again by what the lock file says, under
$GROUNDTRACE_SERVERS (else in the user's cache), beside the servers. Needs node and npm.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ASKED = Path(__file__).resolve().parent.parent / "tests" / "javascript"
MARK = "complete"
MISSING = "run `apt-get install -y nodejs npm && python3 .ci/javascript.py` first"


def place() -> Path:
    """The folder for this very lock file, filled or not."""
    given = os.environ.get("GROUNDTRACE_SERVERS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    shelf = Path(given).expanduser().absolute() if given else cache / "groundtrace-servers"
    return shelf / f"javascript-{hashlib.sha256((ASKED / 'package-lock.json').read_bytes()).hexdigest()[:16]}"


def built() -> Path | None:
    """Where the packages are; None where they are not, or half of them."""
    return place() / "node_modules" if (place() / MARK).exists() and shutil.which("node") else None


def build() -> None:
    """Install them unless they are there; two that want to wait in turn."""
    if not (shutil.which("node") and shutil.which("npm")):
        sys.exit(f"node and npm are not there: {MISSING}")
    folder = place()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if built() is None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(ASKED / name, folder)
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            subprocess.run(command, cwd=folder, check=True)  # noqa: S603 - our own
            (folder / MARK).touch()


if __name__ == "__main__":
    build()
    print(f"javascript: {place()}")  # noqa: T201 - a check's report
