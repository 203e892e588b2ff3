"""Factual accuracy: what the evidence makes of each claim of an answer. One case a record.

Accuracy against the evidence given, not truth; not for creative work, opinions or streaming output. In medicine,
law and finance a person decides on every grave error.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema, create_model, model_validator
from pydantic_core import PydanticCustomError

from groundtrace import lexical
from groundtrace.citations import claims
from groundtrace.errors import InvalidVerdict
from groundtrace.evidence import locate, paraphrases, tells_the_same
from groundtrace.model import Case, Claim, Evidence, Finding, Record, Review, Score, Scorecard
from groundtrace.rubrics import copies, law
from groundtrace.rubrics.settings import WORTH, AccuracySettings

if TYPE_CHECKING:
    from groundtrace.model import Kind, RootCause

NAME = "factual_accuracy"
RESULTS: dict[str, Fraction | None] = {
    "Supported": Fraction(1),
    "Partially Supported": Fraction(1, 2),
    "Contradicted": Fraction(0),
    "Unverifiable": None,
}
SEVERITIES = ("none", "minor", "moderate", "major", "critical")
"""Mildest first; moderate is three or more minor errors and nothing worse."""

NOTHING_VERIFIABLE = "nothing verifiable"

_SCORED = ("Supported", "Partially Supported", "Contradicted")
_QUOTED = ("Supported", "Contradicted")
_QUOTE_FUZZY = 95.0
_LARGEST_SCORE = 1_000_000


def _claim_score(*allowed: Fraction) -> Any:
    """The type of a claim's score: a number, however it is written, or null.

    The schema names those there are; another number is read too, for what a result scores is ours to say.
    """
    shown = [int(score) if score.denominator == 1 else float(score) for score in allowed]
    wanted = f"Input should be {', '.join(map(str, shown))} or null"

    def read(value: object) -> Fraction | None:
        if value is None:
            return None
        number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
        if number and abs(float(str(value))) <= _LARGEST_SCORE:
            return Fraction(str(value))
        raise PydanticCustomError("claim_score", "{wanted}", {"wanted": wanted})

    return Annotated[Fraction | None, PlainValidator(read), WithJsonSchema({"enum": [*shown, None]})]


if TYPE_CHECKING:
    ClaimScore = Fraction | None
else:
    ClaimScore = _claim_score(*(score for score in RESULTS.values() if score is not None))


class ClaimVerification(law.Verdict):
    """What the judge made of one claim."""

    ignores: ClassVar[Mapping[str, Sequence[str]]] = {
        "Supported": ("severity",), "Unverifiable": ("severity", "evidence_quote"),
    }  # fmt: skip

    claim_id: str = Field(min_length=1)
    claim_text: str
    verification_result: Literal["Supported", "Contradicted", "Partially Supported", "Unverifiable"]
    evidence_quote: law.NullableText
    score: ClaimScore
    severity: Annotated[Literal["Critical", "Major", "Minor"] | None, BeforeValidator(law.null)]
    judge_rationale: str

    @model_validator(mode="before")
    @classmethod
    def _without_what_is_ignored(cls, told: Any) -> Any:
        """A severity where nothing is wrong and a quote where nothing is known are ignored, whatever they say."""
        result = told.get("verification_result") if isinstance(told, dict) else None
        ignored = cls.ignores.get(str(result), ())
        return told | {name: None for name in ignored if name in told} if ignored else told


class AccuracyVerdict(law.Verdict):
    """The judge's reply on one text."""

    overall_factual_accuracy_score: law.Figure | None
    total_verifiable_claims: Annotated[
        int, BeforeValidator(law.whole), WithJsonSchema({"minimum": 0, "type": "integer"})
    ]
    claim_verifications: list[ClaimVerification]
    overall_summary: str


Worth = tuple[tuple[str, Fraction | None], ...]
"""What every result scores, the four's and those of the user's own."""


