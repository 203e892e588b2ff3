"""Source support: how directly each cited passage backs the claim it is cited for. One case a claim-passage pair.

Support is not truth, and this is not for creative work, opinions or tone, nor for filtering what users see as they
wait; in medicine, law and finance a person decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from groundtrace import lexical
from groundtrace.citations import claims
from groundtrace.errors import InvalidVerdict
from groundtrace.evidence import carries, check_rationale, locate, paraphrases
from groundtrace.model import Case, Claim, Evidence, Finding, Passage, Record, Review, Scorecard
from groundtrace.rubrics import copies, law, totals
from groundtrace.rubrics.settings import SupportSettings
from groundtrace.rubrics.totals import LEVELS, NAME

if TYPE_CHECKING:
    from groundtrace.model import Kind

_CITES, _MEETS = ">", "~"
"""What a slot says between claim and passage: c1>p3, claim 1 cites p3; c1~p3, it is only held against it."""

_IMPLIED = 4
"""The level at which a claim follows from what is said by one step."""

_SCALE = " ".join(LEVELS.values())
_METADATA_SHOWN = ("title", "date", "author", "authority", "publisher", "source", "url", "section")


class SupportVerdict(law.Verdict):
    """The judge's reply on one pair."""

    score: law.Level
    support_level: Literal[
        "Directly Supports", "Strongly Implies", "Partially Supports", "Weakly Related", "No Support / Contradicts"
    ]
    rationale: str
    key_evidence: law.NullableText
    missing_information: law.NullableText
    confidence: law.Share


