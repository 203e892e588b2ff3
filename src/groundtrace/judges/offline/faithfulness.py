"""RAG faithfulness: an answer, its citations and the passages it was made from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from groundtrace.citations import abstention, cite, claims
from groundtrace.judges.offline.measure import (
    Answered,
    Tokenise,
    beginning,
    flags,
    level,
    numbered,
    overall,
    quoted,
    quotes,
    reasons,
)
from groundtrace.lexical import Comparison, Passages, compare
from groundtrace.model import Mention, Passage

UNASSESSED = frozenset({"abstention_appropriateness", "source_conflict_handling"})
"""How an answer abstains and how it deals with conflicting sources is no matter of counting words."""

LISTED, ROOM = 300, 200_000
"""How many items a list of the reply holds, and how many characters: a person reads no more, and a reply has an end."""

_Hold: TypeAlias = Callable[[str, tuple[str, ...]], Comparison]
"""Holds a claim against texts; an answer that says the same again is held against them once."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A claim in the answer's words, whether it is cited, and what holding it against the passages gave."""

    text: str
    cited: bool
    found: Comparison
    level: int


def judge_answer(body: Mapping[str, Any], tokenise: Tokenise) -> Answered:
    """The verdict on an answer: what its claims rest on, and whether its citations point there."""
    passages, answer, stood = body["passages"], body["answer"], body["citations"]
    texts = {passage["id"]: passage["text"] for passage in passages}
    held_back = abstention(answer)
    hold = _holding(tokenise)
    held = [] if held_back == "pure" else _claims_held(answer, passages, stood, hold)
    support = _support(answer, held, texts, abstains=held_back is not None)
    accuracy, misattributions = _citations(answer, stood, texts, held, hold)
    scores = {"claim_support": support["score"], "citation_accuracy": accuracy["score"]}
    unassessed = sorted(UNASSESSED)
    verdict = {
        "overall_faithfulness_score": overall(scores, body.get("weights"), 1),
        "dimension_scores": {
            "claim_support": support,
            "citation_accuracy": accuracy,
            **{name: _dimension(None, "not assessed by this judge") for name in unassessed},
        },
        "unsupported_claims": _listed(_unsupported(item, list(texts)) for item in held if item.level < 4),
        "hallucination_flags": _listed(_fabrication(item) for item in held if item.level < 3) + misattributions,
    }
    return verdict, flags([item.found for item in held])


def _holding(tokenise: Tokenise) -> _Hold:
    read = functools.cache(lambda texts: Passages(texts, tokenise))
    return functools.cache(lambda claim, texts: compare(claim, read(texts)))