@functools.cache
def _schema(worth: Worth) -> type[AccuracyVerdict]:
    """The reply where results score as a user set it, or claims may have results of the user's own."""
    if worth == tuple(RESULTS.items()):
        return AccuracyVerdict
    scores = dict(worth)
    results: Any = Literal[tuple(scores)]
    numbers = [scores[name] for name in RESULTS if name in _SCORED]
    numbers += [score for name, score in worth if name not in RESULTS]
    claim = create_model(
        "ClaimVerification",
        __base__=ClaimVerification,
        verification_result=(results, ...),
        score=(_claim_score(*dict.fromkeys(number for number in numbers if number is not None)), ...),
    )
    short = _short(scores)
    claim.ignores = {
        name: ("severity",) if score is not None else ("severity", "evidence_quote")
        for name, score in worth
        if name not in short
    }
    return create_model("AccuracyVerdict", __base__=AccuracyVerdict, claim_verifications=(list[claim], ...))


def _short(worth: Mapping[str, Fraction | None]) -> frozenset[str]:
    """The results that say something is wrong: they score less than what is supported, and have a severity."""
    best = worth["Supported"] or Fraction(1)
    return frozenset(name for name, score in worth.items() if score is not None and score < best)


def _verdict(settings: AccuracySettings) -> type[AccuracyVerdict]:
    return _schema(tuple(settings.worth().items()))


