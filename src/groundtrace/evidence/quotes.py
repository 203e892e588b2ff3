"""Where a quote stands: letter for letter, but for case and typography, in parts, or nearly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from rapidfuzz import fuzz

from groundtrace.model import Evidence
from groundtrace.text import fold

_OUTER = "\"'`´‘’‚‛“”„‟‹›«»「」『』"
_CUT = re.compile(r"\[\s*(?:\.{3,}|…)\s*\]|\(\s*(?:\.{3,}|…)\s*\)|\.{3,}|\.(?: \.){2,}|…")
_OPENED = re.compile(rf"(?:[\s{_OUTER}]|{_CUT.pattern})*")
_TURNED = str.maketrans("()[]", ")(][")
_STOPS = ".,;:!?"
_EDGE = f" {_STOPS}"
_WORD_START = re.compile(r"(?<!\w)\w")
_WORD_END = re.compile(r"\w(?!\w)[.!?%)\]'\"]*")
_OCCURRENCES = 64
_DIRECT = 100_000_000  # text length x quote length: up to here the library looks everywhere, within 0.1 s at worst
_SHINGLE, _SHINGLES, _PROBES = 8, 16, 16
_LONGEST_NEARLY, _MOST_PARTS_NEARLY = 4000, 12  # beyond, "nearly" would cost the square of what a judge wrote


def locate(quote: str, texts: Mapping[str | None, str], *, fuzzy: float | None = 90.0) -> Evidence:
    """Where a quote stands: in which text (None is the answer itself), from where to where, and how nearly.

    Tried in turn over all texts: exact; normalised (case, white space, quotation marks, dashes, outer punctuation;
    or cut by ellipses, all parts in order); fuzzy, the text most like it, at `fuzzy` of 100 or more,
    not tried where that is None. Offsets are code points of the text as it was given. A quote without a letter or
    digit stands nowhere.

    >>> texts = {"a": "Revenue was $4.2 billion, up 12% year-over-year.", None: "It rose 12%."}
    >>> found = locate("“revenue was … up 12%”", texts)
    >>> found.passage_id, found.match, texts["a"][found.start : found.end]
    ('a', 'normalised', 'Revenue was $4.2 billion, up 12%')
    >>> locate("it fell 12%", texts).match
    'absent'
    """
    bare = _bare(quote)
    if not _says_something(bare):
        return Evidence(quote=quote)
    spelled = (quote,) if bare == quote else tuple(dict.fromkeys((quote, quote.strip(), bare)))
    for name, text in texts.items():
        for wanted in spelled:
            start = _find(wanted, text)
            if start >= 0:
                end = start + len(wanted)
                return Evidence.trusted(quote=quote, passage_id=name, start=start, end=end, match="exact")
    folded = {name: fold(text) for name, text in texts.items()}
    whole = fold(bare).text
    parts = [fold(part).text for part in _CUT.split(bare) if _says_something(part)]
    for spell in ([fold(quote).text], [whole], [whole.strip(_EDGE)], [part.strip(_EDGE) for part in parts]):
        for name, form in folded.items():
            place = _in_order(spell, form.text)
            if place is not None:
                start, end = form.span(*place)
                return Evidence(quote=quote, passage_id=name, start=start, end=end, match="normalised")
    likes = [
        (near, name)
        for name, form in folded.items()
        if fuzzy is not None and (near := _nearest(whole, parts, form.text, fuzzy))
    ]
    if not likes:
        return Evidence(quote=quote)
    (_, first, last), name = max(likes, key=lambda like: like[0][0])
    start, end = folded[name].span(first, last)
    return Evidence(quote=quote, passage_id=name, start=start, end=end, match="fuzzy")


def _bare(quote: str) -> str:
    """The quote without the quotation marks and ellipses around it."""
    opened = None if quote[:1].isalnum() else _OPENED.match(quote)
    start = opened.end() if opened else 0
    if quote[-1:].isalnum() or (quote[-2:-1].isalnum() and quote[-1] in _STOPS):  # as nearly every quote ends
        return quote[start:]
    # Backwards, the same signs open the reversed text; brackets turn round.
    closed = _OPENED.match(quote[start:][::-1].translate(_TURNED))
    return quote[start : len(quote) - (closed.end() if closed else 0)]


def _says_something(text: str) -> bool:
    return text[:1].isalnum() or any(c.isalnum() for c in text)


def _find(wanted: str, text: str) -> int:
    """Where a text stands in another, cutting no word if it can be helped; -1 where it does not."""
    first = at = text.find(wanted) if wanted else -1
    for _ in range(_OCCURRENCES):
        if at < 0:
            break
        if not _cuts_a_word(text, at, at + len(wanted)):
            return at
        at = text.find(wanted, at + 1)
    return first


def _cuts_a_word(text: str, start: int, end: int) -> bool:
    if start > 0 and text[start - 1 : start + 1].isalnum():
        return True
    return 0 < end < len(text) and text[end - 1 : end + 1].isalnum()


def _in_order(parts: Iterable[str], text: str) -> tuple[int, int] | None:
    """The span from the first part to the last where all stand in this order, none overlapping; else None."""
    wanted = [part for part in parts if _says_something(part)]
    if not wanted:
        return None
    if len(wanted) == 1:
        at = _find(wanted[0], text)
        return (at, at + len(wanted[0])) if at >= 0 else None
    end = 0
    for part in wanted:
        at = text.find(part, end)
        if at < 0:
            return None
        end = at + len(part)
    # From the end backwards the parts stand as close together as they can.
    start = end
    for part in reversed(wanted):
        start = text.rfind(part, 0, start)
    return start, end


# --- nearly ---------------------------------------------------------------------------------------------------------


def _nearest(whole: str, parts: list[str], text: str, least: float) -> tuple[float, int, int] | None:
    """The stretch of a text most like the quote, or holding the likes of its parts in order: (score, start, end)."""
    if len(whole) > _LONGEST_NEARLY:
        return None
    near = _alike(whole, text, least)
    if near or not 1 < len(parts) <= _MOST_PARTS_NEARLY:
        return near
    score, start, end = 100.0, None, 0
    for part in parts:
        near = _alike(part, text[end:], least)
        if near is None:
            return None
        score = min(score, near[0])
        start = end + near[1] if start is None else start
        end += near[2]
    return score, start or 0, end


def _alike(wanted: str, text: str, least: float) -> tuple[float, int, int] | None:
    if len(wanted) >= len(text):
        score = fuzz.ratio(wanted, text, score_cutoff=least)
        return (score, 0, len(text)) if text and score else None
    best = None
    for start, end in _stretches(wanted, text, least):
        cutoff = best[0] if best else least
        found = fuzz.partial_ratio_alignment(wanted, text[start:end], score_cutoff=cutoff)
        if found and found.score >= cutoff:
            best = (found.score, start + found.dest_start, start + found.dest_end)
    return best and (best[0], *_whole_words(wanted, text, best[1], best[2]))


def _stretches(wanted: str, text: str, least: float) -> Iterator[tuple[int, int]]:
    """The stretches of a text worth a close look: all of it, or in a very long one those around a rare shingle."""
    if len(wanted) * len(text) <= _DIRECT:
        yield 0, len(text)
        return
    step = max(1, (len(wanted) - _SHINGLE) // (_SHINGLES - 1))
    offsets = range(0, len(wanted) - _SHINGLE + 1, step)
    counted = sorted((text.count(wanted[at : at + _SHINGLE]), at) for at in offsets)
    best = (0.0, 0)
    for count, at in [pair for pair in counted if pair[0]][:_SHINGLE]:
        place = -1
        for _ in range(min(count, _PROBES)):
            place = text.find(wanted[at : at + _SHINGLE], place + 1)
            start = max(0, place - at)
            score = fuzz.ratio(wanted, text[start : start + len(wanted)], score_cutoff=least / 2)
            best = max(best, (score, start))
    if best[0]:
        slack = len(wanted) // 4 + _SHINGLE
        yield max(0, best[1] - slack), best[1] + len(wanted) + slack


def _whole_words(wanted: str, text: str, start: int, end: int) -> tuple[int, int]:
    """The stretch moved to the whole words around its ends that make it most like the quote."""
    reach = 16
    starts = [m.start() for m in _WORD_START.finditer(text, max(0, start - reach), min(len(text), start + reach))]
    ends = [m.end() for m in _WORD_END.finditer(text, max(0, end - reach), min(len(text), end + reach))]
    pairs = [(s, e) for s in starts for e in ends if s < e]
    return max(pairs, key=lambda pair: (fuzz.ratio(wanted, text[pair[0] : pair[1]]), -pair[0]), default=(start, end))
