"""Summary groundedness: how a summary keeps to its source, on five dimensions. One case a record of kind summary.

For finished summaries, not for streaming ones, and not for style; where lives, rights or money hang on the summary a
person decides.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import create_model

from groundtrace.citations import claims
from groundtrace.errors import InvalidVerdict
from groundtrace.evidence import locate, paraphrases, tells_the_same
from groundtrace.lexical import content_words, numbers
from groundtrace.model import Case, Evidence, Finding, Record, Review, Score, Scorecard
from groundtrace.rubrics import copies, law
from groundtrace.rubrics.settings import SummarySettings, weighted, whole
from groundtrace.text import fold, sentences

if TYPE_CHECKING:
    from groundtrace.model import Kind, RootCause

NAME = "summary_groundedness"
DIMENSIONS = {
    "factual_consistency": "factual_consistency",
    "key_information_omission": "omission",
    "unsupported_content_insertion": "insertion",
    "entity_relationship_preservation": "entities",
    "causal_logical_structure": "causal",
}
"""The judge's names and the published ones."""

ITEMS = {"key_information_omission": "omitted_items", "unsupported_content_insertion": "inserted_items"}
"""What a dimension calls its list; the others call it violations."""

RATINGS = (
    (Fraction(9, 2), "Excellent"),
    (Fraction(7, 2), "Good"),
    (Fraction(5, 2), "Fair"),
    (Fraction(3, 2), "Poor"),
    (Fraction(0), "Unacceptable"),
)
KEY_FACT_STATES = ("present", "partial", "missing")

_FUZZY = 90.0
_VIOLATING = tuple(name for name in DIMENSIONS if name not in ITEMS)
_QUOTE = re.compile(
    r"\"([^\"]{2,})\"|“([^”]{2,})”|„([^“”]{2,})[“”]|«([^»]{2,})»|‘([^’]{2,})’|(?<!\w)'(.{2,600}?)'(?!\w)|`([^`]{2,})`"
)


Rating = Literal["Excellent", "Good", "Fair", "Poor", "Unacceptable"]


class _Dimension(law.Verdict):
    score: law.Level
    explanation: str


class Violations(_Dimension):
    """A dimension whose faults are violations."""

    violations: list[str]


class Omissions(_Dimension):
    """What the source turns on and the summary leaves out."""

    omitted_items: list[str]


class Insertions(_Dimension):
    """What the summary adds."""

    inserted_items: list[str]


class Dimensions(law.Verdict):
    """The five dimensions."""

    factual_consistency: Violations
    key_information_omission: Omissions
    unsupported_content_insertion: Insertions
    entity_relationship_preservation: Violations
    causal_logical_structure: Violations


class KeyFact(law.Verdict):
    """Whether the summary holds a fact it must hold."""

    fact: str
    state: Literal["present", "partial", "missing"]


class SummaryVerdict(law.Verdict):
    """The judge's reply on one summary."""

    overall_faithfulness_score: law.Figure
    overall_rating: Rating
    dimensions: Dimensions
    critical_failures: list[str]
    evaluation_notes: law.NullableText = None
    key_facts: list[KeyFact] | None = None
    """The one declared extension of the schema; asked for only where key facts were given."""


def _optional(base: type[_Dimension]) -> type[_Dimension]:
    return create_model(base.__name__, __base__=base, score=(law.Level | None, ...))


@functools.cache
def _partial(unassessed: frozenset[str]) -> type[SummaryVerdict]:
    """The schema of a judge that declares dimensions it can't assess: their scores, and the rating, may be null."""
    kinds: dict[str, type[_Dimension]] = {
        "key_information_omission": Omissions,
        "unsupported_content_insertion": Insertions,
    }
    fields: dict[str, Any] = {
        name: (_optional(kinds.get(name, Violations)), ...) for name in sorted(unassessed & set(DIMENSIONS))
    }
    dimensions = create_model("Dimensions", __base__=Dimensions, **fields)
    return create_model(
        "SummaryVerdict",
        __base__=SummaryVerdict,
        dimensions=(dimensions, ...),
        overall_rating=(Rating | None, ...),
    )