class FactualAccuracy:
    """What share of an answer's checkable claims the evidence bears out, 0 to 1, and how grave the worst error is.

    `domain_constraints` tells the judge what counts as a grave error in your field. More than `untraced_share` of the
    text's sentences without a claim flags the extraction; fewer than `verifiable_floor` claims that the evidence
    speaks of flags the evidence. What is not said is as `copy` has it, a user's own factual_accuracy.toml, or as the
    built-in does.
    """

    name = NAME
    kinds: tuple[Kind, ...] = ("answer", "summary")

    def __init__(
        self,
        *,
        domain_constraints: str | None = None,
        untraced_share: float | None = None,
        verifiable_floor: float | None = None,
        copy: Path | None = None,
    ) -> None:
        said = {
            "domain_constraints": domain_constraints,
            "untraced_share": untraced_share,
            "verifiable_floor": verifiable_floor,
        }
        self.edition = copies.edition(AccuracySettings, _verdict, _figures_of_example, copy, said)
        self._settings = self.edition.settings
        self._verdict = _verdict(self._settings)
        self._json_schema = self._verdict.model_json_schema()
        self._results = self._settings.worth()
        self._short = _short(self._results)
        self.prompt_hash, self.version = self.edition.prompt_hash, self.edition.version

    def notes(self) -> tuple[str, ...]:
        """What a run should say of a copy."""
        return self.edition.notes()

    def schema(self, unassessed: frozenset[str]) -> type[AccuracyVerdict]:  # noqa: ARG002 - claims, not dimensions
        """The reply: each claim with its result, and their mean."""
        return self._verdict

    def cases(self, record: Record, unassessed: frozenset[str]) -> Iterator[Case | Finding]:  # noqa: ARG002 - see schema
        """One case; a rule decides where the text states nothing or no evidence was retrieved."""
        ended = law.lacking(record, ("answer", "context"))
        if ended is not None:
            yield ended
            return
        stated = claims(record.answer or "", record.citations)
        if not stated:
            yield law.unscored("no_claims", "the answer states nothing that could be checked")
            return
        if law.blank(record):
            why = "nothing was retrieved"
            rows = [_row(claim.id, claim.text, ("Unverifiable", None), None, why) for claim in stated]
            yield _finding(rows, 0, "nothing was retrieved", flags=["retrieval_empty"], decided_by="rule")
            return
        body: dict[str, Any] = {
            "target_text": record.answer,
            "evidence": [{"id": passage.id, "text": passage.text} for passage in record.context],
        }
        if self._settings.domain_constraints:
            body["domain_constraints"] = self._settings.domain_constraints
        if self._settings.scores != WORTH:
            body["scores"] = dict(self._settings.scores)
        if record.risk == "high":
            body["risk_level"] = "high"
        yield Case(NAME, self.version, record.id, "", self.edition.prompt, body, self._json_schema)

    def finding(
        self,
        record: Record,
        case: Case,  # noqa: ARG002 - there is one
        verdict: AccuracyVerdict,
        unassessed: frozenset[str],  # noqa: ARG002 - see schema
    ) -> Finding:
        """The text's finding; faults are untraced claims, unlocated quotes and figures that aren't the sum."""
        answer = record.answer or ""
        texts: dict[str | None, str] = {passage.id: passage.text for passage in record.context}
        traced = [_traced(claim.claim_text, answer) for claim in verdict.claim_verifications]
        hard, lost = _claim_faults(verdict, traced, self._results), []
        rows = []
        for at, claim in enumerate(verdict.claim_verifications):
            result = claim.verification_result
            evidence = _located(claim, texts)
            assessed = evidence is not None or result not in _QUOTED
            lost += [] if assessed else [_unlocated(at, claim)]
            told = (result, self._results[result])
            row = _row(claim.claim_id, claim.claim_text, told, evidence, claim.judge_rationale)
            rows.append(row | {"severity": claim.severity, "assessed": assessed})
        stated = claims(answer, record.citations)
        untraced = _untraced(stated, [evidence for evidence in traced if evidence is not None])
        soft = _figure_faults(verdict, self._results)
        flags = [flag for flag, due in (("claim_unassessed", lost), ("figure_corrected", soft)) if due]
        if stated and Fraction(untraced, len(stated)) > Fraction(str(self._settings.untraced_share)):
            flags.append("extraction_incomplete")
        finding = _finding(rows, untraced, verdict.overall_summary, flags=flags)
        if hard or lost or soft:
            raise InvalidVerdict([*hard, *lost, *soft], standing=None if hard else finding)
        return finding

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        """The text's card: the share of verifiable claims borne out, the worst error, what share was verifiable."""
        (finding,) = findings
        if finding.status == "unscored":
            return law.unscored_card(self, record, findings)
        rows: list[dict[str, Any]] = finding.details["claims"]
        assessed = [row for row in rows if row["assessed"]]
        verifiable = [row for row in assessed if row["score"] is not None]
        partial = len(assessed) < len(rows) or "claims_left_out" in finding.flags
        apart = {name for name, score in self._settings.extra_scores().items() if score is None}
        asked = [row for row in assessed if row["verification_result"] not in apart]
        share = Fraction(len(verifiable), len(asked)) if asked else None
        severity = _severity(verifiable, self._settings.moderate_from)
        flags = set(finding.flags)
        if share is not None and share < Fraction(str(self._settings.verifiable_floor)):
            flags.add("evidence_incomplete")
        overall = law.mean(self._results[row["verification_result"]] or 0 for row in verifiable) if verifiable else None
        return law.card(
            self,
            record,
            findings,
            scores=_scores(finding, overall, asked, severity, partial=partial),
            reviews=_reviews(verifiable, flags),
            held="figure_corrected" in flags,
            flags=flags,
            partial=partial,
            root_cause=_cause(
                record,
                [row for row in verifiable if row["verification_result"] in self._short],
                unknown="evidence_incomplete" in flags or (overall is None and not (assessed and not asked)),
            ),
            details={
                "claims": rows,
                "overall_score": None if overall is None or partial else law.halves_up(overall, 4),
                "hallucination_severity": None if partial else severity,
                "total_verifiable_claims": len(verifiable),
                "results": dict(Counter(row["verification_result"] for row in rows)),
                "sentences_untraced": finding.details["untraced"],
                "overall_summary": finding.rationale,
            },
        )


# --- one claim ------------------------------------------------------------------------------------------------------


def _row(
    claim_id: str, text: str, told: tuple[str, Fraction | None], evidence: Evidence | None, why: str
) -> dict[str, Any]:
    """A claim as it stands on the card: `told` is the result and what that scores, whatever the judge wrote."""
    result, score = told
    return {
        "claim_id": claim_id,
        "claim_text": text,
        "verification_result": result,
        "score": None if score is None else float(score),
        "severity": None,
        "evidence": evidence.model_dump() if evidence else None,
        "source_id": evidence.passage_id if evidence else None,
        "judge_rationale": why,
        "assessed": True,
    }


