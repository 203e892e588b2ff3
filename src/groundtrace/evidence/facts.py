"""What texts hold that can be wrong: numbers, dates and names, in any form a reader would accept as the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from groundtrace.lexical import content_words, dates, minus_before, names, numbers, unsure_dates
from groundtrace.lexical.words import frequencies
from groundtrace.text import fold, sentences

if TYPE_CHECKING:
    from groundtrace.model import Evidence

_WORD = re.compile(r"\w+")
_CAPITALISED = re.compile(r"[^\W\d_](?:[\w.'’&]*\w)?")
_LINKS = frozenset(("a", "an", "and", "at", "by", "de", "for", "in", "of", "on", "or", "the", "to"))
_LONGEST_SHORT_FORM = 8
_SAME_WORDS = 0.6
_OWN_WORDS = 0.5


class Facts:
    """What some texts hold together; each kind of fact is read when it is first asked for."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(texts)

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The numbers, those in dates too, in one spelling."""
        spoken = frozenset(part for date in self.dates for part in components(date))
        return spoken.union(*(numbers(text) for text in self.texts))

    @cached_property
    def dates(self) -> frozenset[str]:
        """The dates in ISO form, as far as they are given."""
        return frozenset[str]().union(*(dates(text) for text in self.texts))

    @cached_property
    def unsure_dates(self) -> frozenset[str]:
        """The dates in digits whose day and month could change places, as they are written."""
        return frozenset[str]().union(*(unsure_dates(text) for text in self.texts))

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the words that carry meaning."""
        return frozenset(stem for text in self.texts for stem in content_words(text))

    @cached_property
    def words(self) -> frozenset[str]:
        """All words in matching form, dots of initials dropped."""
        return frozenset(word for text in self.texts for word in _WORD.findall(fold(text).text.replace(".", "")))

    @cached_property
    def short_forms(self) -> frozenset[str]:
        """What names in the texts may be shortened to: "nasa" where all four words are written out."""
        return frozenset(short for text in self.texts for short, _ in spelled_out(text))

    def date(self, date: str) -> bool:
        """Whether a date is given, or one that says at least as much.

        >>> Facts(["On July 20, 1969"]).date("1969-07"), Facts(["In July 1969"]).date("1969-07-20")
        (True, False)
        """
        return date in self.dates or any(
            known.endswith(date[1:]) if date.startswith("--") else known.startswith(f"{date}-") for known in self.dates
        )

    def strange_words(self, name: str) -> tuple[str, ...]:
        """The words of a name that stand nowhere, neither as they are nor in another form nor as a short form.

        >>> Facts(["The National Aeronautics and Space Administration, Acme's owner"]).strange_words("NASA Acme Corp")
        ('corp',)
        """
        found = []
        for word in fold(name).text.replace(".", "").split():
            stems = content_words(word)
            if not stems or all(stem in self.stems for stem in stems) or word in self.words:
                continue
            if word not in self.short_forms:
                found.append(word)
        return tuple(found)


def components(date: str) -> tuple[str, ...]:
    """The numbers a date is made of.

    >>> components("1969-07-20"), components("--07-20")
    (('1969', '7', '20'), ('7', '20'))
    """
    return tuple(str(int(part)) for part in date.split("-") if part)


def spelled_out(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Runs of capitalised words and what their initials spell, with and without the small words between them.

    >>> [short for short, words in spelled_out("the World Health Organization")]
    ['wh', 'who', 'ho']
    """
    run: list[str] = []
    pending: list[str] = []
    for word in [*_CAPITALISED.findall(text), "."]:
        if word[0].isupper():
            run, pending = [*run, *pending, word], []
        elif run and word in _LINKS and len(pending) < 2:
            pending.append(word)
        else:
            yield from _short_forms(run)
            run, pending = [], []


def _short_forms(run: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    words = [fold(word).text for word in run]
    large = [word[0].isupper() for word in run]
    for first in range(len(run) - 1):
        full, capitals = words[first][:1], words[first][:1]
        for last in range(first + 1, min(len(run), first + _LONGEST_SHORT_FORM)) if large[first] else ():
            full += words[last][:1]
            if large[last]:
                capitals += words[last][:1]
                held = tuple(words[first : last + 1])
                yield from ((short, held) for short in dict.fromkeys((capitals, full)))


def paraphrases(quote: str, text: str) -> bool:
    """Whether a quote says in other words what a text says: no new number, date or name, and mostly its words.

    >>> text = "Cloud services grew 12% in 2024, driven by Acme."
    >>> paraphrases("In 2024 the growth of cloud services was driven by Acme", text)
    True
    >>> paraphrases("Cloud services grew 13% in 2024", text)
    False
    """
    words = content_words(quote)
    held = Facts([text])
    return (
        bool(words)
        and sum(word in held.stems for word in words) >= _SAME_WORDS * len(words)
        and _holds_facts(held, quote)
    )


def carries(claim: str, span: str) -> bool:
    """Whether a span holds a claim's own facts: all its numbers, dates and names; without any, half of its words.

    >>> carries("Apollo 11 landed on July 20, 1969", "the landing of Apollo 11 on 20 July 1969")
    True
    >>> carries("Apollo 11 landed on July 21, 1969", "the landing of Apollo 11 on 20 July 1969")
    False
    """
    if not fold(span).text:
        return False
    held = Facts([span])
    if numbers(claim) or dates(claim) or _names(claim):
        return _holds_facts(held, claim)
    words = content_words(claim)
    return bool(words) and sum(word in held.stems for word in words) >= _OWN_WORDS * len(words)


def tells_the_same(quote: str, text: str, evidence: Evidence) -> bool:
    """Whether a quote that was found keeps the facts of the stretch where it was found.

    A stretch that is nearly the quote must hold all its numbers, dates and names; none may begin behind a minus that
    the quote lacks.

    >>> from groundtrace.evidence import locate
    >>> text = "The result of the year was -5 million, after tax."
    >>> [tells_the_same(quote, text, locate(quote, {None: text})) for quote in ("-5 million", "5 million")]
    [True, False]
    """
    start = evidence.start or 0
    cut = minus_before(text, start)
    if evidence.match != "fuzzy" and not cut:
        return True
    span = text[start - cut : evidence.end]
    kinds = (numbers,) if evidence.match != "fuzzy" else (numbers, dates, unsure_dates, names)
    return all(told(quote) <= told(span) for told in kinds)


def _holds_facts(held: Facts, text: str) -> bool:
    spoken = dates(text)
    in_dates = {part for date in spoken for part in components(date)}
    return (
        all(held.date(date) for date in spoken)
        and unsure_dates(text) <= held.unsure_dates
        and all(number in held.numbers for number in numbers(text) - in_dates)
        and not any(held.strange_words(name) for name in _names(text))
    )


def _names(text: str) -> frozenset[str]:
    """The names in a text, and capitalised words that open a sentence and are no English ("Globex grew")."""
    firsts = (_CAPITALISED.match(text, start, end) for start, end in sentences(text))
    openers = (first[0].split("'")[0].split("’")[0] for first in firsts if first and first[0][0].isupper())
    return names(text) | {word.casefold() for word in openers if word.casefold() not in frequencies()}
