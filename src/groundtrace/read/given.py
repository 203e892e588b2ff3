"""What is given for a record by hand, looked at before it is taken: a wrong type is named, never made into a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from groundtrace.model import Citation, Kind, Mention, Passage, Risk, Turn

TEXTS = ("text", "content", "page_content")
"""The names a passage's text may have in an object."""

_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    dict: "an object",
    list: "a list",
    tuple: "a list",
}
_WANTED = "a text, or an object with a text"
_FACT = "a list of texts"


def misfits(query: object, context: object, answer: object) -> dict[str, str]:
    """The fields of a record that are of a wrong type, each with what was given and what is wanted.

    >>> misfits("How far?", 42, {"x": 1})["answer"]
    "answer is an object (of 'x'): give a text"
    """
    texts = (("query", query), ("answer", answer))
    found = {name: _misfit(name, value, "a text") for name, value in texts if not isinstance(value, str | None)}
    if isinstance(context, (str, bytes)):
        found["context"] = _misfit("context", context, "a list of passages, [...] around a single one")
    elif context is not None and not isinstance(context, Sequence):
        found["context"] = _misfit("context", context, "a list of passages")
    elif misfit := next(filter(None, map(_passage, range(len(context or ())), context or ())), None):
        found["context"] = misfit
    return {name: found[name] for name in ("query", "context", "answer") if name in found}


def _passage(at: int, item: object) -> str | None:
    """What is wrong with a passage; one without any text is none of a wrong type."""
    if isinstance(item, (str, Passage)):
        return None
    if not isinstance(item, Mapping):
        return _misfit(f"context[{at}]", item, _WANTED)
    key, held = next(((k, item[k]) for k in TEXTS if item.get(k) is not None), ("", ""))
    return None if isinstance(held, str) else _misfit(f"context[{at}].{key}", held, "a text")


def check(
    query: object, context: object, answer: object, *, kind: object, risk: object, ident: object, **more: object
) -> None:
    """Raise where anything given is none of what is wanted: TypeError for a type, ValueError for a word."""
    faults = list(misfits(query, context, answer).values())
    if not isinstance(ident, str | None):
        faults.append(_misfit("id", ident, "a text"))
    faults += filter(None, (_items(name, value) for name, value in more.items() if value is not None))
    if faults:
        raise TypeError("; ".join(faults))
    for name, word, valid in (("kind", kind, get_args(Kind)), ("risk", risk, get_args(Risk))):
        if word not in valid:
            raise ValueError(f"{name} is {word!r:.60}: give one of {', '.join(valid)}")


def risk_of(value: object) -> Risk | None:
    """The risk a record names, in whatever case; not given, it is normal; None where the word is unknown.

    >>> risk_of("High"), risk_of(None), risk_of("hihg")
    ('high', 'normal', None)
    """
    word = value.strip().lower() if isinstance(value, str) else value
    return "high" if word == "high" else "normal" if word in ("normal", "", None) else None


def oddities(held: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The fields of a record in a file, beside its texts, that can't be read whole, and what is wanted there.

    >>> list(oddities({"risk": "hihg", "tags": ["a"], "slices": "b", "history": ["Hi"]}))
    [('risk', 'normal or high'), ('slices', 'texts by name'), ('history', 'objects with role and text')]
    """
    if risk_of(held.get("risk")) is None:
        yield "risk", "normal or high"
    for field, wanted, fits in _BESIDE:
        if held.get(field) is not None and not fits(held[field]):
            yield field, wanted


def _all_texts(value: object) -> bool:
    return all(map(_is_short, value if isinstance(value, (list, tuple)) else (value,)))


def _all_named(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_short, value.values()))


def _all_said(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(turn, Mapping) and _is_short(turn.get("text", turn.get("content"))) for turn in value
    )


def _is_short(value: object) -> bool:
    """Whether a value is read as a text: numbers are, and so is nothing."""
    return value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool))


_BESIDE: Sequence[tuple[str, str, Callable[[object], bool]]] = (
    ("tags", _FACT, _all_texts),
    ("key_facts", _FACT, _all_texts),
    ("slices", "texts by name", _all_named),
    ("history", "objects with role and text", _all_said),
)
"""What may stand in a record beside its texts, what is wanted there, and whether that is so."""


def _items(name: str, value: object) -> str | None:
    """What is wrong with a list of texts, turns or citations, or with the texts of a mapping."""
    if name == "slices":
        pairs: Iterable[Any] = value.items() if isinstance(value, Mapping) else ((value, value),)
        return next((_misfit(name, v, "texts by name") for k, v in pairs if not _both(k, v)), None)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return _misfit(name, value, "a list, [...] around a single one")
    fits, wanted = {
        "history": (_is_turn, "(role, text)"),
        "citations": (_is_citation, "a Citation, or an object with start and end or claim, and passage_id"),
    }.get(name, (_is_text, "a text"))
    return next((_misfit(f"{name}[{n}]", v, wanted) for n, v in enumerate(value) if not fits(v)), None)


def _both(*values: object) -> bool:
    return all(map(_is_text, values))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_turn(value: object) -> bool:
    return isinstance(value, Turn) or (isinstance(value, (tuple, list)) and len(value) == 2 and _both(*value))


def _is_citation(value: object) -> bool:
    return isinstance(value, (Citation, Mention, Mapping))


def _misfit(name: str, value: object, wanted: str) -> str:
    """What was given, shortly, and what is wanted."""
    kind = _KINDS.get(type(value)) or f"a {type(value).__name__}"
    held = _short(value)
    return f"{name} is {kind}{f' ({held})' if held else ''}: give {wanted}"


def _short(value: object) -> str:
    """So much of a value as tells it, and no text of an object or a list: what is said of a gap leaves the house."""
    if isinstance(value, Mapping) and value:
        return f"of {', '.join(f'{key!r:.20}' for key in list(value)[:3])}{' ...' if len(value) > 3 else ''}"
    if isinstance(value, (list, tuple)):
        return f"of {len(value)}"
    return repr(value[:40]) if isinstance(value, (str, bytes)) else ""
