"""Text as it is compared and as it is read: the matching form, sentences, and the way back to the original.

Nothing here changes a text for good. Every result knows the code points of the original it came from, so that
what is quoted later is really what was written. All functions take linear time, whatever the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from types import MappingProxyType

from sentencex import get_sentence_boundaries

_QUOTES = "\"'`´‘’‚‛“”„‟‹›«»「」『』ʼ′″‵‶＂＇"
_DASHES = "‐‑‒–—―−⁃﹘﹣－"
_IGNORED = (
    "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff"
)
_SPACES = "".join(c for c in map(chr, range(0x3001)) if c.isspace())
_BLANK = _SPACES + _IGNORED
_UNIFIED = MappingProxyType(dict.fromkeys(_QUOTES, "'") | dict.fromkeys(_DASHES, "-") | dict.fromkeys(_IGNORED, ""))
_ASCII_EVEN = MappingProxyType({ord(c): " " for c in _SPACES} | {ord('"'): "'", ord("`"): "'"})
_ASCII_FORM = bytes(ord(_ASCII_EVEN.get(code, chr(code)).lower()) for code in range(128)).ljust(256)
"""What each character of ASCII is in matching form, as far as it stands alone."""
_ASCII_SPACES = re.compile(r"\s\s+")
_KEPT = 20_000
_MARKS_IN_A_CLUSTER = 16  # canonical ordering is quadratic in a pile of marks; no script piles more than a few
_HANGUL_TAIL = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff]")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text in matching form; `span` leads from its offsets back to code points of the original.

    `cuts` holds the places where the two differ in length, as (start, end, original start, original end).
    """

    text: str
    cuts: tuple[tuple[int, int, int, int], ...] = ()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where folded text stands in the original: the smallest span that holds all it was made from.

        >>> folded = fold("The  ﬁrst")
        >>> folded.text, folded.span(4, 9), folded.span(5, 6)
        ('the first', (5, 9), (5, 6))
        """
        at = bisect_right(self.cuts, start, key=itemgetter(0)) - 1
        opens = start
        if at >= 0:
            _, cut_end, original_start, original_end = self.cuts[at]
            opens = original_start if start < cut_end else original_end + start - cut_end
        at = bisect_left(self.cuts, end, key=itemgetter(0)) - 1
        closes = end
        if at >= 0:
            _, cut_end, _, original_end = self.cuts[at]
            closes = original_end + max(0, end - cut_end)
        return opens, max(opens, closes)


def fold(text: str) -> Folded:
    r"""The form in which two texts are compared: what a reader would not call a difference is gone.

    Unicode NFKC and case folding; one quotation mark, one dash; soft hyphens and zero-width characters dropped; runs
    of white space become one space, none at the ends.

    >>> fold("  “Don’t”\n—  STRASSE  ").text
    "'don't' - strasse"
    """
    start = len(text) - len(text.lstrip(_BLANK))
    end = len(text.rstrip(_BLANK))
    if start >= end:
        return Folded("")
    known = set() if text.isascii() else set(text)
    forms = {c: _form(c) for c in known}
    uneven = _uneven(forms) if known else _ASCII_SPACES
    even = {ord(c): form for c, form in forms.items() if len(form) == 1} or _ASCII_EVEN
    # Stretches that keep their length are folded in one go, only the places that do not one by one.
    parts: list[str] = []
    cuts = [(0, 0, 0, start)] if start else []
    size, at = 0, start
    for match in uneven.finditer(text, start, end):
        run = text[at : match.start()].translate(even)
        piece = match.group()
        form = forms.get(piece)
        if form is None:
            form = forms[piece] = _form(piece)
        size += len(run)
        cuts.append((size, size + len(form), match.start(), match.end()))
        parts += run, form
        size += len(form)
        at = match.end()
    parts.append(text[at:end].translate(even))
    folded = "".join(parts)
    return Folded(folded if known else folded.lower(), tuple(cuts))


def folded(text: str) -> str:
    """The matching form alone, where the way back is not needed: `fold(text).text`, sooner.

    >>> folded("  The  `Moon` ")
    "the 'moon'"
    """
    return _folded(text) if len(text) <= _KEPT else _plainly(text)


def _plainly(text: str) -> str:
    if not text.isascii():
        return fold(text).text
    # Two blanks in a row are seldom: looked for at a glance, where splitting looks at every word.
    even = text.encode("ascii").translate(_ASCII_FORM).decode("ascii")
    while "  " in even:
        even = even.replace("  ", " ")
    return even.strip()


_folded = lru_cache(maxsize=256)(_plainly)
"""A trace tells the same passage several times: by its retriever, in its prompt, in its answer's record."""


