"""RAG faithfulness: how an answer deals with what was retrieved for it, on four dimensions. One case a record.

A first pass for quality teams, not the sole arbiter in medicine, law or finance; not for creative work, for
open-ended text without sources, or for holding back answers while a user waits.

The module is a little longer than others: what the four dimensions allow and forbid each other is read side by side.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import create_model

from groundtrace import lexical
from groundtrace.citations import abstention, claims
from groundtrace.errors import InvalidVerdict
from groundtrace.evidence import locate, paraphrases
from groundtrace.model import Case, Claim, Evidence, Finding, Record, Review, Score, Scorecard
from groundtrace.rubrics import copies, law
from groundtrace.rubrics.settings import FaithfulnessSettings, weighted, whole

if TYPE_CHECKING:
    from groundtrace.model import Kind, RootCause

NAME = "rag_faithfulness"
DIMENSIONS = {
    "claim_support": "claim_support",
    "citation_accuracy": "citation_accuracy",
    "abstention_appropriateness": "abstention",
    "source_conflict_handling": "source_conflict",
}
"""The judge's names and the published ones."""

SEVERITIES = ("minor", "major", "critical")
"""Mildest first."""

_HeldBack = Literal["pure", "partial"] | None
"""Whether an answer says that it can't answer, as `abstention` has it."""

NOT_ASSESSED = "not assessed by this judge"

_UNRESOLVED_AT_MOST = 3
_SOME_LENGTH = 3
"""Meaning words from which a sentence without a figure plainly states something."""


class Dimension(law.Verdict):
    """A dimension that always applies."""

    score: law.Level
    justification: str
    evidence_spans: list[str]


class OptionalDimension(law.Verdict):
    """A dimension that may not apply: null, with the reason in its justification."""

    score: law.Level | None
    justification: str
    evidence_spans: list[str]


class UnsupportedClaim(law.Verdict):
    """A claim that no passage backs."""

    claim: str
    closest_retrieved_passage: law.NullableText
    severity: Literal["critical", "major", "minor"]


class HallucinationFlag(law.Verdict):
    """What kind of fault it is, and where."""

    type: Literal["fabrication", "contradiction", "misattribution", "overgeneralization"]
    description: str
    trace_reference: law.NullableText


class DimensionScores(law.Verdict):
    """The four dimensions."""

    claim_support: Dimension
    citation_accuracy: OptionalDimension
    abstention_appropriateness: OptionalDimension
    source_conflict_handling: OptionalDimension


class FaithfulnessVerdict(law.Verdict):
    """The judge's reply on one answer."""

    overall_faithfulness_score: law.Figure
    dimension_scores: DimensionScores
    unsupported_claims: list[UnsupportedClaim]
    hallucination_flags: list[HallucinationFlag]


@functools.cache
def _partial(unassessed: frozenset[str]) -> type[FaithfulnessVerdict]:
    """The schema of a judge that declares dimensions it can't assess: those may be null."""
    fields: dict[str, Any] = dict.fromkeys(sorted(unassessed & set(DIMENSIONS)), (OptionalDimension, ...))
    scores = create_model("DimensionScores", __base__=DimensionScores, **fields)
    return create_model("FaithfulnessVerdict", __base__=FaithfulnessVerdict, dimension_scores=(scores, ...))


@functools.cache
def _json_schema(unassessed: frozenset[str]) -> dict[str, Any]:
    """The JSON Schema of a reply, made once a judge."""
    return (_partial(unassessed) if unassessed else FaithfulnessVerdict).model_json_schema()


