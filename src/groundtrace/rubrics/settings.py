"""What can be set of each rubric, and within what bounds; the values themselves stand in the NAME.toml beside it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from groundtrace.model import Value
from groundtrace.rubrics import law
from groundtrace.rubrics.copies import Example, Settings


def _told(text: str) -> str:
    if not text.strip():
        raise ValueError("must say something")
    return text


def _one_line(text: str) -> str:
    if len(text.splitlines()) > 1:
        raise ValueError("must stand on one line")
    return _told(text)


def _null(value: object) -> object:
    """TOML has no null: a score that is left out, or written "null", is none."""
    return None if value == "null" else value


def _differ(weights: Mapping[str, float]) -> bool:
    return len(set(weights.values())) > 1


def _even(weights: dict[str, float]) -> dict[str, float]:
    """Equal weights are no weights."""
    return weights if _differ(weights) else dict.fromkeys(weights, 1.0)


Text = Annotated[str, AfterValidator(_told)]
Line = Annotated[str, AfterValidator(_one_line)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Bound = Annotated[float, Field(strict=True, ge=1, le=5)]
"""A place on a scale from 1 to 5."""

Count = Annotated[int, Field(strict=True, ge=1, le=100_000)]
Weights = Annotated[dict[str, Annotated[float, Field(strict=True, gt=0, le=1000)]], AfterValidator(_even)]


def exact(scores: Mapping[str, float]) -> dict[str, Fraction]:
    """Scores as they were written, for an exact mean."""
    return {name: Fraction(str(score)) for name, score in scores.items()}


def whole(weights: Mapping[str, float]) -> dict[str, int]:
    """Weights as whole numbers that are to each other as what was written, for an exact mean.

    >>> whole({"a": 1.5, "b": 1.0, "c": 0.25})
    {'a': 6, 'b': 4, 'c': 1}
    """
    written = exact(weights)
    scale = lcm(*(weight.denominator for weight in written.values()))
    return {name: int(weight * scale) for name, weight in written.items()}


def _weighting(weights: Mapping[str, float]) -> str:
    """What the prompt says of weights that differ."""
    if not _differ(weights):
        return ""
    counts = ", ".join(f"`{name}` counts {law.plain(weight)}" for name, weight in weights.items())
    return (
        f"  It is a weighted mean, by the `weights`: {counts}. A dimension without a score is left out with its weight."
    )


def weighted(weights: Mapping[str, float]) -> Literal["", "weighted "]:
    """The word before "mean", where the weights differ."""
    return "weighted " if _differ(weights) else ""


class SupportExample(Example):
    """A claim and the passage it is held against."""

    claim: Text
    passage: Text


class SupportSettings(Settings):
    """What can be set of source support.

    There are no weights to set: an answer's score is a mean over its claims, each once, and a claim has no kind that
    could weigh more than another's.
    """

    name: ClassVar[str] = "source_support"
    rules: ClassVar[int] = 2
    wording: ClassVar[tuple[str, ...]] = ("levels",)

    pairs: Literal["auto", "cited", "all"]
    candidates: Count
    most_pairs: Count
    review_below: Annotated[int, Field(strict=True, ge=1, le=5)]
    review_confidence: Share
    supported: Annotated[int, Field(strict=True, ge=2, le=5)]
    uncited_cover: Share
    backed: Share
    levels: dict[str, Line]
    examples: tuple[SupportExample, ...] = ()

    def hashed(self) -> dict[str, Any]:
        """All but the wording, which stands in the prompt."""
        names = {"pairs", "candidates", "review_below", "review_confidence", "most_pairs", "uncited_cover"}
        both = {"supported": self.supported, "backed": self.backed}
        return self.model_dump(include=names) | {"constants": tuple(both.values())}


WORTH = {"Supported": 1.0, "Partially Supported": 0.5, "Contradicted": 0.0}
"""What a result scores where nobody set it; what is Unverifiable has no score."""


class AccuracyExample(Example):
    """A text and the evidence it is held against."""

    text: Text
    evidence: tuple[Text, ...]


class ExtraResult(Value):
    """A result of the user's own: what it is called, when it is given, and its score, if it has one."""

    name: Annotated[Line, Field(max_length=60)]
    definition: Text
    score: Annotated[Share | None, BeforeValidator(_null)] = None


