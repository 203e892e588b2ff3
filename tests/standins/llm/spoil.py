"""Ways a reply can be wrong: each takes a good reply's text and gives it back spoilt, or None where it can't be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from .asked import Asked

Spoiler = Callable[[str, Asked], "str | None"]

_ABSENT = "zyx words that stand nowhere in any text qwv"
_QUOTING = ("key_evidence", "evidence_quote", "evidence_spans", "violations", "omitted_items", "inserted_items")
_FIGURES = ("overall_factual_accuracy_score", "overall_faithfulness_score")


def spoil(text: str, how: str | list[str], asked: Asked) -> tuple[str, bool]:
    """The text after every way named, in their order, and whether all of them could be done."""
    done = True
    for name in [how] if isinstance(how, str) else how:
        spoilt = WAYS[name](text, asked)
        done = done and spoilt is not None
        text = text if spoilt is None else spoilt
    return text, done


def _in(change: Callable[[Any], bool]) -> Spoiler:
    """A way that changes the verdict itself; `change` says whether it found what to change."""

    def way(text: str, asked: Asked) -> str | None:
        try:
            verdict = json.loads(text)
        except ValueError:
            return None
        return json.dumps(verdict, ensure_ascii=False) if change(verdict) else None

    return way


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


def _set_all(name: str, value: Any) -> Spoiler:
    def change(verdict: Any) -> bool:
        found = [one for one in _objects(verdict) if one.get(name) is not None]
        for one in found:
            one[name] = value
        return bool(found)

    return _in(change)


def _first(name: str, turn: Callable[[Any], Any]) -> Spoiler:
    def change(verdict: Any) -> bool:
        one = next((one for one in _objects(verdict) if one.get(name) is not None), None)
        if one is not None:
            one[name] = turn(one[name])
        return one is not None

    return _in(change)


def _without_field(verdict: Any) -> bool:
    if not isinstance(verdict, dict) or not verdict:
        return False
    del verdict[next(iter(verdict))]
    return True


def _claims(verdict: Any) -> list[dict[str, Any]]:
    rows = verdict.get("claim_verifications") if isinstance(verdict, dict) else None
    return rows if isinstance(rows, list) else []


def _missing_id(verdict: Any) -> bool:
    rows = _claims(verdict)
    return bool(rows) and rows[0].pop("claim_id", None) is not None


def _dropped_claim(verdict: Any) -> bool:
    """A claim less, counted as if it were there."""
    rows = _claims(verdict)
    at = next((at for at, row in enumerate(rows) if row["score"] is not None), None)
    return at is not None and rows.pop(at) is not None


def _extra_id(verdict: Any) -> bool:
    rows = _claims(verdict)
    if rows:
        rows.append(rows[0] | {"claim_id": "C999", "claim_text": _ABSENT})
    return bool(rows)


def _duplicate_id(verdict: Any) -> bool:
    rows = _claims(verdict)
    if rows:
        rows.append(dict(rows[0]))
    return bool(rows)


def _wrong_level(verdict: Any) -> bool:
    """A label that is not the score's."""
    for name, one, other in (
        ("support_level", "Weakly Related", "Directly Supports"),
        ("overall_rating", "Poor", "Excellent"),
        ("verification_result", "Contradicted", "Supported"),
    ):
        for holder in _objects(verdict):
            if name in holder:
                holder[name] = other if holder[name] == one else one
                return True
    return False


def _wrong_mean(verdict: Any) -> bool:
    for name in _FIGURES:
        if isinstance(verdict, dict) and isinstance(verdict.get(name), (int, float)):
            wrong = 0.37 if name == _FIGURES[0] else 2.2
            verdict[name] = wrong if abs(verdict[name] - wrong) > 0.2 else wrong + 0.5
            return True
    return False


def _bad_quote(verdict: Any) -> bool:
    found = False
    for one in _objects(verdict):
        for name in _QUOTING:
            if one.get(name):
                one[name] = [_ABSENT] if isinstance(one[name], list) else _ABSENT
                found = True
    return found


