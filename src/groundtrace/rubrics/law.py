"""What holds for every rubric: strict replies, our own arithmetic, gaps, held cards, root causes, version hashes."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from groundtrace import lexical
from groundtrace.model import Finding, Review, Score, Scorecard, card_id

if TYPE_CHECKING:
    from groundtrace.model import Evidence, Record, RootCause, Status
    from groundtrace.ports import Rubric

QUERY_COVER = 0.5
"""Share of the query's meaning a context must hold before a weak answer is blamed on the generation."""


class Verdict(BaseModel):
    """A judge's reply as a rubric reads it: strict types, unknown fields kept aside to be counted, no NaN."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", allow_inf_nan=False)


def whole(value: object) -> object:
    """4.0 is the integer 4; 4.5, true and "4" stay what they are and fail."""
    if isinstance(value, (float, Decimal)) and not isinstance(value, bool) and value == int(value):
        return int(value)
    return value


def null(value: object) -> object:
    """Some judges write null as text."""
    return None if isinstance(value, str) and value.strip() in ("", "None", "N/A") else value


def _float(value: object) -> object:
    return float(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) else value


def _decimal(value: object) -> object:
    return Decimal(str(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


Level = Annotated[int, BeforeValidator(whole), Field(ge=1, le=5)]
"""A level of a graded scale, 1..5."""

NullableText = Annotated[str | None, BeforeValidator(null)]
"""Text, or null; '', 'None' and 'N/A' are null."""

Share = Annotated[float, BeforeValidator(_float), Field(ge=0, le=1)]
"""A number 0..1."""

Figure = Annotated[Decimal, BeforeValidator(_decimal), WithJsonSchema({"type": "number"})]
"""A number the judge worked out, with the digits it wrote."""


# --- in words ---------------------------------------------------------------------------------------------------------

_NAMED, _SHOWN = 3, 160
"""How many claims are named, and how many characters of each."""


def silence(silent: Sequence[str], asked: int) -> str:
    """On which of the claims asked about the evidence is silent, a few of them named.

    >>> silence(["It has two beds"], 2)
    "the evidence is silent on 1 of 2 claims: 'It has two beds'"
    """
    if not asked:
        return "there is no claim to hold against the evidence"
    if not silent:
        return f"the evidence speaks of {'the one claim' if asked == 1 else f'all {asked} claims'}"
    shown = ", ".join(repr(claim if len(claim) <= _SHOWN else f"{claim[: _SHOWN - 1]}…") for claim in silent[:_NAMED])
    more = " ..." if len(silent) > _NAMED else ""
    return f"the evidence is silent on {len(silent)} of {asked} claim{'' if asked == 1 else 's'}: {shown}{more}"


# --- our own arithmetic ---------------------------------------------------------------------------------------------


def mean(values: Iterable[float | Fraction]) -> Fraction:
    """The exact mean of at least one value.

    >>> mean([4, 5, 4])
    Fraction(13, 3)
    """
    exact = [Fraction(value) for value in values]
    return sum(exact, Fraction(0)) / len(exact)


def weighted(values: Mapping[str, int | None], weights: Mapping[str, int]) -> Fraction:
    """The exact mean of the levels there are, each with its weight; one that is null takes its weight with it.

    >>> weighted({"a": 5, "b": 2, "c": None}, {"a": 2, "b": 1, "c": 9})
    Fraction(4, 1)
    """
    return _weighted(tuple((value, weights[name]) for name, value in values.items() if value is not None))


@functools.lru_cache(maxsize=1024)  # there are few levels, and a finding and its card ask for the same
def _weighted(there: tuple[tuple[int, int], ...]) -> Fraction:
    return Fraction(sum(weight * value for value, weight in there), sum(weight for _, weight in there))


@functools.lru_cache(maxsize=1024)
def halves_up(value: Fraction, digits: int) -> float:
    """Round with halves going up.

    >>> halves_up(Fraction(17, 4), 1), halves_up(Fraction(13, 3), 2)
    (4.3, 4.33)
    """
    scale = 10**digits
    return float(Fraction((value * scale + Fraction(1, 2)).__floor__(), scale))


def agrees(figure: Decimal, exact: Fraction) -> bool:
    """Whether a judge's figure is ours but for rounding at the decimals it wrote, bound included.

    >>> [agrees(Decimal(figure), Fraction(17, 4)) for figure in ("4.3", "4.2", "4.1", "4.25", "4")]
    [True, True, False, True, True]
    """
    exponent = figure.as_tuple().exponent
    decimals = max(0, -exponent) if isinstance(exponent, int) else 0
    # |figure - exact| <= 1 / (2 * 10**decimals), multiplied out: whole numbers need not be made fractions first.
    (over, under), below = figure.as_integer_ratio(), exact.denominator
    scale: int = 2 * 10**decimals
    return abs(over * below - exact.numerator * under) * scale <= under * below


def plain(number: float) -> str:
    """A number as a person writes it, every digit kept.

    >>> plain(4.0), plain(4.4999999), plain(0.5)
    ('4', '4.4999999', '0.5')
    """
    return repr(float(number)).removesuffix(".0")


# --- where a paraphrase comes from ----------------------------------------------------------------------------------


def nearest(text: str, places: Sequence[frozenset[str]]) -> int | None:
    """The place, of those whose stems are given, that most of a text's words come from; None where none does.

    >>> nearest("The bridge carries trams", [frozenset({"bridg"}), frozenset({"bridg", "tram"})])
    1
    """
    wanted = frozenset(lexical.content_words(text))
    best = max(range(len(places)), key=lambda at: (len(wanted & places[at]), -at), default=None)
    return best if best is not None and wanted & places[best] else None


# --- versions -----------------------------------------------------------------------------------------------------


def digest(*parts: object) -> str:
    """Twelve hex digits that change when any part does."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def version(rules: int, prompt_text: str, schema: type[BaseModel], settings: Mapping[str, object]) -> str:
    """A rubric's version: its rules' number and a hash of everything that can move a score."""
    return f"{rules}.{digest(rules, QUERY_COVER, prompt_text, schema.model_json_schema(), settings)}"