@functools.cache
def _json_schema(unassessed: frozenset[str], *, key_facts: bool) -> dict[str, Any]:
    """The JSON Schema of a reply, made once a judge: the states of key facts are due where some were given."""
    model = _partial(unassessed) if unassessed else SummaryVerdict
    if key_facts:
        return create_model("SummaryVerdict", __base__=model, key_facts=(list[KeyFact], ...)).model_json_schema()
    made = model.model_json_schema()
    made["properties"].pop("key_facts")
    made["$defs"].pop("KeyFact")
    return made


class SummaryGroundedness:
    """How a summary keeps to its source: consistency, omission, insertion, entities, causality, 1 to 5 each.

    Below `review_below` a card goes to review, under high risk below `review_below_high_risk` too. `derived` also
    publishes the rates the five scores imply (omission_rate, insertion_rate, source_fidelity, claim_support_ratio).
    What is not said is as `copy` has it, a user's own summary_groundedness.toml, or as the built-in does.
    """

    name = NAME
    kinds: tuple[Kind, ...] = ("summary",)

    def __init__(
        self,
        *,
        review_below: float | None = None,
        review_below_high_risk: float | None = None,
        derived: bool | None = None,
        copy: Path | None = None,
    ) -> None:
        said = {"review_below": review_below, "review_below_high_risk": review_below_high_risk, "derived": derived}
        self.edition = copies.edition(SummarySettings, lambda _: SummaryVerdict, _figures_of_example, copy, said)
        self._settings = self.edition.settings
        self._weights, self._ratings = whole(self._settings.weights), self._settings.bounds()
        self._mean = f"{weighted(self._settings.weights)}mean"
        self.prompt_hash, self.version = self.edition.prompt_hash, self.edition.version

    def notes(self) -> tuple[str, ...]:
        """What a run should say of a copy."""
        return self.edition.notes()

    def _overall(self, rows: Mapping[str, Mapping[str, Any]]) -> Fraction | None:
        """The mean of the dimensions that have a score, by their weights."""
        values = {name: row["score"] for name, row in rows.items()}
        return law.weighted(values, self._weights) if any(values.values()) else None

    def schema(self, unassessed: frozenset[str]) -> type[SummaryVerdict]:
        """The reply: five dimensions, their mean and rating, what alone would sink the summary."""
        return _partial(unassessed) if unassessed else SummaryVerdict

    def cases(self, record: Record, unassessed: frozenset[str]) -> Iterator[Case | Finding]:
        """One case; an empty source or summary is an error on the card and no question."""
        unread = [name for name in ("context", "answer") if record.gap(name)]
        told = record.gap("answer")
        if told and told.reason == "not_given":  # a file or a caller that leaves the summary empty
            unread.remove("answer")
        ended = law.lacking(record, unread) or _empty(record)
        if ended is not None:
            yield ended
            return
        body: dict[str, Any] = {
            "source": [{"id": passage.id, "text": passage.text} for passage in record.context],
            "summary": record.answer,
        }
        if record.key_facts:
            body["key_facts"] = list(record.key_facts)
        if weighted(self._settings.weights):
            body["weights"] = dict(self._settings.weights)
        schema = _json_schema(unassessed, key_facts=bool(record.key_facts))
        yield Case(NAME, self.version, record.id, "", self.edition.prompt, body, schema)

    def finding(
        self,
        record: Record,
        case: Case,
        verdict: SummaryVerdict,
        unassessed: frozenset[str],
    ) -> Finding:
        """The summary's finding; faults are items that quote nothing, scores without items, wrong figures."""
        source = _texts(record)
        summary: dict[str | None, str] = {None: record.answer or ""}
        rows: dict[str, dict[str, Any]] = {}
        faults: list[str] = []
        dropped = 0
        for name in DIMENSIONS:
            dimension = getattr(verdict.dimensions, name)
            rows[name], lost = _row(name, dimension, source, summary)
            dropped += lost
            faults += _dimension_faults(name, dimension, rows[name], unassessed)
        facts, fact_faults = _key_facts(record, verdict)
        faults += fact_faults
        overall = self._overall(rows)
        due = None if overall is None or unassessed & set(DIMENSIONS) else rating(overall, self._ratings)
        soft = _figure_faults(verdict, overall, due, self._mean)
        stated = claims(record.answer or "", record.citations)  # none: nothing in it can be wrong, whatever its scores
        finding = Finding(
            slot=case.slot,
            value=None if overall is None else law.halves_up(overall, 2),
            rationale=verdict.evaluation_notes or rows["factual_consistency"]["explanation"],
            evidence=law.once(Evidence.trusted(**e) for row in rows.values() for e in row["evidence"]),
            flags=_due(("figure_corrected", soft), ("evidence_unlocated", dropped), ("nothing_stated", not stated)),
            details={
                "dimensions": rows,
                "unassessed": sorted(unassessed & set(DIMENSIONS)),
                "critical_failures": [item for item in verdict.critical_failures if item.strip()],
                "key_facts": facts,
                "evaluation_notes": verdict.evaluation_notes,
                "items_dropped": dropped,
            },
        )
        if faults or soft:
            raise InvalidVerdict([*faults, *soft], standing=None if faults else finding)
        return finding

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        """The summary's card: five dimensions, their mean and rating, critical failures."""
        (finding,) = findings
        if finding.status == "unscored":
            card = law.unscored_card(self, record, findings)
            error = finding.details.get("error")
            return card.model_copy(update={"details": card.details | {"error": error}}) if error else card
        rows: Mapping[str, Mapping[str, Any]] = finding.details["dimensions"]
        overall = self._overall(rows)
        if overall is None:
            nothing = law.unscored("nothing_assessed", "no dimension that this judge can assess")
            return law.unscored_card(self, record, (nothing,))
        label = rating(overall, self._ratings)
        partial = bool(finding.details["unassessed"])
        failures = finding.details["critical_failures"]
        return law.card(
            self,
            record,
            findings,
            scores=_scores(finding, overall, None if partial else label)
            + (self._rates(record, rows) if self._settings.derived else []),
            reviews=self._reviews(record, overall, failures),
            held="figure_corrected" in finding.flags,
            flags={*finding.flags, *(("critical_failure",) if failures else ())},
            partial=partial,
            root_cause=_cause(rows, failures),
            details={
                "overall_faithfulness_score": None if partial else law.halves_up(overall, 2),
                "overall_rating": None if partial else label,
                "critical_failures": failures,
                "key_facts": finding.details["key_facts"],
                "evaluation_notes": finding.details["evaluation_notes"],
                "dimensions_scored": sum(row["score"] is not None for row in rows.values()),
            },
        )

    def _reviews(self, record: Record, overall: Fraction, failures: Sequence[str]) -> list[Review]:
        """What sinks a summary is looked at now; below the bound it is queued."""
        reviews = []
        if failures:
            reviews.append(Review(reason="critical_failure", priority="now", note="; ".join(failures)[:500]))
        high = record.risk == "high"
        bound = self._settings.review_below
        bound = max(bound, self._settings.review_below_high_risk) if high else bound
        if overall < Fraction(str(bound)):
            reviews.append(Review(reason="low_groundedness", note=f"overall below {bound}"))
        return reviews

    def _rates(self, record: Record, rows: Mapping[str, Mapping[str, Any]]) -> list[Score]:
        """The metric names of the rubric's prose; the rates rise when quality falls."""
        scores = {name: row["score"] for name, row in rows.items()}

        def rate(name: str) -> float | None:
            return None if scores[name] is None else (5 - scores[name]) / 4

        naming = ("unsupported_content_insertion", *_VIOLATING)
        blind = any(scores[name] is None for name in naming)
        named = [Evidence.trusted(**evidence) for name in naming for evidence in rows[name]["evidence"]]
        values = (
            ("omission_rate", rate("key_information_omission"), 0, 1),
            ("insertion_rate", rate("unsupported_content_insertion"), 0, 1),
            ("source_fidelity", scores["entity_relationship_preservation"], 1, 5),
            ("claim_support_ratio", None if blind else _support_ratio(record.answer or "", named), 0, 1),
        )
        return [law.score(f"{NAME}.{name}", value, low, high) for name, value, low, high in values]


