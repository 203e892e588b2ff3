"""Factual accuracy: the claims of a text, each held against all evidence.

A claim is Supported where source support would give a 4 and no number or name is missing; Contradicted only where a
sentence of the evidence shows another number, date or name in the place of the claim's; Partially Supported where one
of its clauses is supported and another isn't. Everything else is Unverifiable, a possible negation above all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from groundtrace.judges.offline.measure import (
    Answered,
    Tokenise,
    clashes,
    flags,
    halves_up,
    level,
    quoted,
    quotes,
    reasons,
    stated,
)
from groundtrace.lexical import Clash, Comparison, Passages, clash, clauses, compare, content_words

FACTS = 3
"""A clause of fewer words that carry meaning is no claim of its own."""

Result: TypeAlias = Literal["Supported", "Contradicted", "Partially Supported", "Unverifiable"]

_HALVES: Mapping[Result, int | None] = {
    "Supported": 2,
    "Partially Supported": 1,
    "Contradicted": 0,
    "Unverifiable": None,
}
_SCORES = (0, 0.5, 1)
_WHERE = "the evidence"
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
    held = [_hold(part, evidence) for claim in told for part in split(claim)]
    scored = [halves for item in held if (halves := _HALVES[item.result]) is not None]
    verdict = {
        "overall_factual_accuracy_score": halves_up(sum(scored), 2 * len(scored), 2) if scored else None,
        "total_verifiable_claims": len(scored),
        "claim_verifications": [_verification(at, item, texts) for at, item in enumerate(held, start=1)],
        "overall_summary": _summary(held),
    }
    return verdict, flags([item.found for item in held])


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


def _verification(at: int, item: _Held, texts: Sequence[str]) -> dict[str, Any]:
    """A claim as the reply lists it."""
    halves = _HALVES[item.result]
    wrong = halves is not None and halves < 2
    grave = item.clash is not None and not item.clash.slight
    return {
        "claim_id": f"C{at}",
        "claim_text": item.text,
        "verification_result": item.result,
        "evidence_quote": _quote(item, texts),
        "score": None if halves is None else _SCORES[halves],
        "severity": ("Major" if grave else "Minor") if wrong else None,
        "judge_rationale": _rationale(item, texts),
    }


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


def _summary(held: Sequence[_Held]) -> str:
    """What is right and what is wrong with the text."""
    counted = Counter(item.result for item in held)
    told = ", ".join(f"{counted[result]} {result.lower()}" for result in _HALVES if counted[result])
    first = next((item.clash for item in held if item.clash), None)
    wrong = f" The text has {first.claimed} where the evidence has {first.stated}." if first else ""
    return f"Of {len(held)} claims: {told}.{wrong}"
