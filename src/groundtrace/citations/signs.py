"""Marks that are marks by the way they are used: (1), superscripts, "Source 2", <cite> tags.

Each of these forms has other uses that are as common, so each asks for more than its form: what stands around it, and
for (1) and "Source 2" passages that are counted at all. Where the use is in doubt there is no mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from groundtrace.citations.index import Index, Marker
from groundtrace.citations.speech import abstains

_HIGH = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_TO_DIGITS = str.maketrans(_HIGH, "0123456789")
_SIGNED = re.compile(rf"\(\d|<\W?(?:cite|citation|ref|source|sup)\b|[{_HIGH}]", re.IGNORECASE)


def may_sign(answer: str) -> bool:
    """Whether an answer has a sign in it without which there is none of these marks.

    >>> may_sign("It is far (1)."), may_sign("It is far²."), may_sign("A document."), may_sign("In Document 3.")
    (True, True, False, True)
    """
    if ("(" in answer or "<" in answer or not answer.isascii()) and _SIGNED.search(answer):
        return True
    return _may_speak(answer) and _NAMED.search(answer) is not None


def _may_speak(answer: str) -> bool:
    """Whether one of the words is in it that passages are called by; written out, for it is asked of every answer."""
    return (
        "ource" in answer
        or "doc" in answer
        or "Doc" in answer
        or "assage" in answer
        or "ref" in answer
        or "Ref" in answer
        or "xcerpt" in answer
        or "hunk" in answer
        or "nippet" in answer
        or "ontext" in answer
    )


# --- (1) --------------------------------------------------------------------------------------------------------------

_ROUND = re.compile(r"\((\d{1,3}(?:\s?[,;–-]\s?\d{1,3}){0,20})\)")
_SAID_BEFORE = re.compile(r"(?:[^\W_]|[.!?%)\"'”’»*。！？])\s?\Z|\(\d[\d ,;–-]{0,40}\)\s?(?:,|and|&)?\s?\Z")
_GLUED = re.compile(r"[A-Za-z0-9_]\Z")
_ENUMERATED = re.compile(
    r"\b(?:steps?|phases?|options?|equations?|eqs?\.?|figures?|figs?\.?|tables?|sections?|sec\.?|items?|parts?"
    r"|articles?|art\.?|paragraphs?|chapters?|levels?|types?|grades?|class(?:es)?|categor(?:y|ies)|cases?|points?"
    r"|clauses?|conditions?|numbers?|no\.?|questions?|rules?|stages?|versions?|groups?|about|around|under|over|one|two"
    r"|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|\d+)\s?\Z",
    re.IGNORECASE,
)
_CLAIM_ENDS = re.compile(r"[ \t]*(?:\Z|[.,;!?。，、；！？\n]|\(\d|(?:,|and|&)\s*\(\d)")


def rounds(answer: str, index: Index) -> list[Marker]:
    """Numbers in round brackets, if all of them are used as citations are, and there are several.

    Each closes a claim and counts a passage there is. One that opens an item of a list, stands behind "step" or
    behind a number, or is a quantity shows that the answer uses them for something else.
    """
    if not index.passages:
        return []
    found: list[Marker] = []
    for match in _ROUND.finditer(answer):
        before = answer[max(0, match.start() - 48) : match.start()]
        targets = index.targets(match[1])
        used = _SAID_BEFORE.search(before) and _CLAIM_ENDS.match(answer, match.end())
        if not used or _GLUED.search(before) or _ENUMERATED.search(before) or not targets or None in targets:
            return []
        found.append(Marker(match.start(), match.end(), match[0], targets))
    return found if len(found) > 1 else []


# --- superscripts -----------------------------------------------------------------------------------------------------

_SUPERSCRIPT = re.compile(
    rf"[{_HIGH}]{{1,3}}(?:[,;˒⁻]\s?[{_HIGH}]{{1,3}}){{0,20}}"
    r"|<sup>\s*\(?(\d{1,3}(?:\s*[,;–-]\s*\d{1,3}){0,20})\)?\s*</sup>",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+\Z")
_YEAR = re.compile(r"(?<![\d.,])(?:1\d{3}|20\d\d)\Z")
_BRACKETED = re.compile(r"\([^()]{0,40}\)\Z")
_TERM = re.compile(r"[-+*/=^−×·]|\A\(\w\)\Z")
_MEASURE = re.compile(
    r"[cdhknpµμ]?m|dam|ft|feet|foot|yd|mi|miles?|inch(?:es)?|in|(?:centi|kilo|milli)?met(?:er|re)s?|s|secs?|ms|min|hr?"
    r"|[kmµμ]?g|lb|m?l|ha|au|pc|ly|[km]pc|[km]?pa|[a-z]|mc|sin|cos|tan|log|ln|exp|chi|sq|qm|bar|psi",
    re.IGNORECASE,
)
"""Words behind which a raised number is a power."""
_GOES_ON = re.compile(r"[⁺⁻⁼ⁿ⁽⁾]|[A-Za-z0-9_=^]")
_APART = frozenset(("", "\n", ".", ",", ";", "!", "?"))
_CJK = "\u2e80"


def superscripts(answer: str, index: Index) -> Iterator[Marker]:
    """Small raised numbers behind a word or a full stop; behind a unit, a letter or a number they are powers.

    Behind a year one is a mark where the answer has another that is surely one. Two digits in a row that count no
    passage together, but do each, are two numbers.
    """
    if answer.isascii() and "<" not in answer:
        return
    found = [(match, use) for match in _SUPERSCRIPT.finditer(answer) if (use := _use(answer, match))]
    sure = any(use == "sure" for _, use in found)
    for match, use in found:
        targets = _raised(match, index) if sure or use == "sure" else ()
        if targets:
            yield Marker(match.start(), match.end(), match[0], targets)


def _use(answer: str, match: re.Match[str]) -> str:
    """How a raised number is used: "sure" as a mark, "perhaps", or not as one."""
    start, end = match.span()
    after = answer[end : end + 1]
    if _GOES_ON.match(answer, end) or (after.isalpha() and after < _CJK):
        return ""
    before = answer[max(0, start - 48) : start]
    bare = before.rstrip(" \u00a0\u2009\u202f")
    last = bare[-1:]
    apart = len(bare) < len(before)
    if not last or last == "\n" or (apart and after not in _APART):
        return ""
    if last.isdecimal():
        return "perhaps" if not apart and _YEAR.search(bare) else ""
    if last.isalpha():
        word = _WORD.search(bare)
        short = word is None or (len(word[0]) < 2 and last < _CJK) or _MEASURE.fullmatch(word[0])
        return "" if short else "sure"
    if last == ")":
        term = _BRACKETED.search(bare)
        return "" if term is None or _TERM.search(term[0]) else "sure"
    return "sure" if last in '.!?,;:"”’»%。！？，、」』…*]>' else ""


def _raised(match: re.Match[str], index: Index) -> tuple[str | None, ...]:
    if match[1]:
        return index.targets(match[1].replace("–", "-"))
    digits = match[0].translate(_TO_DIGITS).replace("⁻", "-").replace("˒", ",")
    targets = index.targets(digits)
    if digits.isdecimal() and len(digits) > 1 and targets == (None,) and len(set(digits)) == len(digits):
        single = [index.numbered(digit) for digit in digits]
        return tuple(single) if None not in single else targets
    return targets


# --- "Source 2" -------------------------------------------------------------------------------------------------------

_NAME = (
    r"(?:[Ss]ource|[Dd]ocument|[Dd]oc\.?|[Pp]assage|[Rr]eference|[Rr]ef\.?|[Ee]xcerpt|[Cc]hunk|[Ss]nippet|[Cc]ontext"
    r")"
)
_LISTED = r"(?:\s?(?:,|;|&|–|-|,?\s?\b(?:and|or|to)\b)\s?\d{1,3}(?!\d))"
_REFERENCE = rf"(?:{_NAME}\s?(?:#|[Nn]o\.\s?|[Nn]umber\s)?\d{{1,3}}|{_NAME}s\s?#?\d{{1,3}}{_LISTED}{{0,20}})"
_NAMED = re.compile(rf"(?<!\w){_REFERENCE}(?!\w|[.,:]\d|-\w|/\d|\s?%|\s(?:of|out of)\s(?:the\s)?\d)")
_IN_ROUND = re.compile(
    rf"\((?:(?:see|cf\.|from|per|[Ss]ources?:)\s)?{_REFERENCE}(?:\s?(?:[,;&]|,?\s?\band\b)\s?{_REFERENCE}){{0,20}}\)"
)
_NUMBERS = re.compile(r"(\d{1,3})(?:\s?(?:[–-]|to)\s?(\d{1,3}))?")
_LEADS = re.compile(
    r"\b(?:according to|(?:stated|noted|described|reported|shown|mentioned|explained|found|seen|given|detailed|listed"
    r"|recorded|confirmed) (?:in|by)|based on|as per|per|see|cf\.|in|from|by|via|and|or|both)\s(?:the\s)?[*_]{0,2}\Z",
    re.IGNORECASE,
)
_OPENING = re.compile(r"(?:\A|\n|[.!?]\s)[\s>*_#-]{0,8}\Z")
_LABELS = re.compile(r"[*_]{0,2}\s?:(?:\s|[*_])")
_TELLS = re.compile(
    r"[*_]{0,2}\s(?:(?:also|further|clearly|explicitly)\s)?(?:says?|states?|notes?|reports?|mentions?|describes?"
    r"|explains?|indicates?|confirms?|adds?|shows?|tells?|puts|gives?|lists?|claims?|suggests?|records?|specif(?:y|ies)"
    r"|provides?|and\s(?:[Ss]ource|[Dd]ocument|[Pp]assage)\s\d)\b"
)
_ENDS = re.compile(r"[.!?](?=\s|\Z)|\n")


def spoken(answer: str, index: Index) -> Iterator[Marker]:
    """Passages an answer calls by a word and a number: (Source 2), according to Document 3, "Source 2: ...".

    Elsewhere a sentence about a document is about it ("Document 3 is a contract"), and so is one that abstains.
    """
    if not index.passages or not _may_speak(answer):
        return
    end = 0
    for match in _IN_ROUND.finditer(answer):
        yield Marker(match.start(), match.end(), match[0], _counted(match[0], index))
    for match in _NAMED.finditer(answer):
        start, end = match.span()
        before = answer[max(0, start - 40) : start]
        label = _LABELS.match(answer, end)
        used = (label and _OPENING.search(before)) or _LEADS.search(before) or _TELLS.match(answer, end)
        if used and not abstains(_sentence(answer, start, end)):
            yield Marker(start, end, match[0], _counted(match[0], index))


def _sentence(answer: str, start: int, end: int) -> str:
    """The sentence around a place, as far as it reaches within a few hundred characters."""
    left = max(0, start - 300)
    opens = max((cut.end() for cut in _ENDS.finditer(answer, left, start)), default=left)
    closes = _ENDS.search(answer, end, end + 300)
    return answer[opens : closes.end() if closes else end + 300]


def _counted(said: str, index: Index) -> tuple[str | None, ...]:
    found: dict[str | None, None] = {}
    for first, last in _NUMBERS.findall(said):
        through = int(last) if last else int(first)
        numbers = range(int(first), min(through, int(first) + 50) + 1) if through > int(first) else (int(first),)
        found |= dict.fromkeys(index.numbered(str(number)) for number in numbers)
    return tuple(found)


# --- <cite> -----------------------------------------------------------------------------------------------------------

_TAG = re.compile(r"<(/?)(cite|citation|ref|source)\b([^<>]{0,400})>", re.IGNORECASE)
_NAMES = re.compile(
    r"(?<![\w-])(?:ids?|sources?|refs?|docs?|documents?|doc_id|document_id|src|n|index|indices|data-[\w-]{1,30})\s*=\s*"
    r"(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'/>]+))",
    re.IGNORECASE,
)


def tagged(answer: str, index: Index) -> Iterator[Marker]:
    """Tags that cite: <cite>1</cite> and <cite id="2"/> whole; of <cite id="2">claim</cite> the one that closes it.

    The one that opens it is kept too, without targets, so that no claim has it in its text.
    """
    for (start, end), attributes, closing in _tags(answer):
        inner = answer[end : closing[0]] if closing else ""
        named = _told(attributes, index, known=answer[start + 1 : start + 5].lower() == "cite")
        content = inner.strip(" \t[]()")
        if closing and named and any(c.isalnum() for c in inner) and not (content and index.targets(content)):
            yield Marker(start, end, answer[start:end], ())
            yield Marker(*closing, answer[slice(*closing)], named)
        else:
            whole = closing[1] if closing else end
            targets = named or (index.targets(content) if closing and len(content) <= 200 else ())
            if targets:
                yield Marker(start, whole, answer[start:whole], targets)


def opened(answer: str) -> dict[int, tuple[int, int]]:
    """Where the tag stands that opens what a tag closes, by where the closing one starts."""
    return {closing[0]: place for place, _, closing in _tags(answer) if closing}


_Place = tuple[int, int]


def _tags(answer: str) -> list[tuple[_Place, str, _Place | None]]:
    """The tags in order, with their attributes and the one that closes each."""
    if "<" not in answer:
        return []
    found: list[tuple[_Place, str, _Place | None]] = []
    open_tag: tuple[int, str] | None = None
    for tag in _TAG.finditer(answer):
        name = tag[2].lower()
        if not tag[1]:
            found.append((tag.span(), tag[3], None))
            open_tag = None if tag[3].endswith("/") else (len(found) - 1, name)
        elif open_tag is not None and open_tag[1] == name:
            place, attributes, _ = found[open_tag[0]]
            found[open_tag[0]] = place, attributes, tag.span()
            open_tag = None
    return found


def _told(attributes: str, index: Index, *, known: bool) -> tuple[str | None, ...]:
    """What a tag's attributes point to; where the tag is surely one that cites, also nowhere."""
    values = ["".join(found).strip() for found in _NAMES.findall(attributes)]
    for value in values:
        named = index.named(value)
        targets = (named,) if named else index.targets(value)
        if any(targets) or (targets and known):
            return targets
    return (None,) if known and any(values) else ()