class RagFaithfulness:
    """How faithful an answer is to what was retrieved for it: claims, citations, abstention, conflicts, 1 to 5 each.

    Under high risk an overall score below `review_below` sends the card to review and holds it. What is not said is as
    `copy` has it, a user's own rag_faithfulness.toml, or as the built-in does.
    """

    name = NAME
    kinds: tuple[Kind, ...] = ("answer",)

    def __init__(self, *, review_below: float | None = None, copy: Path | None = None) -> None:
        said = {"review_below": review_below}
        self.edition = copies.edition(FaithfulnessSettings, lambda _: FaithfulnessVerdict, _figure_faults, copy, said)
        self._settings = self.edition.settings
        self._weights = whole(self._settings.weights)
        self._weighted = weighted(self._settings.weights)
        self._mean = f"{self._weighted}mean"
        self.prompt_hash, self.version = self.edition.prompt_hash, self.edition.version

    def notes(self) -> tuple[str, ...]:
        """What a run should say of a copy."""
        return self.edition.notes()

    def schema(self, unassessed: frozenset[str]) -> type[FaithfulnessVerdict]:
        """The reply: four dimensions, their mean, the unsupported claims and the hallucination flags."""
        return _partial(unassessed) if unassessed else FaithfulnessVerdict

    def cases(self, record: Record, unassessed: frozenset[str]) -> Iterator[Case | Finding]:
        """One case; a rule decides where nothing was retrieved and the answer plainly abstains or plainly doesn't."""
        ended = law.lacking(record, ("query", "context", "answer"))
        ruled = ended or (None if record.context else _nothing_retrieved(record, self._weights))
        if ruled is not None:
            yield ruled
            return
        answer = record.answer or ""
        passages = []
        for passage in record.context:
            shown = {"id": passage.id, "rank": passage.rank, "text": passage.text}
            if passage.timestamp:
                shown["timestamp"] = passage.timestamp
            passages.append(shown)
        unread = _unread(record)
        stood = [
            {"marker": c.marker, "passage_id": c.passage_id, "claim": answer[c.claim_start : c.claim_end]}
            for c in (() if unread else record.citations)
        ]
        body: dict[str, Any] = {"query": record.query, "passages": passages, "answer": answer, "citations": stood}
        if unread:
            body["not_assessed"] = sorted(unread)
        if self._weighted:
            body["weights"] = dict(self._settings.weights)
        yield Case(NAME, self.version, record.id, "", self.edition.prompt, body, _json_schema(unassessed))

    def finding(self, record: Record, case: Case, verdict: FaithfulnessVerdict, unassessed: frozenset[str]) -> Finding:
        """The answer's finding; faults are unlocated evidence, null rules, and figures that aren't the mean."""
        scored = {name: getattr(verdict.dimension_scores, name) for name in DIMENSIONS}
        places = _Places(record)
        unassessed |= _unread(record)
        evidence, dropped = _located(scored, places.texts)
        unsupported, unplaced = _unsupported(verdict, places)
        flagged, unreferred = _flagged(verdict, places)
        held_back = abstention(record.answer or "")
        faults = _null_rules(record, scored, unassessed, held_back)
        faults += _bare(scored, evidence) + _claim_faults(record, verdict)
        values = {name: dimension.score for name, dimension in scored.items()}
        overall = law.weighted(values, self._weights) if any(values.values()) else None
        soft = _wrong_mean(verdict.overall_faithfulness_score, overall, self._mean)
        flags = (("evidence_unlocated", dropped), ("retrieval_empty", not record.context), ("figure_corrected", soft))
        finding = _finding(
            case.slot,
            values,
            overall,
            {name: dimension.justification for name, dimension in scored.items()},
            evidence,
            flags=(*_abstained(held_back), *(flag for flag, due in flags if due)),
            unassessed=sorted(unassessed & set(DIMENSIONS)),
            unsupported_claims=unsupported,
            severity=_worst(unsupported),
            hallucination_flags=flagged,
            evidence_dropped=dropped + unplaced + unreferred,
        )
        if faults or soft:
            raise InvalidVerdict([*faults, *soft], standing=None if faults else finding)
        return finding

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        """The answer's card: the four dimensions, their mean, and who must look at it."""
        (finding,) = findings
        if finding.status == "unscored":
            return law.unscored_card(self, record, findings)
        values: Mapping[str, int | None] = finding.details["dimensions"]
        applicable = [value for value in values.values() if value is not None]
        if not applicable:
            nothing = law.unscored("nothing_assessed", "no dimension applies that this judge can assess")
            return law.unscored_card(self, record, (nothing,))
        overall = law.weighted(values, self._weights)
        partial = bool(finding.details["unassessed"])
        severity = finding.details["severity"]
        weak = [name for name, value in values.items() if value is not None and value <= 3]
        mean = law.halves_up(overall, 1)
        return law.card(
            self,
            record,
            findings,
            scores=_scores(finding, mean, partial),
            reviews=self._reviews(record, overall, severity),
            held="figure_corrected" in finding.flags,
            flags=finding.flags,
            partial=partial,
            root_cause=_cause(record, weak),
            details={
                "overall_faithfulness_score": None if partial else mean,
                "faithfulness_score": None if partial else _of_hundred(overall),
                "severity": None if partial else severity,
                "worst_unsupported": severity,
                "justifications": finding.details["justifications"],
                "dimensions_scored": len(applicable),
                "abstained": "abstained" in finding.flags,
                "trend_only": severity == "minor",
            },
        )

    def _reviews(self, record: Record, overall: Fraction, severity: str) -> list[Review]:
        """Critical is looked at now, major is queued, minor only feeds the trend."""
        reviews = []
        if severity == "critical":
            reviews.append(Review(reason="critical_claim", priority="now", note="a critical claim has no support"))
        elif severity == "major":
            reviews.append(Review(reason="major_claim", note="a major claim has no support"))
        if record.risk == "high" and overall < Fraction(str(self._settings.review_below)):
            reviews.append(Review(reason="low_faithfulness", note=f"overall below {self._settings.review_below}"))
        return reviews


