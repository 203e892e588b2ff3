"""How well passages cover a claim: the measure the offline judge scores with.

The claim's words are looked for in the passages' sentences, and what is missing is named. Words that overlap are all
it sees: who did what to whom, and whether it was denied, is beyond it.

The measure is a composite of a few shares. Its weights are rounded from one logistic regression over 5,708 human labels
of 11 public sets, every set and both classes weighing the same. Balanced accuracy is then 76 % on average, and as much
on sets left out one at a time; `tests/benchmarks/offline_judge.py` measures the judge that uses it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from groundtrace.lexical.words import (
    NAME_LINKS,
    STOP_WORDS,
    dates,
    digit_dates,
    read_names,
    read_numbers,
    stem,
    surface,
    tokens,
    weight,
    word_list,
)
from groundtrace.text import sentences

WEIGHTS = {"cover": 0.67, "phrasing": 0.33, "missing_numbers": -0.3, "missing_names": -0.2, "personal": -0.4}
"""The composite: shares of the claim found, less the share of its numbers missing, a name missing, a speaker's "I"."""

COVERING = 3
"""How many sentences may cover a claim together: support that is scattered further is no support."""

_WORTH_QUOTING = 0.1
_AGREED = 0.5
_BEGINNING = 6
_LONGEST = 600
_WINDOW = re.compile(r"(?s)\S.{0,400}(?!\S)|\S{1,400}")
_LEAD_IN = re.compile(
    r"\W*(?:(?:yes|no|ok|okay|sure)\b\W+)?"
    r"(?:(?:according to|based (?:up)?on|as \w+ (?:in|by)|from|in) (?:(?:the|these|this|provided|given|retrieved|above|"
    r"available|search) ){0,3}(?:documents?|passages?|contexts?|sources?|texts?|information|results?|articles?)"
    r"(?: provided| given)?\b\W+)?",
    re.IGNORECASE,
)
_JOINT = r"(?:and|but|or|which|who|while|that|because|when|where)\s"
_NUMBERS_OF_DATE = re.compile(r"(?!0+\d)\d+")
_CLAUSE_END = re.compile(rf"(?:[,;:]|\s-)\s(?:{_JOINT})?|\s{_JOINT}", re.IGNORECASE)
_SPEAKER = frozenset(word_list("speaker"))
_NEGATIONS = frozenset(word_list("negations"))
_FOREIGN = frozenset(word_list("foreign"))
_NON_LATIN = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")


class Sentence(NamedTuple):
    """A sentence, or a piece of a very long one: where it stands, its words and their stems."""

    start: int
    end: int
    words: list[str]
    stems: list[str]