class SourceSupport:
    """How directly each passage backs the claim that cites it, 1 to 5.

    `pairs`: "auto" puts each cited claim to each passage it cites and, where the answer cites nothing at all, each
    claim to its `candidates` best passages by overlap; "cited" leaves uncited claims out; "all" takes them in.
    A pair below `review_below` sends the card to review; under high risk, a score <= 3 or a confidence below
    `review_confidence` does, and holds it. Of an answer with more than `most_pairs` pairs the rest is counted, not
    asked, and the card is partial. What is not said is as `copy` has it, a user's own source_support.toml, or as the
    built-in does.
    """

    name = NAME
    kinds: tuple[Kind, ...] = ("answer",)

    def __init__(
        self,
        *,
        pairs: Literal["auto", "cited", "all"] | None = None,
        candidates: int | None = None,
        review_below: int | None = None,
        review_confidence: float | None = None,
        most_pairs: int | None = None,
        copy: Path | None = None,
    ) -> None:
        said = {
            "pairs": pairs,
            "candidates": candidates,
            "review_below": review_below,
            "review_confidence": review_confidence,
            "most_pairs": most_pairs,
        }
        self.edition = copies.edition(SupportSettings, lambda _: SupportVerdict, _figure_faults, copy, said)
        self._settings = self.edition.settings
        self._json_schema = SupportVerdict.model_json_schema()
        self.prompt_hash, self.version = self.edition.prompt_hash, self.edition.version

    def notes(self) -> tuple[str, ...]:
        """What a run should say of a copy."""
        return self.edition.notes()

    def schema(self, unassessed: frozenset[str]) -> type[SupportVerdict]:  # noqa: ARG002 - one field, nothing to leave out
        """The reply: score, level, rationale, evidence, what is missing, confidence."""
        return SupportVerdict

    def cases(self, record: Record, unassessed: frozenset[str]) -> Iterator[Case | Finding]:  # noqa: ARG002 - see schema
        """A case for each pair; a rule decides where there is nothing a judge could read."""
        ended = law.lacking(record, ("answer", "context"))
        if ended is not None:
            yield ended
            return
        stated = claims(record.answer or "", record.citations)
        if not stated:
            yield law.unscored("no_claims", "the answer states nothing that could be supported")
            return
        unread = record.gap("citations") is not None
        pairs = list(self._pairs(record, stated))
        if not pairs:
            yield law.unscored("no_cited_claims", "no claim of the answer cites a passage, and only those are judged")
        for claim, passage, cited in pairs[: self._settings.most_pairs]:
            slot = f"{claim.id}{_CITES if cited else _MEETS}{passage.id if passage else ''}"
            pair = _Pair(slot, claim.id, claim.text, passage.id if passage else None, cited)
            if passage is None:
                yield _unsupported(pair, unread=unread)
            elif not passage.text.strip():
                yield _ruled(pair, "empty_passage", "insufficient: the passage is empty")
            else:
                yield self._case(record, pair, passage)
        left = len(pairs) - self._settings.most_pairs
        if left > 0:
            why = f"{left} more pairs were not asked: {self._settings.most_pairs} a record at most"
            yield law.unscored("pairs_left_out", why, slot="rest", flags=("pairs_left_out",))

    def _pairs(self, record: Record, stated: Sequence[Claim]) -> Iterator[tuple[Claim, Passage | None, bool]]:
        """Which claims are held against which passages: (claim, passage or None, whether it is cited)."""
        mode = self._settings.pairs
        uncited_too = mode == "all" or (mode == "auto" and not any(claim.citations for claim in stated))
        words = [frozenset(lexical.content_words(passage.text)) for passage in record.context] if uncited_too else []
        for claim in stated:
            targets = dict.fromkeys(citation.passage_id for citation in claim.citations)
            for target in targets:
                yield claim, record.passage(target), True
            if targets or not uncited_too:
                continue
            if not record.context:
                yield claim, None, False
            for at in _nearest(claim, words)[: self._settings.candidates]:
                yield claim, record.context[at], False

    def _case(self, record: Record, pair: _Pair, passage: Passage) -> Case:
        body: dict[str, Any] = {"claim": pair.claim, "passage": {"id": passage.id, "text": passage.text}}
        metadata = _metadata(passage)
        if metadata:
            body["metadata"] = metadata
        return Case(NAME, self.version, record.id, pair.slot, self.edition.prompt, body, self._json_schema)

    def finding(
        self,
        record: Record,  # noqa: ARG002 - the pair stands in the case
        case: Case,
        verdict: SupportVerdict,
        unassessed: frozenset[str],  # noqa: ARG002 - see schema
    ) -> Finding:
        """The pair's finding; faults are a level that isn't the score's, evidence that isn't there, strange facts."""
        pair = _Pair.of(case)
        text = str(case.body["passage"]["text"])
        evidence, faults = _evidence(verdict, str(pair.source_id), text)
        if (verdict.missing_information is None) != (verdict.score == max(LEVELS)):
            faults.append(
                "missing_information is null exactly when the score is 5; "
                f"got score {verdict.score} @ $.missing_information"
            )
        rationale = check_rationale(
            verdict.rationale, [pair.claim, text, _facts(case.body.get("metadata", {})), _SCALE]
        )
        if not verdict.rationale.strip():
            faults.append("the rationale is empty @ $.rationale")
        faults += [f"{fault} @ $.rationale" for fault in rationale.faults]
        precise = evidence is not None and evidence.found and carries(pair.claim, _span(text, evidence))
        flags = ["rationale_unverified"] if rationale.doubts else []
        high = verdict.score >= self._settings.supported
        if high and not precise and _misleads(verdict.score, pair.claim, evidence, text):
            flags.append("misleading_citation")
        finding = _decided(pair, verdict, evidence, precise=precise, flags=flags, doubts=rationale.doubts)
        soft = _figure_faults(self._settings, verdict)
        if soft:
            standing = finding.model_copy(update={"flags": (*finding.flags, "figure_corrected")})
            raise InvalidVerdict([*faults, *soft], standing=None if faults else standing)
        if faults:
            raise InvalidVerdict(faults)
        return finding

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        """The answer's card: mean and minimum over claims, citation precision over cited pairs."""
        scored = [finding for finding in findings if finding.status == "scored"]
        stated = claims(record.answer or "", record.citations)
        if not scored:
            card = law.unscored_card(self, record, findings)
            counts = {"claims_total": len(stated), "claims_uncited": sum(not claim.citations for claim in stated)}
            return card.model_copy(update={"details": card.details | counts, "retrieved": _retrieved(record)})
        best = totals.best_of_claims(scored)
        bare = self._unbacked(record, [claim for claim in stated if not claim.citations], best)
        supported = self._settings.supported
        flags = totals.flags_of(findings, best, bare, supported=supported)
        partial = "partly_unscored" in flags
        card = law.card(
            self,
            record,
            findings,
            scores=totals.scores_of(scored, best, stated, partial=partial, supported=supported),
            reviews=self._reviews(record, scored, flags),
            held=any("figure_corrected" in f.flags for f in findings),
            flags=flags,
            partial=partial,
            root_cause=totals.cause_of(record, scored, best, flags, supported=supported, backed=self._settings.backed),
            refer=("rag_faithfulness",) if "red_flag" in flags else (),
            details=totals.aggregates_of(scored, best, stated, supported=supported)
            | {"claims_uncited_unbacked": [claim.id for claim in bare], "pairs_total": len(findings)},
        )
        return card.model_copy(update={"retrieved": _retrieved(record)})

    def _unbacked(self, record: Record, uncited: Sequence[Claim], best: Mapping[str, float]) -> list[Claim]:
        """The uncited claims that no passage supports: by the judge where it was asked, by overlap where not."""
        passages = lexical.Passages([passage.text for passage in record.context])
        return [
            claim
            for claim in uncited
            if (
                best[claim.id] <= 2
                if claim.id in best
                else not record.context or lexical.compare(claim.text, passages).score < self._settings.uncited_cover
            )
        ]

    def _reviews(self, record: Record, scored: Sequence[Finding], flags: set[str]) -> list[Review]:
        settings = self._settings
        reviews = []
        high = record.risk == "high"
        bound = 4 if high else settings.review_below
        low = [finding for finding in scored if (finding.value or 0) < bound]
        if low:
            reviews.append(Review(reason="low_support", note=_low(len(low), len(scored), bound)))
        unsure = [f for f in scored if f.confidence is not None and f.confidence < settings.review_confidence]
        if high and unsure:
            reviews.append(Review(reason="low_confidence", note=_counted(len(unsure), len(scored))))
        if high and "rationale_unverified" in flags:
            reviews.append(Review(reason="rationale_unverified", note="a rationale names what could not be traced"))
        if "misleading_citation" in flags:
            reviews.append(
                Review(reason="misleading_citation", note="a high score whose quote lacks the claim's facts")
            )
        return reviews