# --- rules that need no judge ---------------------------------------------------------------------------------------


def _nothing_retrieved(record: Record, weights: Mapping[str, int]) -> Finding | None:
    """What a retrieval that returned nothing decides by itself; None where it must be asked."""
    answer = record.answer or ""
    held_back = abstention(answer)
    stated = claims(answer, record.citations)
    if held_back == "pure" and not record.citations:
        values = {"claim_support": 5, "abstention_appropriateness": 5}
        why = "the retrieval returned nothing and the answer says that it can't answer"
    elif _plainly_states(answer, stated):
        values = {"claim_support": 1, "abstention_appropriateness": 1}
        why = "the retrieval returned nothing, yet the answer states facts"
    else:
        return None
    if record.citations:
        values["citation_accuracy"] = 1
    every: dict[str, int | None] = {name: values.get(name) for name in DIMENSIONS}
    reasons = {name: why if value else f"does not apply: {why}" for name, value in every.items()}
    quote = locate(answer[:400], {None: answer})
    evidence = {name: (quote,) for name, value in every.items() if value and quote.found}
    lost: list[dict[str, Any]] = []
    if not held_back:
        lost = [{"claim": c.text, "closest_retrieved_passage": None, "severity": "major"} for c in stated]
    finding = _finding(
        "",
        every,
        law.weighted(every, weights),
        reasons,
        evidence,
        unassessed=[],
        unsupported_claims=lost,
        severity=_worst(lost),
        flags=(*_abstained(held_back), "retrieval_empty"),
        hallucination_flags=[],
        evidence_dropped=0,
    )
    ruled: dict[str, Any] = {"decided_by": "rule", "confidence": 1.0, "reason": "retrieval_empty"}
    return finding.model_copy(update=ruled)


def _plainly_states(answer: str, stated: Sequence[Claim]) -> bool:
    """Whether an answer beyond doubt states facts: a figure, or a sentence of some length in a language we can read.

    Only then is a missing retrieval held against it without asking; "Je ne sais pas." is left to the judge.
    """
    if abstention(answer) is not None:
        return False
    readable = lexical.is_english(answer)
    return any(
        lexical.numbers(claim.text) or (readable and len(lexical.content_words(claim.text)) >= _SOME_LENGTH)
        for claim in stated
    )


def _unread(record: Record) -> frozenset[str]:
    """The dimensions a gap leaves without what they are judged by: citations that could not be read."""
    return frozenset({"citation_accuracy"}) if record.gap("citations") else frozenset()


def _abstained(held_back: _HeldBack) -> tuple[str, ...]:
    """`abstained` for an answer that makes no factual claim: shown apart from claim-support means."""
    return ("abstained",) if held_back == "pure" else ()


# --- what a schema can't say ----------------------------------------------------------------------------------------


def _null_rules(
    record: Record, scored: Mapping[str, Any], unassessed: frozenset[str], held_back: _HeldBack
) -> list[str]:
    """Which dimensions may be null, which must be, and how high they may go."""
    faults = []
    for name, dimension in scored.items():
        if dimension.score is None and not dimension.justification.strip():
            faults.append(f"a null score says why in its justification @ $.dimension_scores.{name}.justification")
        if name in unassessed and dimension.score is not None:
            faults.append(f"declared as not assessed, so its score is null @ $.dimension_scores.{name}.score")
    faults += _citation_rules(record, scored["citation_accuracy"].score, unassessed)
    support = scored["claim_support"].score
    stated = not record.context and held_back is None and support not in (1, None)
    if stated and lexical.is_english(record.answer or ""):  # in another language the judge knows better
        faults.append(
            f"nothing was retrieved and the answer does not abstain, so the score is 1; got {support} "
            "@ $.dimension_scores.claim_support.score"
        )
    if held_back == "pure" and support not in (5, None):
        faults.append(
            f"the answer makes no factual claim, so the score is 5; got {support} "
            "@ $.dimension_scores.claim_support.score"
        )
    null_abstention = scored["abstention_appropriateness"].score is None
    if null_abstention and "abstention_appropriateness" not in unassessed and (held_back or not record.context):
        cause = "the answer abstains" if held_back else "nothing was retrieved"
        faults.append(f"{cause}, so a score from 1 to 5 is due @ $.dimension_scores.abstention_appropriateness.score")
    return faults