class AccuracySettings(Settings):
    """What can be set of factual accuracy."""

    name: ClassVar[str] = "factual_accuracy"
    rules: ClassVar[int] = 2
    wording: ClassVar[tuple[str, ...]] = ("results", "severities")

    domain_constraints: str
    untraced_share: Share
    verifiable_floor: Share
    moderate_from: Count
    scores: dict[str, Share]
    results: dict[str, Text]
    severities: dict[str, Text]
    extra_results: tuple[ExtraResult, ...] = ()
    examples: tuple[AccuracyExample, ...] = ()

    @field_validator("scores")
    @classmethod
    def _not_rising(cls, scores: dict[str, float]) -> dict[str, float]:
        falling = [scores[name] for name in WORTH if name in scores]
        if falling != sorted(falling, reverse=True) or len(set(falling)) < min(2, len(falling)):
            raise ValueError("must fall from Supported to Contradicted, with Partially Supported between them")
        return {name: scores[name] for name in WORTH if name in scores}

    @field_validator("extra_results")
    @classmethod
    def _apart(cls, extra: tuple[ExtraResult, ...], info: Any) -> tuple[ExtraResult, ...]:
        taken = [name.casefold() for name in (*info.data.get("results", ()), *(e.name for e in extra))]
        twice = next((e.name for e in extra if taken.count(e.name.casefold()) > 1), None)
        if twice is not None:
            raise ValueError(f"{twice!r} is the name of two results")
        return extra

    def extra_scores(self) -> dict[str, Fraction | None]:
        """The score of each result of the user's own."""
        return {e.name: None if e.score is None else Fraction(str(e.score)) for e in self.extra_results}

    def worth(self) -> dict[str, Fraction | None]:
        """What every result scores; None for one that enters no mean."""
        return {**exact(self.scores), "Unverifiable": None, **self.extra_scores()}

    def hashed(self) -> dict[str, Any]:
        """The field's own errors and the shares."""
        return self.model_dump(include={"domain_constraints", "untraced_share", "verifiable_floor"})

    def fills(self) -> dict[str, str]:
        """Where results of the user's own are named, defined and scored; and scores that are not the law's."""
        extra = self.extra_results
        return {
            "extra_results": "\n".join(f"- `{e.name}`: {e.definition}" for e in extra),
            "extra_scores": "\n".join(
                f"| {e.name} | {'null' if e.score is None else law.plain(e.score)} |" for e in extra
            ),
            "extra_names": "".join(f" | {e.name}" for e in extra),
        } | (self._figures() if self.scores != WORTH else {})

    def shows(self) -> dict[str, str]:
        """The scores there are, and the mean of the prompt's own example.

        A prompt from before they could be set has places for those of one's own alone.
        """
        own = {e.score for e in self.extra_results if e.score is not None} - {*WORTH.values()}
        told = [law.plain(value) for value in sorted(own)]
        before = {
            "extra_values": "".join(f", {value}" for value in reversed(told)),
            "extra_wrong": "".join(f", {value}" for value in told),
        }
        worth = exact(self.scores)
        mean = law.mean([worth["Supported"], worth["Contradicted"], worth["Supported"]])
        return before | self._figures() | {"example_mean": law.plain(law.halves_up(mean, 2))}

    def _figures(self) -> dict[str, str]:
        """What each result scores, all scores there are, and those that need a severity."""
        every = sorted({*self.scores.values(), *(e.score for e in self.extra_results if e.score is not None)})
        *some, last = [law.plain(value) for value in every if value < self.scores["Supported"]]
        return {
            **{f"scores.{name}": law.plain(value) for name, value in self.scores.items()},
            "values": ", ".join(law.plain(value) for value in reversed(every)),
            "wrong": f"{', '.join(some)} or {last}" if some else last,
        }