# --- pieces of a finding --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """A claim and the passage it is held against; `source_id` None where there is none."""

    slot: str
    claim_id: str
    claim: str
    source_id: str | None
    cited: bool

    @classmethod
    def of(cls, case: Case) -> _Pair:
        claim_id = re.split(f"[{_CITES}{_MEETS}]", case.slot, maxsplit=1)[0]
        cited = case.slot[len(claim_id)] == _CITES
        return cls(case.slot, claim_id, str(case.body["claim"]), str(case.body["passage"]["id"]), cited)


def _decided(
    pair: _Pair,
    verdict: SupportVerdict,
    evidence: Evidence | None,
    *,
    precise: bool = False,
    flags: Sequence[str] = (),
    doubts: Sequence[str] = (),
) -> Finding:
    """The finding of a pair: the scoring record, whoever decided it."""
    level = LEVELS[verdict.score]
    span = evidence and {
        "start": evidence.start, "end": evidence.end, "text": evidence.quote, "match": evidence.match,
    }  # fmt: skip
    return Finding(
        slot=pair.slot,
        value=verdict.score,
        label=level,
        rationale=verdict.rationale,
        evidence=(evidence,) if evidence else (),
        confidence=verdict.confidence,
        flags=tuple(flags),
        details={
            "claim_id": pair.claim_id,
            "claim": pair.claim,
            "source_id": pair.source_id,
            "cited": pair.cited,
            "support_score": verdict.score,
            "support_level": level,
            "rationale": verdict.rationale,
            "key_evidence": verdict.key_evidence,
            "key_evidence_span": span,
            "missing_information": verdict.missing_information,
            "confidence": verdict.confidence,
            "precise": precise,
            "rationale_doubts": list(doubts),
        },
    )


