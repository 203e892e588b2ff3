"""Whether a judge's rationale made something up: facts and quotes in it that stand in nothing it was given.

Only what is sure is a fault. Whatever might be another form of what was given, a figure worked out in a roundabout
way, or a word on what the passage lacks, is at most a doubt.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from groundtrace.evidence.facts import Facts, components, spelled_out
from groundtrace.evidence.quotes import locate
from groundtrace.lexical import dates, derivable, names
from groundtrace.lexical.words import read_numbers, surface
from groundtrace.text import sentences

Span = tuple[int, int]

_QUOTE_ALIKE = 85.0
_QUOTED = re.compile(
    r'"([^"\n]{1,600})"|“([^“”]{1,600})”|«([^«»]{1,600})»|„([^„“”]{1,600})[“”]|`([^`\n]{1,600})`'
    r"|(?<!\w)'((?:[^'\n]|(?<=\w)'(?=\w)){1,600})'(?!\w)|(?<!\w)‘((?:[^‘’]|(?<=\w)’(?=\w)){1,600})’(?!\w)"
)
_CLAUSE_END = re.compile(
    r"[;:](?=\s)|,?\s(?:but|while|whereas|although|though|however|yet|only|instead)\b|,\s(?:which|and|so)\s|[\n\r]"
)
_DENIAL = re.compile(
    r"\b(?:not(?!\sonly)|never|no|nor|neither|none|nothing|nowhere|without|lack(?:s|ed|ing)?|miss(?:es|ed|ing)|absent"
    r"|absence|omit(?:s|ted|ting)?|fail(?:s|ed|ing)?\sto|rather\sthan|instead\sof|unlike|would|if|should|must"
    r"|need(?:s|ed)?|cannot|unable)\b|n['’]t\b",
    re.IGNORECASE,
)
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:not|never)|n['’]t)\s(?:\w+\s){0,2}?(?:mentioned|stated|found|present|given|specified|included|contained"
    r"|supported|discussed|named|listed|provided|appear|occur|said|there|in)\b|\b(?:is|are|was|were)\s(?:absent|missing"
    r"|omitted|unsupported|unmentioned|unstated)\b|\b(?:never|nowhere)\s(?:appears?|mentioned|stated|found)\b",
    re.IGNORECASE,
)
_DENIAL_END = re.compile(
    r",\s(?!(?:and|or|nor)\b)(?=[a-z])"
    r"|\b(?:stat(?:es?|ed|ing)|says?|shows?|showing|gives?|giving|reports?|notes?|noting|because|since|as)\s",
)
_SCORE_WORDS = r"(?:scor(?:e[sd]?|ing)|rat(?:e[sd]?|ing)|grade[sd]?|level)"
_SURE_WORDS = r"(?:confiden(?:t|ce)|certain(?:ty)?|sure)"
_HOUSEKEEPING = re.compile(
    rf"\b{_SCORE_WORDS}(?:\s\w+){{0,3}}?\W{{1,3}}[0-5](?:\.\d+)?(?![\d.,]*\d)(?:\s?(?:/|out\sof)\s?\d+)?"
    rf"|\b{_SURE_WORDS}(?:\s\w+){{0,3}}?\W{{1,3}}(?:[01]?\.\d+|\d{{1,3}}%)|\b\d{{1,3}}%\s{_SURE_WORDS}"
    r"|\b(?:claim|passage|source|citation|document|sentence|paragraph|line|item|point|step)s?\s(?:no\.\s|#)?\[?\w?\d{1,3}"
    r"\b\]?"
    r"|\[\d{1,3}\]|^\s*\(?\d{1,3}[.)](?=\s)|(?<!\w)\(?\d{1,3}\)(?=\s)",
    re.IGNORECASE | re.MULTILINE,
)
_ERA = re.compile(r"\b(\d{2})(\d)0['’]?s\b|\b(\d{1,2})(?:st|nd|rd|th)[\s-]century\b", re.IGNORECASE)
_SHORT_YEAR = re.compile(r"\b(\d{2})\d{2}[-–—/](\d{2})\b|(?<!\w)['’](\d{2})\b")
_QUARTER = re.compile(r"\bQ[1-4]\b|\b(?:first|second|third|fourth)[\s-]quarter\b", re.IGNORECASE)
_FRACTIONS = {
    r"half|halves|halved": ("50", "0.5"),
    r"thirds?": ("33", "33.3", "67", "66.7"),
    r"quarters?|fourths?": ("25", "0.25", "75", "0.75"),
    r"fifths?": ("20", "40", "60", "80"),
    r"tenths?": ("10", "30", "70", "90"),
    r"doubl(?:e|ed|es|ing)|twice": ("100", "200"),
    r"tripl(?:e|ed|es|ing)|thrice": ("200", "300"),
    r"all|every|entire(?:ly)?|whole|full(?:y)?": ("100",),
}
_UNITS = (7, 12, 24, 30, 52, 60, 365, 3600, 1440, 2.2046, 0.4536, 1.6093, 0.6214, 3.2808, 0.3048, 2.54, 0.3937)
_FEW = 40
_IDIOMS = frozenset(("100", "1000", "1000000"))
# Words of the rubric itself, written large now and then.
_OWN_WORDS = re.compile(
    r"[ap]m|answer|cited|claims?|context|contradicts|directly|document|evidence|implies|level|metadata|no|partially"
    r"|passage|quote|rationale|related|rubric|score|source|statement|strongly|supports?|supported|text|weakly"
)
# Words that are put to a name from outside: "the Apollo Program" of a text that only says "Apollo".
_TITLES = re.compile(
    r"act|administration|agency|agreement|army|association|bank|board|bureau|ceo|chief|city|club|college|commission"
    r"|committee|company|conference|congress|corp|corporation|council|country|county|court|department|director|district"
    r"|division|dr|executive|fund|general|government|group|hall|house|inc|incorporated|institute|island|judge|king|lake"
    r"|law|league|ltd|limited|minister|ministry|mission|mount|mountain|mrs?|ms|museum|office|officer|organi[sz]ation"
    r"|park|parliament|party|plan|president|prime|prize|prof|professor|program|programme|project|queen|region|report"
    r"|republic|river|saint|school|secretary|senate|senator|series|service|sir|society|states?|street|study|summit"
    r"|supreme|system|team|theory|treaty|trial|union|united|university|valley|war|world"
)


@dataclass(frozen=True, slots=True)
class Rationale:
    """What is wrong with a rationale (`faults`, one line each) and what could not be made sure of (`doubts`)."""

    faults: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def check_rationale(rationale: str, texts: Iterable[str]) -> Rationale:
    """Hold a rationale against all its judge was given: claim, passage, metadata and rubric.

    A fault is a number of two or more digits, a date or a name of several words that stands in none of the texts and
    is no sum, difference, ratio, count, unit, sign, case, short form or date form of what does. Quotes are cut at
    ellipses and stand at 85 of 100; one that does not is a doubt. What is said to be absent may be absent.

    >>> given = ["Revenue was $4.2 billion.", "Acme announced revenue of $4.2 billion, up 12%."]
    >>> check_rationale("Acme states 'revenue of $4.2 billion'; it does not mention 'Globex Group'.", given)
    Rationale(faults=(), doubts=())
    >>> check_rationale("The passage puts revenue at $4.9 billion.", given).faults
    ("the number '4.9 billion' stands in nothing you were given",)
    """
    held = _Given(texts)
    quotes = [match.span() for match in _QUOTED.finditer(rationale)]
    starts = [start for start, _ in quotes]
    asserted: list[str] = []
    denied: list[str] = []
    quoted: list[Span] = []
    at = 0
    for start, end in [*_denied(_masked(rationale, quotes)), (len(rationale), len(rationale))]:
        first, last, behind = (bisect_left(starts, place) for place in (at, start, end))
        quoted += quotes[first:last]
        asserted.append(rationale[at:start])
        denied += _around(rationale, start, end, quotes[last:behind])
        at = end
    said = list(_strangers(" ; ".join(asserted), held))
    faults = dict.fromkeys(line for line, sure in said if sure)
    doubts = [line for line, sure in said if not sure]
    doubts += [line for line, _ in _strangers(" ; ".join(denied), held)]
    doubts += [line for start, end in quoted for line in _unquoted(rationale[start + 1 : end - 1], held)]
    return Rationale(tuple(faults), tuple(line for line in dict.fromkeys(doubts) if line not in faults))


def _around(text: str, start: int, end: int, quotes: Sequence[Span]) -> Iterator[str]:
    """What is said from start to end outside the quotes."""
    for opens, closes in quotes:
        yield text[start:opens]
        start = closes
    yield text[start:end]


def _masked(rationale: str, quotes: Sequence[Span]) -> str:
    """The rationale with letters in place of what is quoted, so that a quote's own "not" or comma says nothing."""
    parts: list[str] = []
    at = 0
    for start, end in quotes:
        parts += rationale[at : start + 1], "x" * (end - start - 2), rationale[end - 1 : end]
        at = end
    return "".join([*parts, rationale[at:]])


