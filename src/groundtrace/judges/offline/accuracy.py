"""Factual accuracy: the claims of a text, each held against all evidence.

A claim is Supported where source support would give a 4 and no number or name is missing; Contradicted only where a
sentence of the evidence shows another number, date or name in the place of the claim's; Partially Supported where one
of its clauses is supported and another isn't. Everything else is Unverifiable, a possible negation above all.
Of a text with very many claims the first are judged, and the reply says by a flag that there were more.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any, Literal, TypeAlias, get_args

from groundtrace.judges.offline.measure import (
    Answered,
    Tokenise,
    clashes,
    flags,
    halves_up,
    level,
    numbered,
    quoted,
    quotes,
    reasons,
    stated,
)
from groundtrace.lexical import Clash, Comparison, Passages, clash, clauses, compare, content_words

FACTS = 3
"""A clause of fewer words that carry meaning is no claim of its own."""

LISTED, ROOM = 500, 400_000
"""How many claims are judged, and how many characters their rows have: a person reads no more, a reply has an end."""

LEFT_OUT = "claims_left_out"
"""The flag of a reply in which not every claim has a row."""

_LONGEST_CLAIM, _LONGEST_QUOTE, _LONGEST_REASON = 2_000, 800, 1_200

Result: TypeAlias = Literal["Supported", "Partially Supported", "Contradicted", "Unverifiable"]

_WORTH: Mapping[str, float] = {"Supported": 1, "Partially Supported": 0.5, "Contradicted": 0}
"""What a result scores where the user set nothing else; what is Unverifiable has no score."""

_WHERE = "the evidence"
_NULLS = frozenset(("None", "N/A"))
"""Quotes that can't be given: every judge's are read as none."""

_COMPOUND = re.compile(r";\s+|,\s+(?:and|but|while|whereas)\s+", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|does|did|will|would|can|could|may|might|must|should|became|becomes|began"
    r"|begins|came|comes|went|goes|won|wins|made|makes|took|takes|ran|runs|led|leads|held|holds|grew|grows|rose|rises"
    r"|fell|falls|left|leaves|said|says|wrote|writes|gave|gives|found|finds|built|builds|lies|lives|means|costs|lasts"
    r"|[a-z]{3,20}ed)\b"
)


@dataclass(frozen=True, slots=True)
class _Held:
    """A claim, what holding it against the evidence gave, and what became of it."""

    text: str
    found: Comparison
    result: Result
    clash: Clash | None = None
    clause: str | None = None
    """Of a claim that is supported in part, the clause that is not."""


def check_facts(body: Mapping[str, Any], tokenise: Tokenise) -> Answered:
    """The verdict on a text: what the evidence makes of each claim."""
    texts = [passage["text"] for passage in body["evidence"]]
    evidence = Passages(texts, tokenise)
    told = stated(body["target_text"], [passage["id"] for passage in body["evidence"]]) or [body["target_text"].strip()]
    worth = body.get("scores") or _WORTH
    parts = (part for claim in told for part in split(claim))
    held, rows = _judged(islice(parts, LISTED), evidence, texts, worth)
    left = next(parts, None) is not None or len(rows) < len(held)
    held = held[: len(rows)]
    scored = [score for item in held if (score := worth.get(item.result)) is not None]
    mean = sum((Fraction(str(score)) for score in scored), Fraction(0)) / len(scored) if scored else None
    verdict = {
        "overall_factual_accuracy_score": None if mean is None else halves_up(mean.numerator, mean.denominator, 2),
        "total_verifiable_claims": len(scored),
        "claim_verifications": rows,
        "overall_summary": _summary(held, more=left),
    }
    return verdict, flags([item.found for item in held]) + ((LEFT_OUT,) if left else ())


def _judged(
    claims: Iterable[str], evidence: Passages, texts: Sequence[str], worth: Mapping[str, float]
) -> tuple[list[_Held], list[dict[str, Any]]]:
    """The claims held against the evidence, and the rows of the reply, as many as there is room for."""
    held: list[_Held] = []
    rows: list[dict[str, Any]] = []
    room = ROOM
    for at, claim in enumerate(claims, start=1):
        item = _hold(claim, evidence)
        if (_quote(item, texts) or "").strip() in _NULLS:
            item = _Held(claim, item.found, "Unverifiable")
        held.append(item)
        row = _verification(at, item, texts, worth)
        room -= len(json.dumps(row, ensure_ascii=False))
        if room < 0:
            break
        rows.append(row)
    return held, rows


def split(claim: str) -> Iterator[str]:
    """The statements of a compound sentence, where each side of a joint has a verb and says enough by itself.

    >>> list(split("The bridge was opened by the mayor in 1931, and trams have crossed it day and night."))
    ['The bridge was opened by the mayor in 1931', 'trams have crossed it day and night.']
    >>> list(split("The bridge carries trams, buses, and bicycles."))
    ['The bridge carries trams, buses, and bicycles.']
    """
    start = 0
    for joint in _COMPOUND.finditer(claim):
        sides = claim[start : joint.start()], claim[joint.end() :]
        if all(_VERB.search(side) and len(content_words(side)) >= FACTS for side in sides):
            yield sides[0].strip()
            start = joint.end()
    yield claim[start:].strip()


# --- one claim --------------------------------------------------------------------------------------------------------


def _hold(claim: str, evidence: Passages) -> _Held:
    """A claim held against all evidence."""
    found = compare(claim, evidence)
    if clashes(found):
        return _Held(claim, found, "Unverifiable")
    other = clash(claim, evidence, found)
    if _carried(found) and not other:
        return _Held(claim, found, "Supported")
    parts = [part for part in clauses(claim) if len(content_words(part)) >= FACTS]
    held = [(part, compare(part, evidence)) for part in parts] if len(parts) > 1 else []
    lacking = [(part, one) for part, one in held if not _carried(one) or clashes(one)]
    if lacking and len(lacking) < len(held):
        part, one = min(lacking, key=lambda pair: pair[1].score)
        return _Held(claim, found, "Partially Supported", other or clash(part, evidence, one), part)
    return _Held(claim, found, "Contradicted" if other else "Unverifiable", other)


def _carried(found: Comparison) -> bool:
    """Whether the evidence carries a claim, and nothing of weight is missing."""
    return level(found) >= 4 and not (found.missing_numbers or found.missing_names or found.personal)


def _verification(at: int, item: _Held, texts: Sequence[str], worth: Mapping[str, float]) -> dict[str, Any]:
    """A claim as the reply lists it."""
    quote = _quote(item, texts)
    wrong = item.result in ("Partially Supported", "Contradicted")
    grave = item.clash is not None and not item.clash.slight
    return {
        "claim_id": f"C{at}",
        "claim_text": _cut(item.text, _LONGEST_CLAIM),
        "verification_result": item.result,
        "evidence_quote": _cut(quote, _LONGEST_QUOTE) if quote else None,
        "score": worth.get(item.result),
        "severity": ("Major" if grave else "Minor") if wrong else None,
        "judge_rationale": _cut(_rationale(item, texts), _LONGEST_REASON),
    }


def _cut(text: str, longest: int) -> str:
    """A text, or of a long one as many whole words as may be.

    >>> _cut("grey dust on the Moon", 12), _cut("dust", 12)
    ('grey dust', 'dust')
    """
    return text if len(text) <= longest else text[: longest + 1].rsplit(" ", 1)[0][:longest]


def _quote(item: _Held, texts: Sequence[str]) -> str | None:
    """The evidence's own words that the result turns on."""
    if item.result == "Unverifiable":
        return None
    if item.clash:
        place, start, end = item.clash.sentence
        return texts[place][start:end]
    return next(iter(quotes(item.found, texts)), None)


def _rationale(item: _Held, texts: Sequence[str]) -> str:
    """Why a claim came out as it did."""
    if item.result == "Supported":
        return f"The evidence holds this: {quoted(quotes(item.found, texts)[0])}."
    told = []
    if item.clash:
        told.append(f"The claim has {item.clash.claimed} where the evidence has {item.clash.stated}.")
    if item.clause:
        told.append(f"The evidence carries a part of this, and not {quoted(item.clause)}.")
    if item.result == "Unverifiable":
        told.append("The evidence neither confirms nor denies this as far as counting words can tell.")
    return " ".join([*told, *reasons(item.found, _WHERE)])


def _summary(held: Sequence[_Held], *, more: bool) -> str:
    """What is right and what is wrong with the text."""
    counted = Counter(item.result for item in held)
    told = ", ".join(f"{counted[result]} {result.lower()}" for result in get_args(Result) if counted[result])
    first = next((item.clash for item in held if item.clash), None)
    wrong = f" The text has {first.claimed} where the evidence has {first.stated}." if first else ""
    rest = " The claims after these were not judged." if more else ""
    return f"Of {'the first ' if more else ''}{numbered(len(held), 'claim', 'claims')}: {told}.{wrong}{rest}"