def _listed(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is listed of the items: each once and, where there is no room for all, those of weight first."""
    apart = list({tuple(item.values()): item for item in items}.values())
    if len(apart) > LISTED:
        apart.sort(key=lambda item: item.get("severity") == "minor")
    listed: list[dict[str, Any]] = []
    room = ROOM
    for item in apart[:LISTED]:
        room -= sum(len(str(value)) for value in item.values())
        if room >= 0:
            listed.append(item)
    return listed


def _claims_held(
    answer: str, passages: Sequence[Mapping[str, Any]], stood: Sequence[Mapping[str, Any]], hold: _Hold
) -> list[_Held]:
    """The answer's claims, each held against all passages together."""
    listed = [Passage(id=p["id"], text=p["text"], rank=p["rank"]) for p in passages]
    told = [Mention(claim=c["claim"], document_id=c["passage_id"]) for c in stood if c["marker"] is None]
    texts = tuple(passage.text for passage in listed)
    stated = claims(answer, cite(answer, listed, told))
    found = [(claim, hold(claim.text, texts)) for claim in stated]
    return [_Held(claim.text, bool(claim.citations), comparison, level(comparison)) for claim, comparison in found]


def _citations(
    answer: str,
    stood: Sequence[Mapping[str, Any]],
    texts: Mapping[str, str],
    held: Sequence[_Held],
    hold: _Hold,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The dimension citation_accuracy, and a flag for each citation that does not carry its claim."""
    if not stood:
        return _dimension(None, "the answer cites nothing"), []
    wrong: list[Mapping[str, Any]] = []
    loose = 0
    spans: list[str] = []
    together: dict[str, dict[str, None]] = {}
    for citation in stood:
        together.setdefault(citation["claim"], {})[texts.get(citation["passage_id"], "")] = None
    for citation in stood:
        claim, text = citation["claim"], texts.get(citation["passage_id"], "")
        found = hold(claim, (text,))
        reached = level(found)
        if reached < 3:
            wrong.append(citation)
            spans.append(claim)
        else:
            spans += quotes(found, [text])
            loose += reached < 4 and level(hold(claim, tuple(together[claim]))) < 4
    bare = sum(item.level >= 4 and not item.cited for item in held)
    score = _accuracy(stood, wrong, loose=loose, bare=bare)
    pointing = numbered(len(stood), "citation points", "citations point")
    told = [f"{len(stood) - len(wrong)} of {pointing} to a passage that holds their claim."]
    told += [f"{loose} of them hold only a part of it."] if loose else []
    told += [f"{numbered(bare, 'backed claim has', 'backed claims have')} no citation."] if bare else []
    shown = [span for span in dict.fromkeys(spans) if any(map(str.isalnum, span))][:3] or beginning(
        [answer, *texts.values()]
    )
    return _dimension(score, " ".join(told), shown), _listed(map(_misattribution, wrong))


# --- the dimensions of an answer --------------------------------------------------------------------------------------


def _dimension(score: int | None, justification: str, spans: Sequence[str] = ()) -> dict[str, Any]:
    return {"score": score, "justification": justification, "evidence_spans": list(spans)}


def _support(answer: str, held: Sequence[_Held], texts: Mapping[str, str], *, abstains: bool) -> dict[str, Any]:
    """The dimension claim_support, with the words of passages and answer that decided it."""
    whole = beginning([answer, *texts.values()])
    if not texts and not abstains:
        return _dimension(1, "The retrieval came back empty, and the answer does not say so.", whole)
    if not held:
        return _dimension(5, "The answer makes no factual claim.", whole)
    weak = [item for item in held if item.level < 4]
    told = [f"{len(held) - len(weak)} of {numbered(len(held), 'claim is', 'claims are')} backed by the passages."]
    if not texts:
        told.append("The retrieval came back empty.")
    for item in weak[:2]:
        told += [f"Not backed: {quoted(item.text)}.", *reasons(item.found, "the passages")]
    passages = list(texts.values())
    backing = [quotes(item.found, passages)[0] for item in held if item.level >= 4]
    spans = [item.text for item in weak[:3]] + backing[: max(1, 3 - len(weak))]
    return _dimension(_grade([item.level for item in held]), " ".join(told), list(dict.fromkeys(spans)))


def _grade(levels: Sequence[int]) -> int:
    """An answer's level from its claims' levels; a claim that is backed in part counts half.

    >>> [_grade(levels) for levels in ([5, 4], [5, 4, 3], [4, 4, 2], [4, 3, 2, 1], [1, 2])]
    [5, 4, 3, 2, 1]
    """
    missing = sum(value < 3 for value in levels)
    share = sum(1.0 if value >= 4 else 0.5 if value == 3 else 0.0 for value in levels) / len(levels)
    if share == 1:
        return 5
    if not missing and share > 0.75:
        return 4
    if missing <= 2 and share >= 0.5:
        return 3
    return 2 if share >= 0.25 else 1


def _accuracy(stood: Sequence[Any], wrong: Sequence[Mapping[str, Any]], *, loose: int, bare: int) -> int:
    """The level of an answer's citations: how many are wrong, hold a part only, or are missing."""
    nowhere = sum(citation["passage_id"] is None for citation in wrong)
    if len(wrong) == len(stood) and (len(stood) > 1 or nowhere):
        return 1
    if len(wrong) > 1:
        return 2
    if wrong or bare or loose > 1:
        return 3
    return 4 if loose else 5


def _unsupported(item: _Held, ids: Sequence[str]) -> dict[str, Any]:
    """A claim no passage backs: major where nothing carries it or a number or name stands nowhere, else minor."""
    strange = item.found.missing_numbers or item.found.missing_names
    return {
        "claim": item.text,
        "closest_retrieved_passage": ids[item.found.sentences[0][0]] if item.found.sentences else None,
        "severity": "major" if item.level < 3 or strange else "minor",
    }


def _fabrication(item: _Held) -> dict[str, Any]:
    told = " ".join(reasons(item.found, "the passages")) or "Hardly a word of it stands in a passage."
    return {"type": "fabrication", "description": told, "trace_reference": item.text}


def _misattribution(citation: Mapping[str, Any]) -> dict[str, Any]:
    place = citation["passage_id"]
    told = "points to no retrieved passage" if place is None else f"points to {place}, which does not carry the claim"
    marker = citation["marker"]
    return {
        "type": "misattribution",
        "description": f"{marker or 'The citation'} {told}: {quoted(citation['claim'])}",
        "trace_reference": marker or citation["claim"],
    }