def _citation_rules(record: Record, score: int | None, unassessed: frozenset[str]) -> list[str]:
    at = "@ $.dimension_scores.citation_accuracy.score"
    if "citation_accuracy" in unassessed:
        return []
    if score is None:
        return [f"the answer has {len(record.citations)} citations, so a score is due {at}"] if record.citations else []
    if not record.citations:
        return [f"the answer has no citations, so the score is null; got {score} {at}"]
    if score > _UNRESOLVED_AT_MOST and any(record.passage(c.passage_id) is None for c in record.citations):
        return [f"a citation points to no passage, so the score is {_UNRESOLVED_AT_MOST} at most; got {score} {at}"]
    return []


def _claim_faults(record: Record, verdict: FaithfulnessVerdict) -> list[str]:
    """Where dimensions, unsupported claims and flags contradict each other or the answer."""
    faults = []
    dimensions = verdict.dimension_scores
    if dimensions.claim_support.score == 5 and verdict.unsupported_claims:
        faults.append("claim_support is 5, so no claim is unsupported @ $.unsupported_claims")
    misattributed = any(flag.type == "misattribution" for flag in verdict.hallucination_flags)
    if dimensions.citation_accuracy.score == 5 and misattributed:
        faults.append("citation_accuracy is 5, so nothing is misattributed @ $.hallucination_flags")
    answer = record.answer or ""
    for at, item in enumerate(verdict.unsupported_claims):
        if not locate(item.claim, {None: answer}).found and not paraphrases(item.claim, answer):
            faults.append(
                f"the answer makes no such claim; use its own words; got {item.claim[:120]!r} "
                f"@ $.unsupported_claims[{at}].claim"
            )
    return faults


def _figure_faults(settings: FaithfulnessSettings, verdict: FaithfulnessVerdict) -> list[str]:
    """A mean that isn't the scores' under some settings."""
    values = {name: getattr(verdict.dimension_scores, name).score for name in DIMENSIONS}
    overall = law.weighted(values, whole(settings.weights))
    return _wrong_mean(verdict.overall_faithfulness_score, overall, f"{weighted(settings.weights)}mean")


def _wrong_mean(figure: Decimal, overall: Fraction | None, mean: str) -> list[str]:
    if overall is None or law.agrees(figure, overall):
        return []
    right = law.halves_up(overall, 1)
    return [f"the {mean} of the scored dimensions is {right}; got {figure} @ $.overall_faithfulness_score"]


# --- what the verdict points at -------------------------------------------------------------------------------------


def _texts(record: Record) -> dict[str | None, str]:
    texts: dict[str | None, str] = {passage.id: passage.text for passage in record.context}
    return texts | {None: record.answer or ""}


def _located(scored: Mapping[str, Any], texts: Mapping[str | None, str]) -> tuple[dict[str, tuple[Evidence, ...]], int]:
    """The evidence spans that stand somewhere, by dimension, and how many don't."""
    found: dict[str, tuple[Evidence, ...]] = {}
    known: dict[str, Evidence] = {}  # the same words often speak for several dimensions
    dropped = 0
    for name, dimension in scored.items():
        places = [known.get(span) or known.setdefault(span, locate(span, texts)) for span in dimension.evidence_spans]
        found[name] = tuple([place for place in places if place.found])
        dropped += len(places) - len(found[name])
    return found, dropped


def _bare(scored: Mapping[str, Any], evidence: Mapping[str, tuple[Evidence, ...]]) -> list[str]:
    """Which scored dimensions rest on no words of the record."""
    problem = "none of the evidence spans stands in a passage or in the answer; copy them letter for letter"
    bare = [name for name, dimension in scored.items() if dimension.score is not None and not evidence[name]]
    return [f"{problem} @ $.dimension_scores.{name}.evidence_spans" for name in bare]


