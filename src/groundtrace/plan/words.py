"""What is wrong with a plan, in our words; what is refused in one; and a plan as TOML."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pydantic import ValidationError

from groundtrace.errors import PlanError
from groundtrace.plugins import misfit

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

LACKING = "is missing"
_SECRET = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|token|secret|password|passwd"
    r"|authorization|credentials?)$",
    re.IGNORECASE,
)
LOGIN = re.compile(r"://[^/@\s:]*:[^/@\s]+@|\bBearer\s+\S", re.IGNORECASE)
_PAIR = re.compile(r"(?:^|[\s,;&?#{\"'])([\w%-]{1,64})[\"']?\s{0,9}[:=]\s{0,9}[\"']?[^\s,;&\"']")
"""A name and the start of its value, as options, headers, the query of an address and JSON spell them."""
_ENVIRONMENTS: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "braintrust": "BRAINTRUST_API_KEY",
    "google": "GOOGLE_API_KEY",
    "langsmith": "LANGSMITH_API_KEY",
    "mlflow": "MLFLOW_TRACKING_TOKEN",
    "openai": "OPENAI_API_KEY",
    "otlp": "OTEL_EXPORTER_OTLP_HEADERS",
    "phoenix": "PHOENIX_API_KEY",
}
"""Where the platforms' own SDKs look for a secret."""


def listed(value: object) -> Iterable[object]:
    """The entries of a list; anything else is one."""
    return value if isinstance(value, (list, tuple)) else (value,)


def pairs(data: object) -> Iterable[tuple[str, Any]]:
    """The keys and values of a table; what is none has none."""
    return data.items() if isinstance(data, Mapping) else ()


def refusals(key: str, value: object, valid: Iterable[str]) -> Iterator[PlanError]:
    """What is refused before anything is looked into: a key that is none, a secret."""
    if key not in valid:
        strange = PlanError("plan", key, "is no key of a plan", valid=valid)
        strange.of = key
        yield strange
        return
    try:
        for spec in listed(value) if key in ("sources", "sinks", "rubrics", "judge", "store", "cascade") else ():
            refuse_secrets(spec, key)
    except PlanError as error:
        error.of = key
        yield error


def plan_errors(error: ValidationError) -> list[PlanError]:
    """What pydantic does not like, in our words."""
    return [_plan_error(fault) for fault in error.errors(include_url=False)]


def _plan_error(fault: ErrorDetails) -> PlanError:
    said = [str(step) for step in fault["loc"] if not str(step).startswith("=")]
    steps = [step for step in said if not step.startswith(("str", "dict["))]
    if fault["type"] == "missing":
        return PlanError("plan", ".".join(steps), LACKING, hint="say what to read: a SOURCE, or sources = [...]")
    either = "is neither a text nor a table" if len(steps) < len(said) else misfit(fault)
    return PlanError(".".join(steps) or "plan", fault["input"], f"does not fit: {either}")


def refuse_secrets(spec: object, key: str = "") -> None:
    """A plan is written to files and reports; a password in it would be too. The refusal does not repeat it."""
    name = next((name for name, value in _said(spec) if value not in (None, "") and _SECRET.search(unquote(name))), "")
    if name or LOGIN.search(spec if isinstance(spec, str) else json.dumps(spec, default=str)):
        use = spec.get("use") if isinstance(spec, Mapping) else spec
        plugin = _ENVIRONMENTS.get(re.split("[:,]", use, maxsplit=1)[0].strip()) if isinstance(use, str) else None
        hint = "set it in the environment instead" + (f": {plugin}" if plugin else ", under the name its SDK reads")
        if key == "store":
            hint = "leave it out of the address and set PGPASSWORD, or write it to ~/.pgpass"
        raise PlanError(name or "address", "(not shown)", "is a secret and does not belong in a plan", hint=hint)


def _said(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Every name in a spec with its value, however deep, also those inside of texts."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            # an option named `key` is one; deeper down, a key may be of anything
            yield ("api_key" if not name and key == "key" else str(key)), item if _is_text(item) else None
            yield from _said(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _said(item, name or "-")
    elif isinstance(value, str):
        yield from ((match[1], "-") for match in _PAIR.finditer(value))


def _is_text(value: object) -> bool:
    return isinstance(value, (str, int, float))


def as_toml(value: object) -> str:
    """A value as TOML spells it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{as_toml(str(key))} = {as_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