# --- items and where they stand -------------------------------------------------------------------------------------


def _empty(record: Record) -> Finding | None:
    """The finding that ends a card where there is nothing to summarise or no summary."""
    source = "".join(passage.text for passage in record.context)
    says_something = bool(content_words(source)) or any(map(str.isdigit, source))  # little words alone tell nothing
    for name, there in (("source", says_something), ("summary", bool((record.answer or "").strip()))):
        if not there:
            error = f"the {name} is empty"
            return law.unscored(f"empty_{name}", error).model_copy(update={"details": {"error": error}})
    return None


def _due(*flags: tuple[str, object]) -> tuple[str, ...]:
    """The flags that are due."""
    return tuple(flag for flag, due in flags if due)


def _texts(record: Record) -> dict[str | None, str]:
    return {passage.id: passage.text for passage in record.context}


def _quotes(item: str) -> list[str]:
    """The quoted parts of an item, in any style of quotation marks."""
    return [next(part for part in found if part) for found in _QUOTE.findall(item)]


def _tells(quote: str) -> bool:
    return bool(content_words(quote) or numbers(quote))


def _place(item: str, texts: Mapping[str | None, str]) -> Evidence | None:
    """Where an item stands: by a quoted part, or as a whole, or as a paraphrase that adds nothing.

    Letter for letter goes before nearly, whatever part it is; a part that is nearly there keeps all its numbers, dates
    and names. One of nothing but little words ("the") stands everywhere and shows nothing.
    """
    parts = _quotes(item)
    for fuzzy in (None, _FUZZY):
        for quote in chain(filter(_tells, parts), (item,)):
            evidence = locate(quote, texts, fuzzy=fuzzy)
            if evidence.found and tells_the_same(quote, texts[evidence.passage_id], evidence):
                return evidence
    for key, text in texts.items():
        if paraphrases(item, text):
            return Evidence(quote=item, passage_id=key, match="paraphrase")
    return None