def show(rubric: Rubric, prompt: str) -> None:
    """Print a rubric's prompt, schema and version: what `python -m groundtrace.rubrics.NAME` does."""
    schema = rubric.schema(frozenset()).model_json_schema()
    print(prompt)  # noqa: T201 - printing is this function's purpose
    print("## JSON Schema of the reply\n")  # noqa: T201
    print(json.dumps(schema, indent=2, ensure_ascii=False))  # noqa: T201
    print(f"\n## Version\n\n{rubric.name} {rubric.version}, prompt {rubric.prompt_hash}")  # noqa: T201


# --- what can't be judged is not judged -----------------------------------------------------------------------------


def lacking(record: Record, needs: Sequence[str]) -> Finding | None:
    """The finding that ends a card before any question, where a field the rubric needs is not whole."""
    for name in needs:
        gap = record.gap(name)
        if gap is not None:
            rationale = f"{name} could not be read: {gap.reason}" + (f"; {gap.remedy}" if gap.remedy else "")
            return unscored(f"{name}_{gap.reason}", rationale, flags=("trace_gap",))
        if name != "context" and not (getattr(record, name) or "").strip():
            return unscored(f"{name}_missing", f"the record has no {name}", flags=("trace_gap",))
    return None


def unscored(reason: str, rationale: str, *, slot: str = "", flags: tuple[str, ...] = ()) -> Finding:
    """A rule's finding that nothing can be scored here, and why."""
    return Finding(slot=slot, status="unscored", decided_by="rule", reason=reason, rationale=rationale, flags=flags)


# --- the card -------------------------------------------------------------------------------------------------------


def card(
    rubric: Rubric,
    record: Record,
    findings: Sequence[Finding],
    *,
    scores: Sequence[Score],
    reviews: Sequence[Review] = (),
    held: bool = False,
    flags: Iterable[str] = (),
    partial: bool = False,
    root_cause: RootCause | None = None,
    refer: tuple[str, ...] = (),
    details: Mapping[str, Any] | None = None,
) -> Scorecard:
    """The card of a record that was judged; `held` cards wait for a person before their scores count.

    Under high risk everything that should be reviewed must be: any review holds the card.
    """
    every = sorted({flag for finding in findings for flag in finding.flags} | set(flags))
    due = list(_distinct((*reviews, *_reviews_of(every))))
    status: Status = "pending_review" if held or (record.risk == "high" and due) else "scored"
    confidences = [finding.confidence for finding in findings if finding.confidence is not None]
    return _card(
        rubric,
        record,
        findings,
        status=status,
        partial=partial,
        scores=tuple(scores),
        review=tuple(due),
        flags=tuple(every),
        confidence=min(confidences, default=None),
        root_cause=root_cause,
        refer=refer,
        details=dict(details or {}),
    )