def _located(claim: ClaimVerification, texts: Mapping[str | None, str]) -> Evidence | None:
    """Where the quote stands, with all its numbers, dates and names; None where it doesn't."""
    quote = claim.evidence_quote
    if quote is None or claim.verification_result == "Unverifiable":
        return None
    evidence = locate(quote, texts, fuzzy=_QUOTE_FUZZY)
    held = evidence.found and tells_the_same(quote, texts[evidence.passage_id], evidence)
    return evidence if held else None


def _unlocated(at: int, claim: ClaimVerification) -> str:
    if claim.evidence_quote is None:
        problem = f"{claim.verification_result} needs a quote from the evidence"
    else:
        problem = f"the quote stands nowhere in the evidence; copy its own words; got {claim.evidence_quote[:120]!r}"
    return f"{problem} @ $.claim_verifications[{at}].evidence_quote"


def _traced(claim: str, answer: str) -> Evidence | None:
    """Where a claim stands in the text; found by its words or as a paraphrase that adds nothing."""
    evidence = locate(claim, {None: answer})
    if evidence.found and tells_the_same(claim, answer, evidence):
        return evidence
    return Evidence(quote=claim, match="paraphrase") if paraphrases(claim, answer) else None


# --- what a schema can't say ----------------------------------------------------------------------------------------


def _claim_faults(
    verdict: AccuracyVerdict, traced: Sequence[Evidence | None], results: Mapping[str, Fraction | None]
) -> list[str]:
    """Ids that stand twice, claims that aren't the text's, errors without a severity, nulls without a reason."""
    faults = []
    ids = Counter(claim.claim_id for claim in verdict.claim_verifications)
    short = _short(results)
    for at, claim in enumerate(verdict.claim_verifications):
        path, result = f"$.claim_verifications[{at}]", claim.verification_result
        if ids[claim.claim_id] > 1:
            faults.append(f"claim_id {claim.claim_id!r} stands {ids[claim.claim_id]} times @ {path}.claim_id")
        if traced[at] is None:
            faults.append(f"the text makes no such claim; got {claim.claim_text[:120]!r} @ {path}.claim_text")
        if result in short and claim.severity is None:
            faults.append(f"{result} needs Critical, Major or Minor @ {path}.severity")
        if results[result] is None and not claim.judge_rationale.strip():
            faults.append(f"{result} says why in its rationale @ {path}.judge_rationale")
    return faults


def _figures_of_example(settings: AccuracySettings, verdict: AccuracyVerdict) -> list[str]:
    return _figure_faults(verdict, settings.worth())


def _figure_faults(verdict: AccuracyVerdict, results: Mapping[str, Fraction | None]) -> list[str]:
    """Scores that aren't their result's, a count and a mean that aren't the claims'."""
    faults = []
    for at, claim in enumerate(verdict.claim_verifications):
        due = results[claim.verification_result]
        if due != claim.score:
            want, told = ("null" if score is None else law.plain(float(score)) for score in (due, claim.score))
            faults.append(f"{claim.verification_result} is {want}; got {told} @ $.claim_verifications[{at}].score")
    scored = [results[claim.verification_result] for claim in verdict.claim_verifications]
    verifiable = [score for score in scored if score is not None]
    if verdict.total_verifiable_claims != len(verifiable):
        counted = verdict.total_verifiable_claims
        faults.append(f"{len(verifiable)} claims are verifiable; got {counted} @ $.total_verifiable_claims")
    if not verifiable:
        return faults  # nothing verifiable: the judge's own figure is ignored
    exact, figure = sum(verifiable, Fraction(0)) / len(verifiable), verdict.overall_factual_accuracy_score
    if figure is None or not law.agrees(figure, exact):
        right = law.halves_up(exact, 2)
        shown = "null" if figure is None else figure
        faults.append(f"the mean of the verifiable claims is {right}; got {shown} @ $.overall_factual_accuracy_score")
    return faults


def _untraced(stated: Sequence[Claim], traced: Sequence[Evidence]) -> int:
    """How many sentences of the text that state something no claim comes from."""
    stems = [frozenset(lexical.content_words(sentence.text)) for sentence in stated]
    retold = {law.nearest(evidence.quote, stems) for evidence in traced if evidence.start is None}
    spans = [(evidence.start, evidence.end or 0) for evidence in traced if evidence.start is not None]
    touched = {
        at
        for at, sentence in enumerate(stated)
        if at in retold or any(start < sentence.end and end > sentence.start for start, end in spans)
    }
    # A claim is found where it stands first; a text that says the same again is traced there too.
    said = {frozenset(lexical.content_words(evidence.quote)) for evidence in traced} | {stems[at] for at in touched}
    return sum(at not in touched and stems[at] not in said for at in range(len(stated)))