class FaithfulnessExample(Example):
    """A question, what was retrieved for it, and an answer."""

    query: Text
    passages: tuple[Text, ...]
    answer: Text


class FaithfulnessSettings(Settings):
    """What can be set of RAG faithfulness."""

    name: ClassVar[str] = "rag_faithfulness"
    rules: ClassVar[int] = 2
    wording: ClassVar[tuple[str, ...]] = ("anchors", "severities")

    review_below: Bound
    weights: Weights
    severities: dict[str, Text]
    anchors: dict[str, dict[str, Text]]
    examples: tuple[FaithfulnessExample, ...] = ()

    def hashed(self) -> dict[str, Any]:
        """The bound of review."""
        return self.model_dump(include={"review_below"})

    def fills(self) -> dict[str, str]:
        """Weights, where they differ."""
        return {"weighting": _weighting(self.weights)}

    def shows(self) -> dict[str, str]:
        """The mean of the prompt's own example under these weights."""
        scores = {"claim_support": 3, "citation_accuracy": 3, "abstention_appropriateness": 2}
        return {"example_mean": f"{law.halves_up(law.weighted(scores, whole(self.weights)), 1)}"}


class SummaryExample(Example):
    """A source and a summary of it."""

    source: Text
    summary: Text


class SummarySettings(Settings):
    """What can be set of summary groundedness."""

    name: ClassVar[str] = "summary_groundedness"
    rules: ClassVar[int] = 2
    wording: ClassVar[tuple[str, ...]] = ("ratings", "levels", "dimensions")

    review_below: Bound
    review_below_high_risk: Bound
    derived: Annotated[bool, Field(strict=True)]
    weights: Weights
    ratings: dict[str, Bound]
    levels: dict[str, Text]
    dimensions: dict[str, Text]
    examples: tuple[SummaryExample, ...] = ()

    @field_validator("ratings")
    @classmethod
    def _falling(cls, ratings: dict[str, float]) -> dict[str, float]:
        order = ("Excellent", "Good", "Fair", "Poor")
        falling = [ratings[name] for name in order if name in ratings]
        if any(better <= worse for better, worse in pairwise(falling)):
            raise ValueError("must fall from Excellent over Good and Fair to Poor")
        return {name: ratings[name] for name in order if name in ratings}

    def hashed(self) -> dict[str, Any]:
        """The bounds of review and what is published."""
        return self.model_dump(include={"review_below", "review_below_high_risk", "derived"})

    def bounds(self) -> tuple[tuple[Fraction, str], ...]:
        """The lowest mean of each rating, best first."""
        named = ((Fraction(str(bound)), name) for name, bound in self.ratings.items())
        return (*named, (Fraction(0), "Unacceptable"))

    def fills(self) -> dict[str, str]:
        """Weights, where they differ."""
        return {"weighting": _weighting(self.weights)}

    def shows(self) -> dict[str, str]:
        """The mean and the rating of the prompt's own example under these weights and bounds."""
        scores = {
            "factual_consistency": 4,
            "key_information_omission": 5,
            "unsupported_content_insertion": 3,
            "entity_relationship_preservation": 5,
            "causal_logical_structure": 2,
        }
        mean = law.weighted(scores, whole(self.weights))
        rating = next(name for bound, name in self.bounds() if mean >= bound)
        return {"example_mean": f"{law.halves_up(mean, 1)}", "example_rating": rating}


NAMES = tuple(kind.name for kind in (AccuracySettings, FaithfulnessSettings, SupportSettings, SummarySettings))
"""The rubrics that can be copied."""
