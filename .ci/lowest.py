"""Run the tests of the judges, of the platforms and of servers with the oldest packages that may stand beneath them.

Each extra has an environment of its own; `serve` is the platforms', for LangSmith's webhooks are tested there too.
What the floors are stands in pyproject.toml; here only what those packages bring along.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

STANDINS = "tests/standins/test_llm_"
LLM = "tests/judges/llm/test_"
PLATFORMS = "serve"
SDKS = ("langsmith", "braintrust")
ENVIRONMENTS = {
    "openai": (
        ("httpx-aiohttp==0.1.9", "aiohttp==3.10.10", "anthropic"),  # the batch tests import both
        [f"{LLM}{name}.py" for name in ("openai_api", "batch")] + [f"{STANDINS}openai.py"],
        "not anthropic",
    ),
    "anthropic,google": (
        ("pydantic-ai-slim[openai]", "openai==3.26.0"),
        [f"{LLM}{name}.py" for name in ("pydantic_api", "batch")]
        + [f"{STANDINS}{name}.py" for name in ("anthropic", "gemini", "pydantic_ai")],
        "not openai",
    ),
    PLATFORMS: (
        ("openai[aiohttp]", "langchain-core", "langgraph"),  # what they leave of traces is among those that are pulled
        ["-W", "default", "tests/test_serve_otlp.py"]  # an old SDK warns of what it uses
        + [f"{folder}/{name}" for name in SDKS for folder in ("tests/adapters", "integrations")],
        # long ones, of which its age says nothing
        "not killed and not watch and not command_line and not what_people_answer_there and not what_the_charts_name",
    ),
}
"""Extras; what is installed beside them; pages and choice of tests: each request and reply through the real SDKs."""

OURS = ("pydantic", "tenacity")
"""Of what is always installed, what the judges stand on."""


def floors(extras: str) -> list[str]:
    """The oldest version of everything these extras name, as pip's constraints."""
    ours = (*OURS, *SDKS) if extras == PLATFORMS else OURS
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    named = [line for extra in extras.split(",") for line in project["optional-dependencies"][extra]]
    named += [line for line in project["dependencies"] if line.startswith(tuple(f"{name}>" for name in ours))]
    found = [re.fullmatch(r"([\w.-]+)(?:\[.*])?>=([\d.]+)", line) for line in named]
    if None in found:
        sys.exit(f"a floor that can't be read: {named}")
    return sorted({f"{one[1]}=={one[2]}" for one in found if one})


def tried(extras: str, folder: Path) -> int:
    """How the tests of these extras end at their floors."""
    beside, tests, chosen = ENVIRONMENTS[extras]
    pins = floors(extras)
    if extras not in ("openai", PLATFORMS):
        pins = [pin for pin in pins if not pin.startswith("pydantic==")]  # pydantic-ai asks for a later one
    (folder / "floors.txt").write_text("\n".join(pins))
    python = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)  # noqa: S603 - our own
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    install += ["--constraint", str(folder / "floors.txt")]
    subprocess.run([*install, f".[{extras}]", "pytest>=8.3", "hypothesis>=6.120", *beside], check=True)  # noqa: S603
    print(f"{extras} at {', '.join(pins)}; {', '.join(beside)}", flush=True)  # noqa: T201 - a check's report
    return subprocess.run([python, "-m", "pytest", "-q", "-k", chosen, *tests], check=False).returncode  # noqa: S603


def main() -> None:
    """Try every environment and stop at the first that fails."""
    for extras in ENVIRONMENTS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            if tried(extras, Path(folder)):
                sys.exit(f"extras {extras} do not hold at their floors")
        print(f"-- took {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