def _row(
    name: str, dimension: Any, source: Mapping[str | None, str], summary: Mapping[str | None, str]
) -> tuple[dict[str, Any], int]:
    """A dimension as it stands on the card, and how many of its items stand nowhere."""
    items = [item for item in getattr(dimension, ITEMS.get(name, "violations")) if item.strip()]
    texts = source if name == "key_information_omission" else summary
    kept, evidence = [], []
    for item in items:
        place = _place(item, texts)
        if place is not None:
            kept.append(item)
            evidence.append(place.model_dump())
            counterpart = _place(item, source) if name in _VIOLATING else None
            if counterpart is not None and counterpart.found:
                evidence.append(counterpart.model_dump())
    row = {"score": dimension.score, "explanation": dimension.explanation, "items": kept, "evidence": evidence}
    return row | {"told": len(items)}, len(items) - len(kept)


def _dimension_faults(name: str, dimension: Any, row: Mapping[str, Any], unassessed: frozenset[str]) -> list[str]:
    """5 with items, less than 5 without one that stands where it should, a score for what can't be assessed."""
    path = f"$.dimensions.{name}"
    items, score = ITEMS.get(name, "violations"), dimension.score
    if name in unassessed:
        if score is not None:
            return [f"declared as not assessed, so its score is null @ {path}.score"]
        return [] if dimension.explanation.strip() else [f"a null score says why @ {path}.explanation"]
    if score == 5 and row["told"]:
        return [f"score 5 has no {items}; got {row['told']} @ {path}.{items}"]
    if score < 5 and not row["items"]:
        where = "source" if name == "key_information_omission" else "summary"
        return [f"score {score} needs one of its {items} to quote the {where}, word for word @ {path}.{items}"]
    return []


def _figures_of_example(settings: SummarySettings, verdict: SummaryVerdict) -> list[str]:
    """A mean or a rating that isn't the scores' under some settings."""
    scores = {name: getattr(verdict.dimensions, name).score for name in DIMENSIONS}
    overall = law.weighted(scores, whole(settings.weights))
    return _figure_faults(verdict, overall, rating(overall, settings.bounds()), f"{weighted(settings.weights)}mean")


def _figure_faults(verdict: SummaryVerdict, overall: Fraction | None, due: str | None, mean: str) -> list[str]:
    """A mean that isn't the scores', a rating that isn't the mean's; `due` is None where a reply has no rating."""
    if overall is None:
        return []
    told, faults, right = verdict.overall_faithfulness_score, [], law.halves_up(overall, 2)
    if not law.agrees(told, overall):
        faults.append(f"the {mean} of the dimensions is {right}; got {told} @ $.overall_faithfulness_score")
    if due is not None and verdict.overall_rating != due:
        faults.append(f"a {mean} of {right} is {due!r}; got {verdict.overall_rating!r} @ $.overall_rating")
    return faults