class Tokens:
    """One text, tokenised once; what only some comparisons ask for is worked out when it is first asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sentences: list[Sentence] = []
        for start, end in _readable(text):
            words = tokens(text[start:end])
            self.sentences.append(Sentence(start, end, words, [*filter(None, map(stem, words))]))

    @cached_property
    def stems(self) -> list[set[str]]:
        """The stems of each sentence."""
        return [set(sentence.stems) for sentence in self.sentences]

    @cached_property
    def pairs(self) -> set[tuple[str, str]]:
        """Stems that stand side by side."""
        return {pair for sentence in self.sentences for pair in pairwise(sentence.stems)}

    @cached_property
    def weights(self) -> dict[str, int]:
        """What each stem tells, in reading order; where nothing but stop words is said, each the same."""
        found: dict[str, int] = {}
        for sentence in self.sentences:
            for word in sentence.words:
                if told := weight(word):
                    found[stem(word)] = found.get(stem(word), 0) + told
        return found or dict.fromkeys((known for sentence in self.sentences for known in sentence.stems), 1)

    @cached_property
    def numbers(self) -> dict[str, str]:
        """The numbers and how each is written."""
        return dict(read_numbers(surface(self.text).lower()))

    @cached_property
    def dates(self) -> frozenset[str]:
        """What its dates are compared by; of one in digits whose day and month are unsure, how it is written."""
        return dates(self.text) | frozenset(self.digit_dates)

    @cached_property
    def digit_dates(self) -> dict[str, str]:
        """The dates written in digits alone, and how each is written."""
        return {date: written for date, written, _ in digit_dates(self.text)}

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The names as they are written, and their words."""
        return {" ".join(name): name for sentence in self.sentences for name in read_names(sentence.words)}

    @cached_property
    def short_forms(self) -> set[str]:
        """What its names may be shortened to ("un"), and what is written in capitals."""
        found: set[str] = set()
        for sentence in self.sentences:
            run = ""
            for word in sentence.words:
                if word[0].isupper():
                    run = (run + word[0].lower())[-8:]
                    found.update(run[place:] for place in range(len(run) - 1))
                    if len(word) > 1 and word.isupper():
                        found.add(word.replace(".", "").lower())
                elif word not in {"of", "and", "the", "for", "in"}:
                    run = ""
        return found

    @cached_property
    def personal(self) -> bool:
        """Whether someone speaks of themselves in it."""
        return any(word.lower() in _SPEAKER for sentence in self.sentences for word in sentence.words)

    @cached_property
    def english(self) -> bool:
        """Whether nothing speaks against English: another script, or other little words where the text begins."""
        if not self.text.isascii() and len(_NON_LATIN.findall(self.text)) * 4 > len(self.text):
            return False
        tongues = [_tongue(word) for sentence in self.sentences[:_BEGINNING] for word in sentence.words]
        foreign = tongues.count("foreign")
        return not foreign or foreign + tongues.count("link") < max(2, tongues.count("english") + 1)

    @cached_property
    def characters(self) -> list[set[str]]:
        """Runs of five characters in each sentence, of two in scripts where a character is a word or a syllable."""
        return [_characters(self.text[sentence.start : sentence.end]) for sentence in self.sentences]


def is_english(text: str) -> bool:
    """Whether a text is plainly English: its little words are, and nothing speaks against it.

    >>> is_english("The ferry leaves at nine."), is_english("Dazu kann ich leider keine Auskunft geben.")
    (True, False)
    """
    told = Tokens(text)
    return told.english and any(_tongue(word) == "english" for sentence in told.sentences for word in sentence.words)


def _readable(text: str) -> Iterator[tuple[int, int]]:
    """The sentences of a text, very long ones in pieces that can still be read as evidence."""
    for start, end in sentences(text):
        if end - start <= _LONGEST:
            yield start, end
        else:
            yield from (piece.span() for piece in _WINDOW.finditer(text, start, end))


@functools.lru_cache(maxsize=1 << 15)
def _tongue(word: str) -> str:
    low = word.lower()
    if low in STOP_WORDS:
        return "english"
    if low in NAME_LINKS:
        return "link"
    return "foreign" if word == low and word[0].isalpha() and (word in _FOREIGN or not word.isascii()) else ""


def _characters(text: str) -> set[str]:
    plain = " ".join(surface(text).lower().split())
    size = 2 if _NON_LATIN.search(plain) else 5
    return {plain[place : place + size] for place in range(max(1, len(plain) - size + 1))}