def unscored_card(rubric: Rubric, record: Record, findings: Sequence[Finding]) -> Scorecard:
    """The card of a record that could not be judged: no scores, the reason, and a review where a judge failed."""
    first = next((f for f in findings if f.status == "unscored"), None)
    flags = sorted({flag for finding in findings for flag in finding.flags})
    reason = first.reason if first else "nothing_to_judge"
    return _card(
        rubric,
        record,
        findings,
        status="unscored",
        reason=reason,
        flags=tuple(flags),
        review=tuple(_reviews_of(flags)),
        root_cause="trace_gap" if "trace_gap" in flags else None,
        details={"rationale": first.rationale} if first else {},
    )


def _card(rubric: Rubric, record: Record, findings: Sequence[Finding], **concluded: Any) -> Scorecard:
    """What a card says of its record and its rubric, and beside it what was concluded."""
    return Scorecard.trusted(
        id=card_id(record.ref, rubric.name),
        record_id=record.id,
        ref=record.ref,
        targets=record.targets,
        rubric=rubric.name,
        version=rubric.version,
        prompt_hash=rubric.prompt_hash,
        risk=record.risk,
        findings=tuple(findings),
        source_ids=tuple([passage.id for passage in record.context]),
        slices=record.slices,
        tags=record.tags,
        gaps=record.gaps,
        **concluded,
    )


_REVIEWED = {
    "judge_failed": "the judge gave no usable reply",
    "judge_silent": "the judge gave no reply",
    "invalid_verdict": "the judge's reply broke the contract twice",
    "figure_corrected": "the judge's arithmetic was wrong twice; ours stands",
    "possible_contradiction": "negation or opposite words where the texts otherwise agree",
    "language_not_covered": "the judge does not cover this language",
    "partly_unscored": "a part of the card could not be scored",
    "claims_left_out": "the text has more claims than the judge went through",
    "votes_differ": "asked several times, the judge did not say the same",
    "nothing_stated": "the text states nothing that could be wrong, a question for one",
}
"""Flags that send any rubric's card to a person."""


def once(quotes: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Quotes, without those that are like one before."""
    # Their fields are compared: it takes a fifth of the time.
    return tuple({tuple(vars(quote).values()): quote for quote in quotes}.values())


def score(
    name: str,
    value: float | None,
    low: int,
    high: int,
    *,
    label: str | None = None,
    rationale: str = "",
    evidence: tuple[Evidence, ...] = (),
) -> Score:
    """A score of checked levels or of our own arithmetic, which lies on its scale."""
    number = None if value is None else float(value)
    return Score.trusted(
        name=name,
        value=number,
        low=float(low),
        high=float(high),
        label=label,
        rationale=rationale,
        evidence=evidence,
    )


def _reviews_of(flags: Iterable[str]) -> Iterable[Review]:
    return (Review(reason=flag, note=_REVIEWED[flag]) for flag in flags if flag in _REVIEWED)


def _distinct(reviews: Iterable[Review]) -> Iterable[Review]:
    """One review a reason, the most urgent kept."""
    kept: dict[str, Review] = {}
    for review in reviews:
        if review.reason not in kept or review.priority == "now":
            kept[review.reason] = review
    return kept.values()


def blank(record: Record) -> bool:
    """Whether nothing that could be read was retrieved: no passage, or none with a word in it."""
    return not any(passage.text.strip() for passage in record.context)


def root_cause(record: Record, *, citation: bool = False) -> RootCause:
    """Why a card falls short: nothing retrieved, the wrong thing retrieved, a wrong citation, or the generation.

    `citation` says that the claims stand in the context, yet not where the answer says they do.
    """
    if record.gaps and any(gap.field == "context" for gap in record.gaps):
        return "trace_gap"
    if blank(record):
        return "retrieval_empty"
    if citation:
        return "citation"
    if record.query and lexical.content_words(record.query):
        passages = lexical.Passages([passage.text for passage in record.context])
        if lexical.compare(record.query, passages).cover < QUERY_COVER:
            return "retrieval_miss"
    return "generation"