def _denied(text: str) -> Iterator[Span]:
    """Where a text says what is not there: from the denial to the end of its reach, or the whole clause before it."""
    for first, last in sentences(text):
        ends = [match.start() for match in _CLAUSE_END.finditer(text, first, last)]
        for start, end in zip([first, *ends], [*ends, last], strict=True):
            if _DENIED_BEFORE.search(text, start, end):
                yield start, end
            else:
                yield from _reaches(text, start, end)


def _reaches(text: str, start: int, end: int) -> Iterator[Span]:
    at = start
    while denial := _DENIAL.search(text, at, end):
        close = _DENIAL_END.search(text, denial.end(), end)
        at = close.start() if close else end
        yield denial.start(), at


def _unquoted(quote: str, held: _Given) -> Iterator[str]:
    texts: dict[str | None, str] = {str(number): text for number, text in enumerate(held.texts)}
    if not locate(quote, texts, fuzzy=_QUOTE_ALIKE).found:
        yield f"the quote {quote[:120]!r} stands in nothing you were given"


# --- facts that stand nowhere -----------------------------------------------------------------------------------------


class _Given(Facts):
    """What a judge was given, with the forms a fact may take on its way into a rationale."""

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The numbers without their signs: "a loss of 5 million" may be said of "-5 million"."""
        return frozenset(number.removeprefix("-") for number in super().numbers)

    @cached_property
    def years(self) -> frozenset[str]:
        """Years written short: "1914-18" and "'69" name them too."""
        found = {number for number in self.numbers if len(number) == 4 and number.isdigit()}
        for century, last, lone in (m.groups() for text in self.texts for m in _SHORT_YEAR.finditer(text)):
            found.update((century + last,) if century else (f"19{lone}", f"20{lone}"))
        return frozenset(found)

    @cached_property
    def quarters(self) -> bool:
        """Whether a quarter of a year is named; its months are another form of it."""
        return any(_QUARTER.search(text) for text in self.texts)

    @cached_property
    def spoken_fractions(self) -> frozenset[str]:
        """The figures that words like "half" stand for."""
        return frozenset(
            figure
            for words, figures in _FRACTIONS.items()
            if any(re.search(rf"\b(?:{words})\b", text, re.IGNORECASE) for text in self.texts)
            for figure in figures
        )

    @cached_property
    def counts(self) -> frozenset[str]:
        """How many there are of what can be counted: sentences, lines, words, and items of a list in a sentence."""
        found: set[int] = set()
        for text in self.texts:
            parts = sentences(text)
            listed = [text.count(",", start, end) for start, end in parts]
            found.update((len(parts), len(text.split()), *(n + extra for n in listed if n for extra in (1, 2))))
        return frozenset(str(number) for number in found)

    def number(self, number: str) -> bool:
        """Whether a number stands here, or follows from what does: worked out, counted, in another unit or word."""
        if number in self.numbers or number in self.spoken_fractions or number in self.years or number in self.counts:
            return True
        if derivable(number, self.numbers):
            return True
        wanted, margin = _value(number), 0.5 * 10 ** -len(number.partition(".")[2])
        return any(abs(value * unit - wanted) <= margin for value in self._values for unit in _UNITS)

    @cached_property
    def _values(self) -> list[float]:
        return sorted({_value(number) for number in self.numbers})

    def roundabout(self, number: str) -> bool:
        """Whether a number could be a sum of several numbers, their mean, or an idiom: too far off to be sure."""
        if number in _IDIOMS or len(self._values) > _FEW:
            return True
        sums = ((sum(some), size) for size in (2, 3, 4) for some in combinations(self._values, size))
        wanted = _value(number)
        return any(abs(total - wanted) < 1e-6 or abs(total / size - wanted) < 1e-6 for total, size in sums)


def _value(number: str) -> float:
    """A canonical number as one; a version like 1.2.3 counts as its first two parts."""
    return float(".".join(number.split(".")[:2]))


def _strangers(text: str, held: _Given) -> Iterator[tuple[str, bool]]:
    """What a text names that was not given: (a line on it, whether it is sure)."""
    text, eras = _ERA.sub(" ", text), _ERA.findall(text)
    for century, decade, ordinal in eras:
        began = century + decade if century else str(int(ordinal) - 1)
        if not any(year.startswith(began) for year in held.years):
            yield f"the period '{began}...' stands in nothing you were given", False
    plain = _HOUSEKEEPING.sub(" ", text)
    spoken = dates(plain)
    for date in sorted(spoken):
        if not held.date(date):
            line = f"the date {date!r} stands in nothing you were given"
            in_a_quarter = date.count("-") == 1 and held.quarters
            yield line, not in_a_quarter and not all(part in held.numbers for part in components(date))
    in_dates = {part for date in spoken for part in components(date)}
    for signed, written in dict(read_numbers(surface(plain).lower())).items():
        number = signed.removeprefix("-")
        if number not in in_dates and sum(c.isdigit() for c in number) > 1 and not held.number(number):
            yield f"the number {written!r} stands in nothing you were given", not held.roundabout(number)
    yield from _strange_names(text, held)


def _strange_names(text: str, held: _Given) -> Iterator[tuple[str, bool]]:
    explained = {word for short, words in spelled_out(text) if short in held.words for word in words}
    openers = {text[start:end].split(maxsplit=1)[0].casefold() for start, end in sentences(text)}
    for name in sorted(names(text)):
        words = name.split()
        strange = {w for w in held.strange_words(name) if w not in explained and not _OWN_WORDS.fullmatch(w)}
        # A strange word that opens a sentence may be large for that alone.
        merely_first = words[0] in openers and words[0] in strange
        strange -= {words[0]} if merely_first else set()
        sure = len(words) - merely_first > 1 and not all(_TITLES.fullmatch(word) for word in strange)
        if strange:
            yield f"the name {name!r} stands in nothing you were given", sure