class _Places:
    """Where a reference may lead: to a passage by id, to a citation by marker, or to words of the record."""

    def __init__(self, record: Record) -> None:
        self.texts = _texts(record)
        self._named: set[str | None] = {passage.id for passage in record.context}
        self._named |= {citation.marker for citation in record.citations}

    def hold(self, reference: str) -> bool:
        """Whether a reference leads somewhere."""
        bare = reference.strip()
        if {bare, bare.strip("[]"), f"[{bare}]"} & self._named:
            return True
        return locate(bare, self.texts).found


def _unsupported(verdict: FaithfulnessVerdict, places: _Places) -> tuple[list[dict[str, Any]], int]:
    """The unsupported claims with their nearest passage where it is one, and how many nearest passages weren't."""
    rows: list[dict[str, Any]] = []
    unplaced = 0
    for item in verdict.unsupported_claims:
        nearest = item.closest_retrieved_passage
        if nearest is not None and not places.hold(nearest):
            nearest, unplaced = None, unplaced + 1
        rows.append({"claim": item.claim, "closest_retrieved_passage": nearest, "severity": item.severity})
    return rows, unplaced


def _flagged(verdict: FaithfulnessVerdict, places: _Places) -> tuple[list[dict[str, Any]], int]:
    """The hallucination flags with their reference where it stands in the trace, and how many references didn't."""
    rows: list[dict[str, Any]] = []
    unreferred = 0
    for flag in verdict.hallucination_flags:
        reference = flag.trace_reference
        if reference is not None and not places.hold(reference):
            reference, unreferred = None, unreferred + 1
        rows.append({"type": flag.type, "description": flag.description, "trace_reference": reference})
    return rows, unreferred


# --- finding and scores ---------------------------------------------------------------------------------------------


def _worst(unsupported: Sequence[Mapping[str, Any]]) -> str:
    """The worst severity, or "none"."""
    return max((item["severity"] for item in unsupported), key=SEVERITIES.index, default="none")


def _finding(
    slot: str,
    values: dict[str, int | None],
    overall: Fraction | None,
    justifications: dict[str, str],
    evidence: Mapping[str, tuple[Evidence, ...]],
    *,
    flags: tuple[str, ...],
    **details: Any,
) -> Finding:
    """The finding of an answer: its dimensions, why, and where; further details by name."""
    return Finding.trusted(
        slot=slot,
        value=None if overall is None else law.halves_up(overall, 1),
        rationale=justifications["claim_support"],
        evidence=law.once(chain.from_iterable(evidence.values())),
        flags=flags,
        details={
            "dimensions": values,
            "justifications": justifications,
            "evidence": {name: [dict(vars(e)) for e in found] for name, found in evidence.items()},
            **details,
        },
    )


def _scores(finding: Finding, mean: float, partial: bool) -> list[Score]:  # noqa: FBT001 - one caller, beside it
    """The headline or, on a partial card, the mean of what was assessed; then each dimension."""
    values, reasons = finding.details["dimensions"], finding.details["justifications"]
    unassessed, evidence = finding.details["unassessed"], finding.details["evidence"]
    if partial:
        scored = [name for name, value in values.items() if value is not None]
        told = f"mean of {len(scored)} of {len(DIMENSIONS)} dimensions: {', '.join(DIMENSIONS[n] for n in scored)}"
        scores = [law.score(f"{NAME}.assessed", mean, 1, 5, rationale=told)]
    else:
        severity = finding.details["severity"]
        why, quotes = finding.rationale, finding.evidence
        scores = [law.score(NAME, mean, 1, 5, label=severity, rationale=why, evidence=quotes)]
    for name, published in DIMENSIONS.items():
        value = values[name]
        label = None if value is not None else "not_assessed" if name in unassessed else "not_applicable"
        quotes = tuple([Evidence.trusted(**e) for e in evidence.get(name, ())])
        scores.append(
            law.score(f"{NAME}.{published}", value, 1, 5, label=label, rationale=reasons[name], evidence=quotes)
        )
    return scores


@functools.lru_cache(maxsize=1024)  # there are few means
def _of_hundred(overall: Fraction) -> float:
    """A mean from 1 to 5 on the scale from 0 to 100."""
    return law.halves_up((overall - 1) * 25, 1)


def _cause(record: Record, weak: Sequence[str]) -> RootCause | None:
    """Why the card falls short; a citation at fault alone is a citation's fault."""
    if not weak:
        return None
    return law.root_cause(record, citation=list(weak) == ["citation_accuracy"])


if __name__ == "__main__":
    rubric = RagFaithfulness()
    law.show(rubric, rubric.edition.prompt)
