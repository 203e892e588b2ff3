"""The public face is one screen, and importing it is cheap."""

from __future__ import annotations

import subprocess
import sys

import pytest

import groundtrace

SDKS = ("langsmith", "braintrust", "opentelemetry", "sqlalchemy", "ray", "openai", "pydantic_ai", "httpx2")


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_public_names_are_these() -> None:
    """A name more or less is a decision, not an accident."""
    assert groundtrace.__all__ == sorted(groundtrace.__all__)
    assert len(groundtrace.__all__) <= 26
    assert set(groundtrace.__all__) == {name for names in groundtrace._HOMES.values() for name in names}
    assert set(groundtrace.__all__) <= set(dir(groundtrace))


def test_importing_loads_no_sdk() -> None:
    """Who never names a platform never pays for its SDK, not even when every public name is used."""
    loaded = f"print([name for name in {SDKS!r} if name in sys.modules])"
    assert _python(f"import groundtrace, sys; {loaded}") == "[]"
    assert _python(f"import groundtrace, sys; [getattr(groundtrace, n) for n in groundtrace.__all__]; {loaded}") == "[]"


def test_importing_is_put_off_until_something_is_used() -> None:
    """Not even pydantic is loaded by a bare import."""
    assert _python("import groundtrace, sys; print('pydantic' in sys.modules)") == "False"


@pytest.mark.parametrize("name", ["evaluate", "read", "run"])
def test_a_function_wins_over_its_module(name: str) -> None:
    """Whatever was imported first."""
    assert _python(f"import groundtrace.{name}; print(type(groundtrace.{name}).__name__)") == "function"
    assert _python(f"import groundtrace.cli; print(type(groundtrace.{name}).__name__)") == "function"
    assert _python(f"from groundtrace import {name}; print(type({name}).__name__)") == "function"
    assert _python(f"from groundtrace.{name} import {name}; print(type({name}).__name__)") == "function"


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As everywhere."""
    with pytest.raises(AttributeError, match="no attribute 'evaluat'"):
        groundtrace.evaluat  # type: ignore[attr-defined]  # noqa: B018 - the access is the test
