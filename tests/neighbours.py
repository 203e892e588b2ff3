"""Other people's plugin packages, put on the path with the metadata an installer would write."""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parent / "plugins"


def unpack(name: str, folder: Path) -> Path:
    """Install a package of tests/plugins into a folder of its own; gives what belongs on the path."""
    project = tomllib.loads((PACKAGES / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    site = folder / f"site-{name}"
    shutil.copytree(PACKAGES / name / "src", site)
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head, encoding="utf-8")
    groups = [
        f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in doors.items())
        for group, doors in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n\n".join(groups), encoding="utf-8")
    return site


def install(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package for the length of a test."""
    monkeypatch.syspath_prepend(str(unpack(name, folder)))
    for module in [module for module in sys.modules if module.startswith(f"groundtrace_{name}")]:
        monkeypatch.delitem(sys.modules, module)