def _key_facts(record: Record, verdict: SummaryVerdict) -> tuple[list[dict[str, str]], list[str]]:
    """The state of each key fact that was given, and what is wrong with them."""
    told: dict[str, str] = {}
    faults = []
    for at, fact in enumerate(verdict.key_facts or ()):
        name, path = fold(fact.fact).text, f"$.key_facts[{at}].state"
        before = told.setdefault(name, fact.state)
        if before != fact.state:
            faults.append(f"the same key fact is {before!r} above, here {fact.state!r}: {fact.fact[:120]!r} @ {path}")
    states = [(fact, told.get(fold(fact).text)) for fact in record.key_facts]
    faults += [f"key fact without a state: {fact[:120]!r} @ $.key_facts" for fact, state in states if state is None]
    lacking = [fact for fact, state in states if state in ("partial", "missing")]
    if lacking and verdict.dimensions.key_information_omission.score == 5:
        problem = f"a key fact that is partial or missing is an omission, so the score is below 5: {lacking[0][:120]!r}"
        faults.append(f"{problem} @ $.dimensions.key_information_omission.score")
    return [{"fact": fact, "state": state} for fact, state in states if state is not None], faults


# --- scores ---------------------------------------------------------------------------------------------------------


def rating(mean: Fraction, bounds: Sequence[tuple[Fraction, str]] = RATINGS) -> str:
    """The rating of a mean; `bounds` are the lowest mean of each, best first.

    >>> rating(Fraction(7, 2)), rating(Fraction(149, 100))
    ('Good', 'Unacceptable')
    """
    return next(label for bound, label in bounds if mean >= bound)


def _scores(finding: Finding, mean: Fraction, label: str | None) -> list[Score]:
    """The headline or, on a partial card, which has no label, the mean of what was assessed; then each dimension."""
    rows, unassessed = finding.details["dimensions"], finding.details["unassessed"]
    overall = law.halves_up(mean, 2)
    if label is None:
        assessed = [DIMENSIONS[name] for name, row in rows.items() if row["score"] is not None]
        told = f"mean of {len(assessed)} of {len(DIMENSIONS)} dimensions: {', '.join(assessed)}"
        scores = [law.score(f"{NAME}.assessed", overall, 1, 5, rationale=told)]
    else:
        scores = [law.score(NAME, overall, 1, 5, label=label, rationale=finding.rationale)]
    for name, published in DIMENSIONS.items():
        row = rows[name]
        scores.append(
            law.score(
                f"{NAME}.{published}",
                row["score"],
                1,
                5,
                label="not_assessed" if name in unassessed else None,
                rationale=row["explanation"],
                evidence=tuple(Evidence.trusted(**evidence) for evidence in row["evidence"]),
            )
        )
    return scores


def _support_ratio(summary: str, told: Sequence[Evidence]) -> float | None:
    """1 - the share of the summary's sentences that an inserted item or a violation names."""
    spans = sentences(summary)
    if not spans:
        return None
    own = [evidence for evidence in told if evidence.passage_id is None]
    stems = [frozenset(content_words(summary[start:end])) for start, end in spans]
    named = {law.nearest(evidence.quote, stems) for evidence in own if evidence.start is None} - {None}
    places = [(evidence.start, evidence.end or 0) for evidence in own if evidence.start is not None]
    named |= {at for at, (s, e) in enumerate(spans) if any(start < e and end > s for start, end in places)}
    return law.halves_up(1 - Fraction(len(named), len(spans)), 4)


def _cause(rows: Mapping[str, Mapping[str, Any]], failures: Sequence[str]) -> RootCause | None:
    """A summary's source is given, so what falls short was generated so."""
    weak = bool(failures) or any(row["score"] is not None and row["score"] <= 3 for row in rows.values())
    return "generation" if weak else None


if __name__ == "__main__":
    rubric = SummaryGroundedness()
    law.show(rubric, rubric.edition.prompt)