def _form(piece: str) -> str:
    """The matching form of one character, of a letter with its marks, or of a run of blanks."""
    if not piece.strip(_BLANK):
        return " " if any(c in _SPACES for c in piece) else ""
    unified = _unify(piece)
    composed = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", unified).casefold())
    # Alone, "¨" would become a space with a mark to be put on the letter before: it stays what it is.
    return unified.casefold() if any(c in _SPACES for c in composed) else _unify(composed)


def _unify(piece: str) -> str:
    return "".join(_UNIFIED.get(c, c) for c in piece)


def _uneven(forms: Mapping[str, str]) -> re.Pattern[str]:
    """A pattern for what may change its length: blanks in a row, a letter with marks, and characters that grow."""
    blanks = "".join(sorted(c for c in forms if c in _BLANK))
    marks = "".join(sorted(c for c in forms if _joins_the_letter_before(c)))
    growing = "".join(sorted(c for c, form in forms.items() if len(form) != 1))
    choices = []
    if blanks:
        blank = rf"[{re.escape(blanks)}]" if any(c in _IGNORED for c in blanks) else r"\s"
        choices.append(f"{blank}{blank}+")
    if marks:
        letter = re.escape(blanks + marks)
        choices.append(f"[^{letter}][{re.escape(marks)}]{{1,{_MARKS_IN_A_CLUSTER}}}")
    if growing:
        choices.append(f"[{re.escape(growing)}]")
    return re.compile("|".join(choices) or r"(?!)")


def _joins_the_letter_before(char: str) -> bool:
    return unicodedata.category(char)[0] == "M" or _HANGUL_TAIL.match(char) is not None


# --- sentences --------------------------------------------------------------------------------------------------------

_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
# What opens a line and is no part of its sentence: quotation signs, bullets, numbers, check boxes, heading signs.
_OPENING = re.compile(
    r"(?:[ \t]*(?:>|(?:[-*+•◦‣▪–—]|\#{1,6}|\[[ xX]\]|\(?(?:\d{1,3}|[a-z])[.)]|\(?[A-Z]\))(?=\s)))*\s*",
)
_PAUSE = re.compile(r"[.!?]")
_CLOSING = re.compile(r"[)\]}\"'”’»*_]+(?=\s|$)")
_NO_SENTENCE = re.compile(r"\W*(?:\d{1,3}[.)]\W*)?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WINDOW = 1000  # the library's time grows with the square of what it is given at once


def sentences(text: str) -> tuple[tuple[int, int], ...]:
    r"""Where each sentence starts and ends; a line, a list item or a table row ends one too.

    Spans hold no outer white space, no list marker and no heading sign; they are in order, apart and never empty.

    >>> text = "Dr. Aldrin walked. He saw 3.5 m!\n- dust\n- rocks"
    >>> [text[start:end] for start, end in sentences(text)]
    ['Dr. Aldrin walked.', 'He saw 3.5 m!', 'dust', 'rocks']
    """
    found: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        _take_line(text, *line.span(), found)
    return tuple(found)


def _take_line(text: str, start: int, end: int, found: list[tuple[int, int]]) -> None:
    opening = _OPENING.match(text, start, end)
    start = opening.end() if opening else start
    line = text[start:end].rstrip()
    whole = line.startswith("|") or (line.isascii() and not _PAUSE.search(line, 0, len(line) - 1))
    at = before = 0
    for boundary in () if whole else _boundaries(line):
        closing = _CLOSING.match(line, boundary) if not line[boundary - 1].isspace() else None
        cut = closing.end() if closing else boundary
        # "1." and "(" are no sentences: they open the next one.
        if not _NO_SENTENCE.fullmatch(line, before, cut):
            _take(line[at:cut], start + at, found)
            at = cut
        before = cut
    if at < len(line):
        _take(line[at:], start + at, found)


def _take(piece: str, start: int, found: list[tuple[int, int]]) -> None:
    """Add the place of a sentence, without the white space around it, if it says anything."""
    if piece[:1].isalnum() or any(c.isalnum() for c in piece):
        first = start + len(piece) - len(piece.lstrip())
        found.append((first, first + len(piece.strip())))


def _boundaries(line: str) -> Iterator[int]:
    """Where the library ends sentences in a line, in windows that restart at the last whole sentence."""
    # The library takes no lone surrogates; another character of one code point keeps the offsets.
    if not line.isascii():
        line = _SURROGATE.sub("\ufffd", line)
    at, size = 0, _WINDOW
    while at < len(line):
        found = get_sentence_boundaries("en", line[at : at + size])
        if at + size >= len(line):
            yield from (at + b["end_index"] for b in found)
            return
        if len(found) > 1:
            yield from (at + b["end_index"] for b in found[:-1])
            at += found[-1]["start_index"]
            size = _WINDOW
        else:
            size *= 2