def _retrieved(record: Record) -> dict[str, tuple[str, int]]:
    """Where each passage was retrieved, as far as its trace tells."""
    told = ((passage.id, passage.target) for passage in record.context if passage.target is not None)
    return {ident: (ref.span_id, at) for ident, (ref, at) in told if ref.span_id}


def _figure_faults(_: SupportSettings, verdict: SupportVerdict) -> list[str]:
    """A level that is not the score's."""
    due = LEVELS[verdict.score]
    if verdict.support_level == due:
        return []
    return [f"score {verdict.score} is {due!r}; got {verdict.support_level!r} @ $.support_level"]


def _ruled(pair: _Pair, reason: str, why: str) -> Finding:
    """Score 1 without a judge, and the reason why."""
    verdict = SupportVerdict(
        score=1,
        support_level="No Support / Contradicts",
        rationale=why,
        key_evidence=None,
        missing_information="a passage that speaks of the claim",
        confidence=1.0,
    )
    return _decided(pair, verdict, None).model_copy(update={"decided_by": "rule", "reason": reason})


def _unsupported(pair: _Pair, *, unread: bool) -> Finding:
    """The rule for a claim without a passage to hold it against."""
    if not pair.cited:
        return _ruled(pair, "nothing_retrieved", "insufficient: the retrieval returned nothing")
    if unread:
        return law.unscored("citations_gap", "the answer's citations could not be read", slot=pair.slot)
    return _ruled(pair, "unresolved_citation", "the citation points to no retrieved passage")


def _nearest(claim: Claim, words: Sequence[frozenset[str]]) -> list[int]:
    """The passages (by place) by how many of the claim's words they hold, most first; `words` are their stems."""
    wanted = lexical.content_words(claim.text)
    held = [sum(word in passage for word in wanted) for passage in words]
    return sorted(range(len(words)), key=lambda at: -held[at])


def _facts(metadata: Mapping[str, Any]) -> str:
    """Metadata as text to look facts up in."""
    return "\n".join(str(value) for value in metadata.values())


def _metadata(passage: Passage) -> dict[str, str]:
    """What is known of the passage and helps to judge it; never everything a platform happened to store."""
    shown = {key: str(passage.metadata[key]) for key in _METADATA_SHOWN if passage.metadata.get(key)}
    if passage.timestamp:
        shown.setdefault("date", passage.timestamp)
    return shown


def _evidence(verdict: SupportVerdict, passage_id: str, text: str) -> tuple[Evidence | None, list[str]]:
    """Where the key evidence stands, and what is wrong with it."""
    quote = verdict.key_evidence
    needed = verdict.score > 2
    if quote is None:
        return None, ["key_evidence is required for scores 3 to 5 @ $.key_evidence"] if needed else []
    evidence = locate(quote, {passage_id: text})
    if evidence.found or not needed:
        return evidence if evidence.found else None, []
    if paraphrases(quote, text):
        return evidence.model_copy(update={"passage_id": passage_id, "match": "paraphrase"}), []
    problem = "key_evidence stands nowhere in the passage and is no paraphrase of it; copy the passage's own words"
    return None, [f"{problem}; got {quote[:120]!r} @ $.key_evidence"]


def _span(text: str, evidence: Evidence) -> str:
    return text[evidence.start : evidence.end]


def _counted(some: int, every: int) -> str:
    return f"{some} of {every} pair{'' if every == 1 else 's'}"


def _low(some: int, every: int, bound: int) -> str:
    return f"{_counted(some, every)} {'scores' if some == 1 else 'score'} below {bound}"


def _worked_out(claim: str, span: str) -> bool:
    """Whether every number of the claim stands in the span or is worked out from two that do."""
    given = lexical.numbers(span)
    missing = lexical.numbers(claim) - given
    return bool(missing) and all(lexical.derivable(number, given) for number in missing)


def _misleads(score: int, claim: str, evidence: Evidence | None, text: str) -> bool:
    """Whether a high score rests on a span without the claim's facts; figures worked out at level 4 are exempt."""
    if evidence is None or not evidence.found:
        return False
    return not (score == _IMPLIED and _worked_out(claim, _span(text, evidence)))


if __name__ == "__main__":
    rubric = SourceSupport()
    law.show(rubric, rubric.edition.prompt)
