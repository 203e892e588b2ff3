"""What every rubric of the offline judge measures by: from a comparison to a level, and the words that say why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from groundtrace import lexical
from groundtrace.citations import cite, claims
from groundtrace.lexical import Comparison, Passages, Tokens, compare
from groundtrace.model import Passage

CUTS = {5: 0.80, 4: 0.45, 3: 0.25}
"""The composite from which a level is given; 4 is where a claim counts as supported. Set once, over all open data."""

ON_TOPIC = 0.2
"""The share of a claim's words that makes a passage on topic, level 2; below it is off topic, level 1."""

STEEPNESS = 4.2
"""How fast confidence grows with the distance from the cut."""

SILENT, CLAUSE_WORDS = 0.15, 3
"""A clause of that many words or more of which less is covered: the passages are silent on it."""

WEAK = 0.5
"""A clause of which less is covered is named as the weakest part."""

GLIMPSE = 160
"""How much of a text is read at a glance."""

Answered: TypeAlias = tuple[dict[str, Any], tuple[str, ...]]
"""A verdict as JSON has it, and the flags of the reply."""

Tokenise: TypeAlias = Callable[[str], Tokens]
"""Reads a text once; remembers some."""


def held_against(claim: str, texts: Sequence[str], tokenise: Tokenise) -> Comparison:
    """A claim held against texts."""
    return compare(claim, Passages(texts, tokenise))


def stated(text: str, ids: Sequence[str] = ()) -> list[str]:
    """The claims of a text in its own words, citation marks left out; `ids` are those of the passages it may cite.

    >>> stated("It opened in 1931 [1]. Is it long?")
    ['It opened in 1931']
    """
    listed = [Passage(id=name, text="", rank=rank) for rank, name in enumerate(ids, start=1)]
    return [claim.text for claim in claims(text, cite(text, listed))]


# --- from a comparison to a level -------------------------------------------------------------------------------------


def level(found: Comparison) -> int:
    """The level of support, 1..5: never 5 where something is missing or a negation is in doubt.

    A number of two or more digits, or with a minus, that stands nowhere makes it 3 at most, and so does a clause on
    which the passage is silent.

    >>> night = Passages(["The night ferry leaves at 21:40 every day except Sunday."])
    >>> told = "The night ferry leaves at {} every day."
    >>> [level(compare(told.format(hour), night)) for hour in ("21:40", "22:15")]
    [5, 3]
    """
    if found.score < CUTS[3]:
        return 2 if found.cover >= ON_TOPIC else 1
    unmet = any(len(number.replace(".", "")) > 1 for told in found.missing_numbers for number in lexical.numbers(told))
    clause = found.weakest_clause or ""
    silent = found.weakest_cover < SILENT and len(lexical.content_words(clause)) >= CLAUSE_WORDS
    if found.score < CUTS[4] or unmet or silent:
        return 3
    lacking = found.missing_numbers or found.missing_names or found.personal
    return 4 if found.score < CUTS[5] or lacking or clashes(found) or not found.english else 5


def confidence(found: Comparison) -> float:
    """How sure the judge is that a claim is, or is not, supported: 0..1, by the distance from the cut between them.

    Even odds where a rule decides against the composite or a negation is in doubt, less where the language is unknown.
    """
    if not found.english:
        return 0.2
    likely = 1 / (1 + math.exp(-STEEPNESS * (found.score - CUTS[4])))
    sure = likely if level(found) >= 4 else 1 - likely
    return 0.5 if clashes(found) else round(max(0.5, sure), 2)


def clashes(found: Comparison) -> bool:
    """Whether a negation or an opposite stands between a claim and the sentence that covers it best."""
    return found.negation_clash or found.antonym_clash is not None


def flags(found: Iterable[Comparison]) -> tuple[str, ...]:
    """What a person should look at; moves no score."""
    every = list(found)
    raised = {
        "possible_contradiction": any(clashes(comparison) for comparison in every),
        "language_not_covered": any(not comparison.english for comparison in every),
    }
    return tuple(flag for flag, due in raised.items() if due)


# --- saying why -------------------------------------------------------------------------------------------------------


def quotes(found: Comparison, texts: Sequence[str]) -> list[str]:
    """The covering sentences word for word, one quote a passage, best passage first."""
    by_passage: dict[int, list[tuple[int, int]]] = {place: [] for place, _, _ in found.sentences}
    for place, start, end in sorted(found.sentences):
        by_passage[place].append((start, end))
    return [" ... ".join(texts[place][start:end] for start, end in spans) for place, spans in by_passage.items()]


def quoted(text: str) -> str:
    """A text in quotation marks, cut to what is read at a glance."""
    plain = " ".join(text.split()).rstrip(".,;:")
    if len(plain) > GLIMPSE:
        plain = plain[:GLIMPSE].rsplit(" ", 1)[0] + " ..."
    return f"“{plain}”"


def reasons(found: Comparison, where: str = "the passage") -> list[str]:
    """One sentence for each thing that speaks against support."""
    told = [f"Not in {where}: {lacking}." for lacking in [lacking(found)] if lacking]
    if found.weakest_clause and found.weakest_cover < WEAK:
        told.append(f"The part covered least is {quoted(found.weakest_clause)}.")
    if found.antonym_clash:
        word, opposite = found.antonym_clash
        told.append(f"The claim has \u201c{word}\u201d where {where} has \u201c{opposite}\u201d.")
    if found.negation_clash:
        told.append("A word both use is negated in only one of them.")
    if found.personal:
        told.append(f"The claim is about whoever says it, of whom {where} says nothing.")
    if not found.english:
        told.append("The text does not look like English, so characters were compared and not words.")
    return told


def lacking(found: Comparison) -> str:
    """The numbers and names of a claim that stand nowhere, in words."""
    kinds = (("number", found.missing_numbers), ("name", found.missing_names))
    return ", ".join(f"the {kind}{'s' * (len(items) > 1)} {', '.join(items)}" for kind, items in kinds if items)


def beginning(texts: Iterable[str]) -> list[str]:
    """How the first text begins that has a word in it: what is left to point at where no claim is made."""
    worded = (text.strip() for text in texts if any(map(str.isalnum, text)))
    return [text[:GLIMPSE] for text in worded][:1]


def overall(scores: Mapping[str, int | None], weights: Mapping[str, float] | None, digits: int) -> float:
    """The mean of the scores there are, by the weights a user gave the dimensions, if any; halves go up.

    >>> overall({"a": 5, "b": 2, "c": None}, None, 1), overall({"a": 5, "b": 2, "c": None}, {"a": 3.0, "b": 1.0}, 1)
    (3.5, 4.3)
    """
    told = {name: score for name, score in scores.items() if score is not None}
    exact = {name: Fraction(str(weights[name])) if weights else Fraction(1) for name in told}
    mean = sum((exact[name] * score for name, score in told.items()), Fraction(0)) / sum(exact.values(), Fraction(0))
    return halves_up(mean.numerator, mean.denominator, digits)


def halves_up(numerator: int, denominator: int, digits: int) -> float:
    """A fraction rounded with halves going up, no float in between.

    >>> halves_up(17, 4, 1), halves_up(2, 3, 2)
    (4.3, 0.67)
    """
    scale: int = 10**digits
    return (2 * scale * numerator + denominator) // (2 * denominator) / scale


def numbered(n: int, one: str, several: str) -> str:
    """A number and what there is so much of.

    >>> numbered(1, "claim", "claims"), numbered(0, "is", "are")
    ('1 claim', '0 are')
    """
    return f"{n} {one if n == 1 else several}"