# --- finding, scores, review ----------------------------------------------------------------------------------------


def _finding(
    rows: list[dict[str, Any]],
    untraced: int,
    summary: str,
    *,
    flags: Sequence[str] = (),
    decided_by: Literal["rule", "full"] = "full",
) -> Finding:
    evidence = law.once(Evidence.trusted(**row["evidence"]) for row in rows if row["evidence"])
    return Finding(
        slot="",
        decided_by=decided_by,
        rationale=summary,
        evidence=evidence,
        flags=tuple(flags),
        details={"claims": rows, "untraced": untraced},
    )


def _severity(verifiable: Sequence[Mapping[str, Any]], moderate_from: int) -> str:
    """The worst claim's severity; so many minor errors and nothing worse are moderate."""
    found = Counter(str(row["severity"]).lower() for row in verifiable)
    for severity in ("critical", "major"):
        if found[severity]:
            return severity
    if found["minor"] >= moderate_from:
        return "moderate"
    return "minor" if found["minor"] else "none"


def _scores(
    finding: Finding, overall: Fraction | None, asked: Sequence[Mapping[str, Any]], severity: str, *, partial: bool
) -> list[Score]:
    """The headline or, on a partial card, the mean of what was assessed; then what share of `asked` is verifiable."""
    rows = finding.details["claims"]
    silent = [str(row["claim_text"]) for row in asked if row["score"] is None]
    share = Fraction(len(asked) - len(silent), len(asked)) if asked else None
    why = NOTHING_VERIFIABLE if overall is None else finding.rationale
    counted = f"{sum(row['assessed'] for row in rows)} of {len(rows)} claims assessed; "
    if "claims_left_out" in finding.flags:
        counted += f"{finding.details['untraced']} more sentences were not gone through; "
    headline = law.score(
        f"{NAME}.assessed" if partial else NAME,
        None if overall is None else law.halves_up(overall, 4),
        0,
        1,
        label="not_applicable" if overall is None else None if partial else severity,
        rationale=counted + why if partial else why,
        evidence=finding.evidence,
    )
    verifiable = law.score(
        f"{NAME}.verifiable_share",
        None if share is None else law.halves_up(share, 4),
        0,
        1,
        label="not_applicable" if share is None else None,
        rationale=law.silence(silent, len(asked)),
    )
    return [headline, verifiable]


def _reviews(verifiable: Sequence[Mapping[str, Any]], flags: set[str]) -> list[Review]:
    """Grave claims, and cards that are less than they look."""
    wrong = Counter(row["severity"] for row in verifiable)
    reviews = []
    if wrong["Critical"]:
        reviews.append(Review(reason="critical_claim", priority="now", note=_errors(wrong, "Critical")))
    if wrong["Major"]:
        reviews.append(Review(reason="major_claim", note=_errors(wrong, "Major")))
    notes = {
        "extraction_incomplete": "sentences of the text gave no claim",
        "claim_unassessed": "a quote stood nowhere in the evidence, twice",
    }
    return reviews + [Review(reason=flag, note=note) for flag, note in notes.items() if flag in flags]


def _errors(wrong: Mapping[str, int], severity: str) -> str:
    return f"{wrong[severity]} {severity.lower()} error{'' if wrong[severity] == 1 else 's'}"


def _cause(record: Record, short: Sequence[Mapping[str, Any]], *, unknown: bool) -> RootCause | None:
    """Why the card falls short; None where it doesn't. Of what is `unknown` the evidence does not speak.

    What the evidence speaks against was retrieved, so it was generated against it.
    """
    if short and all(row["evidence"] for row in short):
        return "generation"
    return law.root_cause(record) if short or unknown else None


if __name__ == "__main__":
    rubric = FactualAccuracy()
    law.show(rubric, rubric.edition.prompt)