class Passages:
    """The texts a claim is held against, tokenised once; `tokenise` may remember texts it has seen."""

    def __init__(self, texts: Sequence[str], tokenise: Callable[[str], Tokens] = Tokens) -> None:
        self.tokenise = tokenise
        self.parts = tuple(tokenise(text) for text in texts)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How well passages cover a claim, and what they lack; shares are 0..1.

    `score` is the composite of the rest. `cover` is the share of the claim's words, rare ones weighing more, that its
    best sentences hold together; `sentences` are these, best first, as (passage, start, end). `phrasing` is the share
    of its word pairs that stand side by side in a passage. `weakest_clause` is the claim's part that the best
    sentence for it covers least, where there are several. The clashes are hints for a person and move no score.
    Where `english` is False, runs of characters were compared in place of words.
    """

    score: float
    cover: float
    phrasing: float
    sentences: tuple[tuple[int, int, int], ...] = ()
    missing_numbers: tuple[str, ...] = ()
    missing_names: tuple[str, ...] = ()
    weakest_clause: str | None = None
    weakest_cover: float = 1.0
    negation_clash: bool = False
    antonym_clash: tuple[str, str] | None = None
    personal: bool = False
    english: bool = True


def compare(claim: str, passages: Passages) -> Comparison:
    """How well passages cover a claim, its lead-in ("According to the passages, ...") set aside.

    >>> moon = Passages(["Apollo 11 landed on the Moon on July 20, 1969. Neil Armstrong walked first."])
    >>> found = compare("Neil Armstrong and Buzz Aldrin walked on the Moon in 1970.", moon)
    >>> found.missing_names, found.missing_numbers, found.weakest_clause
    (('Buzz Aldrin',), ('1970',), 'Buzz Aldrin walked on the Moon in 1970.')
    """
    lead_in = _LEAD_IN.match(claim)
    told = passages.tokenise(claim[lead_in.end() :] if lead_in and lead_in.end() < len(claim) else claim)
    parts = passages.parts
    absent, lacking = _absent(told, parts)
    if not told.english or (parts and not any(part.english for part in parts)):
        wanted = dict.fromkeys(sorted(set().union(*told.characters)), 1)
        cover, _, chosen = _cover(wanted, [part.characters for part in parts])
        score = _composite(cover=cover, phrasing=cover, missing_numbers=lacking)
        spans = tuple((p, parts[p].sentences[n].start, parts[p].sentences[n].end) for p, n in chosen)
        return Comparison(score, cover, cover, spans, tuple(absent), english=False)
    cover, agreed, chosen = _cover(told.weights, [part.stems for part in parts])
    pairs = [pair for sentence in told.sentences for pair in pairwise(sentence.stems)]
    phrasing = sum(any(pair in part.pairs for part in parts) for pair in pairs) / len(pairs) if pairs else cover
    strangers = [written for written, name in told.names.items() if not _stands(name, parts)]
    personal = told.personal and not any(part.personal for part in parts)
    clause, clause_cover = _weakest(told.text, parts) if cover < 1 else (None, 1.0)
    best = parts[chosen[0][0]].sentences[chosen[0][1]] if agreed >= _AGREED else None
    return Comparison(
        score=_composite(
            cover=cover,
            phrasing=phrasing,
            missing_numbers=lacking,
            missing_names=float(bool(strangers)),
            personal=float(personal),
        ),
        cover=cover,
        phrasing=phrasing,
        sentences=tuple((p, parts[p].sentences[n].start, parts[p].sentences[n].end) for p, n in chosen),
        missing_numbers=tuple(absent),
        missing_names=tuple(strangers),
        weakest_clause=clause,
        weakest_cover=clause_cover,
        negation_clash=best is not None and _negation_clash(told, best),
        antonym_clash=_antonym_clash(told, best, parts) if best else None,
        personal=personal,
    )


def _absent(told: Tokens, parts: Sequence[Tokens]) -> tuple[list[str], float]:
    """The numbers that stand in no passage, a date in digits being one of them, and their share of all.

    "2021-04-03" stands where "3 April 2021" does; "03/04/2021", which may be two days, where it is written so.
    """
    parted = {part for date in told.digit_dates for part in _NUMBERS_OF_DATE.findall(date)}
    held = {date for date in told.digit_dates if any(date in part.dates for part in parts)}
    numbers = {number: written for number, written in told.numbers.items() if number not in parted}
    absent = [written for date, written in told.digit_dates.items() if date not in held]
    absent += [written for number, written in numbers.items() if not any(number in part.numbers for part in parts)]
    return absent, len(absent) / (len(told.digit_dates) + len(numbers)) if absent else 0.0


def _composite(**found: float) -> float:
    return min(1.0, max(0.0, sum(WEIGHTS[name] * value for name, value in found.items())))


def _cover(
    wanted: Mapping[str, int], parts: Sequence[Sequence[AbstractSet[str]]]
) -> tuple[float, float, list[tuple[int, int]]]:
    """The share of what is wanted that the best few sentences hold together, that of the best, those worth quoting."""
    rest = set(wanted)
    found = [
        (held, part, place)
        for part, held_by in enumerate(parts)
        for place, keys in enumerate(held_by)
        if (held := keys & rest)
    ]
    total = sum(wanted.values()) or 1
    gained = []
    chosen: list[tuple[int, int]] = []
    for _ in range(min(COVERING, len(found))):
        gains = [sum(wanted[key] for key in held & rest) for held, _, _ in found]
        gained.append(max(gains))
        # Equals are told apart by what they hold, so that the order of the passages decides nothing.
        held, part, place = min(
            (one for one, gain in zip(found, gains, strict=True) if gain == gained[-1]), key=lambda one: sorted(one[0])
        )
        if not chosen or gained[-1] >= _WORTH_QUOTING * total or any(key[0].isdigit() for key in held & rest):
            chosen.append((part, place))
        rest -= held
    return sum(gained) / total, max(gained, default=0) / total, chosen


def _stands(name: Sequence[str], parts: Sequence[Tokens]) -> bool:
    """Whether every word of a name stands in the passages, or its short form, or what it is short for."""
    words = [word for word in name if word.lower() not in NAME_LINKS]
    if all(any(stem(word) in stems for part in parts for stems in part.stems) for word in words):
        return True
    short = "".join(word[0] for word in words) if len(words) > 1 else words[0] if words[0].isupper() else ""
    return len(short) > 1 and any(short.lower() in part.short_forms for part in parts)


def clauses(claim: str) -> tuple[str, ...]:
    """The parts of a claim that could be true or false apart, as far as commas and joining words show them.

    >>> clauses("Opened in 1931, the bridge carries trams and is free.")
    ('Opened in 1931', 'the bridge carries trams', 'is free.')
    """
    ends = [match.span() for match in _CLAUSE_END.finditer(claim)]
    bounds = zip([0, *(end for _, end in ends)], [*(start for start, _ in ends), len(claim)], strict=True)
    return tuple(claim[start:end].strip() for start, end in bounds if len(claim[start:end].split()) > 1)


def _weakest(claim: str, parts: Sequence[Tokens]) -> tuple[str | None, float]:
    """The clause of a claim that its best sentence covers least, and how far; None where the claim is one clause."""
    several = clauses(claim)
    if len(several) < 2:
        return None, 1.0
    weakest: tuple[str | None, float] = None, 1.0
    for clause in several:
        wanted: dict[str, int] = {stem(word): told for word in tokens(clause) if (told := weight(word))}
        keys = set(wanted)
        held = max((sum(wanted[k] for k in keys & stems) for part in parts for stems in part.stems), default=0)
        if wanted and held / sum(wanted.values()) < weakest[1]:
            weakest = clause, held / sum(wanted.values())
    return weakest


def _negation_clash(told: Tokens, best: Sentence) -> bool:
    """Whether a word both share is denied in the one and not in the other."""
    denied = {known for sentence in told.sentences for known in _denied(sentence.words)}
    denied_there = _denied(best.words)
    stems = {known for sentence in told.sentences for known in sentence.stems}
    return bool((denied & set(best.stems)) - denied_there or (denied_there & stems) - denied)


def _denied(words: Sequence[str]) -> set[str]:
    """The stems of the few meaning words that follow a negation in the same clause."""
    found: set[str] = set()
    left = 0
    for word in words:
        low = word.lower()
        if low in _NEGATIONS or low.endswith("n't"):
            left = 3
        elif left and weight(word):
            found.add(stem(word))
            left -= 1
        elif not word[-1].isalnum():
            left = 0
    return found


def _antonym_clash(told: Tokens, best: Sentence, parts: Sequence[Tokens]) -> tuple[str, str] | None:
    """A word of the claim and its opposite in the best sentence, where no passage has the word itself."""
    opposites = _opposites()
    there = set(best.stems)
    for sentence in told.sentences:
        for word in sentence.words:
            for opposite in opposites.get(word.lower(), ()):
                if stem(opposite) in there and not any(stem(word) in s for part in parts for s in part.stems):
                    return word.lower(), opposite
    return None


@functools.cache
def _opposites() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for pair in word_list("antonyms"):
        one, other = pair.split("/")
        found[one] = (*found.get(one, ()), other)
        found[other] = (*found.get(other, ()), one)
    return found