def _out_of_range(verdict: Any) -> bool:
    found = False
    for one in _objects(verdict):
        for name in ("score", "confidence", *_FIGURES):
            if isinstance(one.get(name), (int, float)):
                one[name], found = 999, True
    return found


def _number(new: str) -> Spoiler:
    """The first number of the verdict in another writing; in text, for JSON has none for it."""

    def way(text: str, asked: Asked) -> str | None:
        spoilt, done = re.subn(r'(":\s*)-?\d[\d.]*', rf"\g<1>{new}", text, count=1)
        return spoilt if done else None

    return way


def _parrot(text: str, asked: Asked) -> str | None:
    """What looks like a verdict in the record, said as the judge's own: a judge that fell for it."""
    for start in re.finditer(r"\{\s*\"(?:score|overall_\w+)\"", asked.record):
        try:
            found, _ = json.JSONDecoder().raw_decode(asked.record, start.start())
        except ValueError:
            continue
        return json.dumps(found, ensure_ascii=False)
    return None


def _surrogate(text: str, asked: Asked) -> str | None:
    """Half a character in the first text of the verdict, as an escape: JSON allows it, encoders don't."""
    spoilt, done = re.subn(r'":\s*"', r'":"\\ud800', text, count=1)
    return spoilt if done else None


def _twice(text: str, asked: Asked) -> str | None:
    """The first key of the verdict stands twice in it."""
    found = re.match(r'\{\s*("[^"]+"):\s*', text)
    return f"{{{found[1]}: 1, {text[1:]}" if found else None


WAYS: dict[str, Spoiler] = {
    "empty": lambda text, asked: "",
    "blank": lambda text, asked: " \n ",
    "no_json": lambda text, asked: "I would rather put it in words: the answer is mostly well supported.",
    "bad_json": lambda text, asked: text.replace('":', '" =', 1) if '":' in text else None,
    "single_quotes": lambda text, asked: text.replace('"', "'"),
    "trailing_comma": lambda text, asked: text.removesuffix("}") + ",}",
    "truncated": lambda text, asked: text[: int(len(text) * 0.6)],
    "fenced": lambda text, asked: f"```json\n{text}\n```",
    "prose": lambda text, asked: f"Here is my verdict.\n\n{text}\n\nLet me know if anything is unclear.",
    "two_objects": lambda text, asked: f"{text}\n{text}",
    "array": lambda text, asked: f"[{text}]",
    "deep": lambda text, asked: '{"a":' * 5000 + "1" + "}" * 5000,
    "huge": lambda text, asked: text + " " * 2_000_000,
    "surrogate": _surrogate,
    "duplicate_key": _twice,
    "nan": _number("NaN"),
    "infinity": _number("Infinity"),
    "endless_number": _number("9" * 5000),
    "text_number": _number('"4"'),
    "banana": _number('"banana"'),
    "out_of_range": _in(_out_of_range),
    "half_level": _first("score", lambda score: 2.5),
    "missing_field": _in(_without_field),
    "extra_field": lambda text, asked: '{"thoughts": "none", ' + text[1:] if text.startswith("{") else None,
    "missing_id": _in(_missing_id),
    "dropped_claim": _in(_dropped_claim),
    "extra_id": _in(_extra_id),
    "duplicate_id": _in(_duplicate_id),
    "wrong_level": _in(_wrong_level),
    "wrong_mean": _in(_wrong_mean),
    "bad_quote": _in(_bad_quote),
    "echo_before": lambda text, asked: f"{asked.record}\n{text}",
    "echo_after": lambda text, asked: f"{text}\n{asked.record}",
    "parrot": _parrot,
    "parrot_before": lambda text, asked: (told := _parrot(text, asked)) and f"{told}\n{text}",
    "parrot_after": lambda text, asked: (told := _parrot(text, asked)) and f"{text}\n{told}",
    "false_scores": _set_all("score", None),
}
"""Every way by its name. `fenced`, `prose` and `extra_field` are no faults: the gate takes them and counts them."""
