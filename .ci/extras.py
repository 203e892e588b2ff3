"""Check what each extra resolves to: a pin that lets pip fall back years is found here, not by a user."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

EXPECTED = {
    "openai": {"openai": (2, 5), "aiohttp": (3,)},
    "anthropic": {"pydantic-ai-slim": (2, 60), "anthropic": (1, 12, 1)},
    "google": {"pydantic-ai-slim": (2, 60), "google-genai": (2, 34), "aiohttp": (3,)},
    "report": {"altair": (5,), "vl-convert-python": (1, 7)},
    "prometheus": {"opentelemetry-exporter-prometheus": (0,), "prometheus-client": (0, 20)},
    "serve": {"starlette": (0, 45), "uvicorn": (0, 34), "grpcio": (1, 84)},
    "stats": {"scikit-learn": (1, 6), "scipy": (1, 14), "krippendorff": (0, 8)},
    "postgres": {"psycopg": (3, 2), "psycopg-binary": (3, 2)},
    "ray": {"ray": (2, 40)},
}
"""The oldest versions each extra may resolve to."""


def resolved(extra: str) -> dict[str, str]:
    """What pip would install for an extra, name to version."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    done = subprocess.run([*command, f".[{extra}]"], capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode:
        sys.exit(f"extra {extra} does not resolve:\n{done.stderr}")
    report = json.loads(done.stdout)
    return {
        item["metadata"]["name"].lower().replace("_", "-"): item["metadata"]["version"] for item in report["install"]
    }


def main() -> None:
    """Resolve every extra and stop at the first that falls short."""
    declared = set(tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]) - {"dev"}
    if declared != set(EXPECTED):
        sys.exit(f"extras without expectations: {sorted(declared ^ set(EXPECTED))}")
    for extra, oldest in EXPECTED.items():
        versions = resolved(extra)
        for name, least in oldest.items():
            version = versions.get(name, "")
            if tuple(int(part) for part in version.split(".")[: len(least)] if part.isdigit()) < least:
                sys.exit(f"extra {extra}: {name} {version or 'absent'}, expected at least {least}")
        print(extra, {name: versions[name] for name in oldest})  # noqa: T201 - a check's report


if __name__ == "__main__":
    main()
