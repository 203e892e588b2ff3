"""A headless Chromium over a real server's page: what is on it, and a picture of it to be looked at.

The browser is Debian's, what drives it stands in an environment of its own (.ci/servers.py browser). Pictures are left
in $GROUNDTRACE_ARTEFACTS, else in `artefacts/` of this repository. Nothing but this machine is reached: a request that
would leave it is refused and named.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import servers

LIMIT = 180
"""Seconds a page may take in all; the driver itself gives up sooner and says on what."""


@dataclass(frozen=True)
class Page:
    """A page as it was seen: its text, what HTML says it is made of, and what it would have fetched from elsewhere."""

    text: str
    html: str
    strays: tuple[str, ...]
    picture: Path


def pictures() -> Path:
    """Where pictures are left."""
    folder = Path(os.environ.get("GROUNDTRACE_ARTEFACTS") or Path(__file__).parent.parent / "artefacts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def look(
    url: str,
    name: str,
    *,
    wait: Sequence[str],
    tap: Sequence[str] = (),
    script: str = "",
    size: tuple[int, int] = (1800, 1200),
    settle: float = 1.5,
) -> Page:
    """Open a page, wait for texts on it, click where other texts stand and run a script (as a hand would), look.

    The test fails where a text does not come, with a picture of what came instead.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("the tests need Chromium: apt-get install -y chromium", pytrace=False)
    python, picture = servers.programs("browser") / "python", pictures() / f"{name}.png"
    told = {
        "url": url, "wait": list(wait), "tap": list(tap), "script": script, "size": size, "settle": settle,
        "picture": str(picture), "chromium": chromium,
    }  # fmt: skip
    driver = Path(__file__).parent / "driven.py"
    done = subprocess.run(
        [str(python), str(driver)], input=json.dumps(told), capture_output=True, text=True, check=False,
        timeout=LIMIT, env=servers.clean(),
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stderr[-4000:]}; see {picture}"
    seen = json.loads(done.stdout)
    return Page(seen["text"], seen["html"], tuple(seen["strays"]), picture)
