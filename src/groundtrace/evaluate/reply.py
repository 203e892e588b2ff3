"""The gate's first two steps: exactly one JSON object, the judge's own, and that it fits the schema strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import BaseModel, ValidationError

from groundtrace.errors import InvalidVerdict
from groundtrace.evaluate.echo import Decode, holds_another, repeats

if TYPE_CHECKING:
    from groundtrace.model import Case, Reply

_LONGEST_REPLY = 1_000_000
"""Characters of a reply that are read at all."""

_KEPT_REPLY = 20_000
"""Characters that are kept of a reply too long to be read."""

_SHOWN = 120
"""Characters of a wrong value that are shown to the judge."""

_LONGEST_NUMBER, _LONGEST_EXPONENT = 300, 4
"""Characters a number and its exponent may have."""


def parse(text: str, case: Case | None = None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The one JSON object in a reply, and notes on what stood around it; raises InvalidVerdict.

    Numbers with a point come back as Decimal, so that the digits the judge wrote are known. With the `case` that was
    asked, an object that stands in its texts is a fault: it is the record's word, not the judge's.

    >>> parse('{"score": 4}')
    ({'score': 4}, ())
    >>> parse('Here it is: {"score": 4.50}')
    ({'score': Decimal('4.50')}, ('text around the JSON object ignored',))
    """
    if len(text) > _LONGEST_REPLY:
        raise InvalidVerdict([f"the reply has {len(text)} characters, {_LONGEST_REPLY} at most @ $"])
    opening = _OBJECT.search(text)
    if opening is None:
        raise InvalidVerdict(["reply holds no JSON object @ $"])
    start = opening.start()
    told, end = _decoded(text, start)
    second = _OBJECT.search(text, end)
    if second is not None:
        raise InvalidVerdict(["reply holds more than one JSON object, one is wanted @ $"])
    if text[:start].rstrip().endswith("["):
        raise InvalidVerdict(["reply is a JSON array, one object is wanted @ $"])
    if ("\\u" in text or not text.isascii()) and _HALF.search(text) and _has_half(told):
        raise InvalidVerdict(["a text in the reply holds half of a character (a lone surrogate) @ $"])
    if case is not None and repeats(told, case.body, _decode):
        raise InvalidVerdict(["the reply repeats the record; give a verdict of your own @ $"])
    if case is not None and holds_another(told, case.schema):
        raise InvalidVerdict(["reply holds a verdict inside another, one is wanted @ $"])
    around = (text[:start] + text[end:]).strip()
    return told, ("text around the JSON object ignored",) if around else ()


_ENDED = {
    "length": "the reply was cut at its length limit; a shorter one is wanted @ $",
    "refusal": "the model refused to judge; only a verdict on the texts is wanted @ $",
    "filter": "the provider's filter stopped the reply @ $",
}


def early(reply: Reply) -> str | None:
    """Why a reply holds no verdict before it is looked at: it is empty, or ended where it should not have."""
    if reply.stop:
        return _ENDED[reply.stop]
    return None if reply.text.strip() else "the reply is empty @ $"


def bounded(text: str) -> str:
    """A reply as a card keeps it: of one too long to be read the beginning, and how long it was."""
    if len(text) <= _LONGEST_REPLY:
        return text
    return f"{text[:_KEPT_REPLY]}\n[the first {_KEPT_REPLY:,} of {len(text):,} characters]"


_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def _has_half(value: Any) -> bool:
    """Whether a text anywhere in a value can't be written as UTF-8; however deep it lies, for it may lie very deep."""
    waiting = [value]
    while waiting:
        held = waiting.pop()
        if isinstance(held, str):
            if not held.isascii() and any("\ud800" <= char <= "\udfff" for char in held):
                return True
        elif isinstance(held, dict):
            waiting += [*held, *held.values()]
        elif isinstance(held, list):
            waiting += held
    return False


_OBJECT = re.compile(r"\{\s*[\"}]")
"""Where a JSON object begins; a brace in prose does not."""


def _decoded(text: str, start: int) -> tuple[dict[str, Any], int]:
    try:
        return _decode(text, start)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON ({error.msg}, line {error.lineno} column {error.colno})"
    except RecursionError:
        problem = "not valid JSON (nested too deeply)"
    raise InvalidVerdict([f"{problem} @ $"])


def _figure(digits: str) -> Decimal:
    """A number with a point or an exponent, as it was written."""
    return Decimal(_bounded(digits))


def _count(digits: str) -> int:
    return int(_bounded(digits))


def _bounded(digits: str) -> str:
    """A number's digits, unless working with it would take all time and memory: no score needs that many."""
    if len(digits) <= _LONGEST_EXPONENT:
        return digits
    if len(digits) > _LONGEST_NUMBER or len(digits.lower().partition("e")[2]) > _LONGEST_EXPONENT:
        raise InvalidVerdict([f"the number {digits[:20]}... is out of all bounds @ $"])
    return digits


def _no_constant(name: str) -> NoReturn:
    raise InvalidVerdict([f"{name} is no number @ $"])


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are distinct: of two equal keys nobody can say which was meant."""
    told = dict(pairs)
    if len(told) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidVerdict([f"key {twice!r} stands twice in one object @ $"])
    return told


_decode: Decode = json.JSONDecoder(
    parse_float=_figure, parse_int=_count, parse_constant=_no_constant, object_pairs_hook=_distinct
).raw_decode


def fit(schema: type[BaseModel], told: dict[str, Any]) -> BaseModel:
    """The verdict, if what was told fits the schema; else InvalidVerdict, a line a fault."""
    try:
        return schema.model_validate(told)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise InvalidVerdict([f"{fault['msg']}{_got(fault)} @ {_path(fault['loc'])}" for fault in faults]) from None


def _path(steps: Iterable[int | str]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _got(fault: Any) -> str:
    """What was given, where it helps: a missing field has nothing to show."""
    if fault["type"] == "missing":
        return ""
    shown = str(fault["input"]) if isinstance(fault["input"], Decimal) else repr(fault["input"])
    return f"; got {shown[:_SHOWN]}"


_LEAVES = frozenset({str, int, float, bool, Decimal, NoneType})
"""What no field can stand in: most of a verdict, and known at a glance."""


def extras(verdict: Any, path: str) -> list[str]:
    """Where fields stand that the schema does not know."""
    found: list[str] = []
    if isinstance(verdict, (list, tuple)):
        for at, item in enumerate(verdict):
            if type(item) not in _LEAVES:
                found += extras(item, f"{path}[{at}]")
    elif isinstance(verdict, BaseModel):
        found += (f"{path}.{name}" for name in verdict.model_extra) if verdict.model_extra else ()
        for name, value in vars(verdict).items():
            if type(value) not in _LEAVES:
                found += extras(value, f"{path}.{name}")
    return found
