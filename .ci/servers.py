"""Install the real servers the tests stand against, each in an environment of its own.

`python3 .ci/servers.py phoenix mlflow` builds what requirements/phoenix.txt and requirements/mlflow.txt say, once:
an environment is found again by what its requirements say, under $GROUNDTRACE_SERVERS (else in the user's cache).
`browser` is what drives a browser over their pages.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "complete"


def names() -> list[str]:
    """What can be built."""
    return sorted(path.stem for path in (ROOT / "requirements").glob("*.txt"))


def shelf() -> Path:
    """Where the environments stand."""
    given = os.environ.get("GROUNDTRACE_SERVERS")
    if given:
        return Path(given).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "groundtrace-servers"


def requirements(name: str) -> Path:
    """What a server needs, every package of it pinned."""
    return ROOT / "requirements" / f"{name}.txt"


def place(name: str) -> Path:
    """The environment for these very requirements, built or not."""
    told = hashlib.sha256(requirements(name).read_bytes())
    told.update(f"{sys.version_info[:2]}".encode())
    return shelf() / f"{name}-{told.hexdigest()[:16]}"


def built(name: str) -> Path | None:
    """Where the programs of a built environment are; None where there is none, or half of one."""
    folder = place(name)
    return folder / "bin" if (folder / MARK).exists() else None


def build(name: str) -> float:
    """Build an environment unless it is there; gives the seconds it took. Two that want the same one wait in turn."""
    began, folder = time.monotonic(), place(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with held(folder.with_suffix(".lock")):
        if built(name) is None:
            shutil.rmtree(folder, ignore_errors=True)  # what a build left that was cut off
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)  # noqa: S603 - our own
            install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            subprocess.run([*install, "--requirement", str(requirements(name))], check=True)  # noqa: S603
            (folder / MARK).touch()
    return time.monotonic() - began


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Be alone; whoever dies lets go."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(wanted: list[str]) -> None:
    """Build what was named and say where it is."""
    strange = sorted(set(wanted) - set(names()))
    if strange or not wanted:
        sys.exit(f"{' '.join(strange) or 'nothing'} can't be built; name some of {' '.join(names())}")
    for name in wanted:
        print(f"{name}: {build(name):.0f} s, {place(name)}", flush=True)  # noqa: T201 - a check's report


if __name__ == "__main__":
    main(sys.argv[1:])
