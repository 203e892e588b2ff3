"""What a text says, word by word: its stems and how much each tells, its numbers, dates and names.

Words are compared by stem, numbers by one spelling. A rare word weighs more than a common one, by the document
frequencies of `groundtrace/data/df.tsv`. English; other languages still give their numbers.
"""

from __future__ import annotations

import functools
import math
import re
import tomllib
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from importlib.resources import files

from snowballstemmer.english_stemmer import EnglishStemmer

from groundtrace.text import sentences

_ENGLISH: Mapping[str, str] = tomllib.loads(files("groundtrace.data").joinpath("english.toml").read_text("utf-8"))


def word_list(name: str) -> tuple[str, ...]:
    """One of the word lists of `groundtrace/data/english.toml`."""
    return tuple(_ENGLISH[name].split())


STOP_WORDS = frozenset(word_list("stop_words"))
NAME_LINKS = frozenset(word_list("name_links"))
_ACRONYMS = frozenset(word_list("acronyms"))
_OPENERS = frozenset(word_list("openers"))

_SPELLED: Mapping[str, int] = {
    **{word: value for name in ("cardinals", "ordinals") for value, word in enumerate(word_list(name))},
    **{word: 10 * value for name in ("tens", "tens_ordinals") for value, word in enumerate(word_list(name), 2)},
}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_TAILS = _SCALES | {"k": 10**3, "mn": 10**6, "bn": 10**9}
_MONEY_TAILS = _TAILS | {"m": 10**6, "b": 10**9, "t": 10**12}
_NUMBER_WORDS = sorted([*_SPELLED, *_SCALES, *(f"{scale}th" for scale in _SCALES)], key=lambda w: (w[0], -len(w)))
_INITIALS = "".join(sorted({word[0] for word in _NUMBER_WORDS}))
_WORD = "|".join(f"{c}(?:{'|'.join(w[1:] for w in _NUMBER_WORDS if w[0] == c)})" for c in _INITIALS)
_NUMBER = re.compile(
    rf"(?=[.\d{_INITIALS}])(?:"
    r"(?<!\w)(?<!\w[.,])(?P<digits>(?:(?<!\.)\.)?\d+(?:[.,]\d+)*)(?![.,]?\d)"
    rf"(?:(?P<tail>[a-z]+)(?!\w)|(?!\w)(?:[\s-]{{1,2}}(?P<scale>{'|'.join(_SCALES)})\b)?)"
    rf"|\b(?P<spelled>(?:{_WORD})\b(?:(?:\sand)?[\s-]{{1,2}}(?:{_WORD})\b)*))"
)
# What gives away a number of several words, for a quick look.
_SEVERAL = ("illion", "housand", "undred", "ozen", "wenty", "hirty", "orty", "ifty", "ixty", "venty", "ighty", "inety")
_CURRENCIES = frozenset("$£€¥")
_MONEY = re.compile(r"[$£€¥]\s?$")
# A minus stands right before its number; behind a word, a digit or a bracket it joins, parts or opens a range.
_MINUS = re.compile(r"(?<![\w.,)\]%°+/±-])(?<![\d%]\s|\d[$£€¥])-[$£€¥]?$")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?")
# "One" is often a pronoun ("one of them", "no one") and "first" an adverb ("first seen"): those count nothing.
_PRONOUN_BEFORE = re.compile(r"\b(?:no|this|that|the|any|some|each|every|another|which)\s$")
_PRONOUN_AFTER = re.compile(
    r"\s?(?:[^\w\s-]|$|(?:of|who|that|can|could|is|was|another|may|might|should|must|would|will|has|had|does)\b)"
)
_ORDINAL_BEFORE = re.compile(
    r"(?:\b(?:the|a|an|his|her|its|their|our|my|your|this|that|every|each|very|and|or)|'s)\s$|\n$|^$"
)

_MONTHS = word_list("months")
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" if month != "may" else month for month in _MONTHS) + "|sept"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"(?<![\w.])(?:(?P<y>\d{{4}})(?P<sep>[-/.])(?P<m>\d{{1,2}})(?P=sep)(?P<d>\d{{1,2}})(?!\d)"
    rf"|(?P<a>\d{{1,2}})(?P<sep2>[-/.])(?P<b>\d{{1,2}})(?P=sep2)(?P<c>\d{{4}})(?!\w)"
    rf"|(?:(?P<day>{_DAY})(?:\s?-\s?(?P<to>{_DAY}))?(?:\s|-)(?:day\s)?(?:of\s)?)?"
    rf"(?P<month>(?=[A-Z])(?i:{_MONTH}))\b\.?"
    rf"(?:[\s-](?P<day2>{_DAY})(?![\d:.]*\d|%)(?:\s?(?:-|to|and)\s?(?P<to2>{_DAY})(?!\d))?)?"
    rf"(?:,?[\s-]?(?:of\s)?(?P<year>\d{{4}})(?!\w))?)"
)

_DIGIT_DATE = re.compile(r"\d[-/.]\d{1,2}[-/.]\d")

# Runs without a break are cut at a length no word has, so that nothing remembered by word grows without bound.
_TOKEN = re.compile(
    r"[^\W\d_](?!\.[^\W\d_]\.)[^\W_]{0,60}(?:'[^\W\d_]{1,30}){0,3}|(?:[^\W\d_]\.){2,30}"
    r"|\.?\d{1,60}(?:[.,]\d{1,60}){0,9}[^\W_]{0,30}|[^\w\s'-]"
)
_ASCII_TOKEN = re.compile(_TOKEN.pattern, re.ASCII)
_PIECE = re.compile(r"(?s).{1,200}(?=\s|\Z)|.{1,200}")
_SURFACE = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-"),
        **dict.fromkeys("\u2014\u2015", "- "),  # between sentences, so that no number behind it is below zero
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\ufeff\u00b9\u00b2\u00b3\u2070\u2074\u2075\u2076\u2077\u2078\u2079"),
        "½": ".5",
        "¼": ".25",
        "¾": ".75",
    }
)


def surface(text: str) -> str:
    """One spelling of quotes, dashes and digits, case kept; footnote digits in superscript are dropped."""
    if text.isascii():
        return text
    # In pieces: the library's time grows with the square of a pile of combining marks.
    return "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECE.findall(text.translate(_SURFACE)))


def tokens(text: str) -> list[str]:
    """The words, numbers and punctuation marks of a text; hyphens part words, numbers of several words become one.

    >>> tokens("The U.S. well-known race isn't worth 2.5 million euros.")
    ['The', 'U.S.', 'well', 'known', 'race', "isn't", 'worth', '2500000', 'euros', '.']
    """
    text = surface(text)
    if any(part in text for part in _SEVERAL):
        text = _in_digits(text)
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


def _in_digits(text: str) -> str:
    low = text.lower()
    parts: list[str] = []
    at = 0
    # A few capitals change their length when lowered; then the numbers stay as they are written.
    for match in _NUMBER.finditer(low) if len(low) == len(text) else ():
        values = [value.removeprefix("-") for value, _ in _values(match)]
        parts += [text[at : match.start()], " ".join(values) or match.group()]
        at = match.end()
    return "".join([*parts, text[at:]])


@functools.lru_cache(maxsize=1 << 15)
def stem(word: str) -> str:
    """What a word is compared by: its stem in lower case, a number in its one spelling; nothing for punctuation."""
    word = word.lower()
    if word in _SPELLED and word != "one":
        return str(_SPELLED[word])
    if not word[-1].isalnum() and len(word) == 1:
        return ""
    if not word[0].isalpha():
        return next((number for number, _ in read_numbers(word)), word)
    return str(EnglishStemmer().stemWord(word.replace(".", "").removesuffix("'s")))


@functools.cache
def frequencies() -> Mapping[str, int]:
    """In how many windows of English text each word stands; under "#windows" how many there were."""
    table = files("groundtrace.data").joinpath("df.tsv").read_text("utf-8")
    return {word: int(count) for word, count in (line.split("\t") for line in table.splitlines())}


@functools.lru_cache(maxsize=1 << 15)
def weight(word: str) -> int:
    """How much a word tells, in thousandths: the logarithm of how rare it is; 0 for stop words and punctuation.

    Whole numbers, so that sums are the same in whatever order they are taken.
    """
    low = word.lower()
    if not (low[-1].isalnum() or len(low) > 1):
        return 0
    if word not in _ACRONYMS and (low.partition("'")[0] in STOP_WORDS or low.endswith("n't")):
        return 0
    seen = frequencies()
    return round(1000 * math.log(seen["#windows"] / max(2, seen.get(low.removesuffix("'s"), 0))))


def content_words(text: str) -> tuple[str, ...]:
    """The stems of the words that carry meaning, in reading order.

    >>> content_words("The three astronauts were walking on the Moon.")
    ('3', 'astronaut', 'walk', 'moon')
    """
    return tuple(stem(word) for word in tokens(text) if weight(word))


def overlap(claim: str, text: str) -> float:
    """The share of a claim's content words that stand in a text, 0..1; 0 for a claim without any.

    >>> overlap("Astronauts walked on Mars", "The astronaut walks on the Moon")
    0.6666666666666666
    """
    wanted = content_words(claim)
    held = set(content_words(text))
    return sum(word in held for word in wanted) / len(wanted) if wanted else 0.0


# --- numbers ----------------------------------------------------------------------------------------------------------


def numbers(text: str) -> frozenset[str]:
    """The numbers a text names, each in one spelling, whatever currency, unit or ordinal ending it wears.

    "One" as a pronoun ("one of them") is no number. An ambiguous "1,2" is two numbers. A minus right before a number
    belongs to it, unless it stands behind a word or another number, as in a range, a date or a name.

    >>> sorted(numbers("$4.2 billion, 1,000 or one thousand, 21.50%, the 21st of 1969, five"))
    ['1000', '1969', '21', '21.5', '4200000000', '5']
    >>> sorted(numbers("-5 million, \u22122.5 degrees, pages 1-3, Apollo-11"))
    ['-2.5', '-5000000', '1', '11', '3']
    """
    return frozenset(number for number, _ in read_numbers(surface(text).lower()))


def minus_before(text: str, start: int) -> int:
    """How many characters before `start` are the minus of a number that begins there; 0 where none is cut off.

    >>> minus_before("a profit of -5 million", 13), minus_before("of -$5", 5), minus_before("pages 1-3", 8)
    (1, 2, 0)
    """
    if not (text[start : start + 1].isdigit() or text[start : start + 1] in _CURRENCIES):
        return 0
    minus = _MINUS.search(surface(text[max(0, start - 5) : start]))
    return len(minus.group()) if minus else 0


def read_numbers(text: str) -> Iterator[tuple[str, str]]:
    """Each number of a lower-case text in reading order: its one spelling, and as it is written."""
    for match in _NUMBER.finditer(text):
        yield from _values(match)


def _values(match: re.Match[str]) -> Iterator[tuple[str, str]]:
    text, (start, end) = match.string, match.span()
    if spelled := match["spelled"]:
        if not _idle(spelled, text, start, end):
            yield from ((str(value), spelled) for value in _spelled(re.split(r"[\s-]+", spelled)))
        return
    tails = _MONEY_TAILS if _MONEY.search(text, max(0, start - 2), start) else _TAILS
    scale = _SCALES.get(match["scale"] or "") or tails.get(match["tail"] or "", 1)
    digits = match["digits"]
    parts = [digits.replace(",", "")] if _THOUSANDS.fullmatch(digits) else digits.split(",")
    below = _MINUS.search(text, max(0, start - 2), start)
    if below:
        parts[0] = f"-{parts[0]}"
    yield from ((_canonical(part), part) for part in parts[:-1])
    written = text[below.start() if below else start : end]
    yield _canonical(parts[-1], scale), written if len(parts) == 1 else parts[-1]


def _idle(word: str, text: str, start: int, end: int) -> bool:
    """Whether a number word counts nothing where it stands."""
    before = max(0, start - 8)
    if word == "one":
        return bool(_PRONOUN_BEFORE.search(text, before, start) or _PRONOUN_AFTER.match(text, end))
    return word == "first" and not _ORDINAL_BEFORE.search(text, before, start)


def _canonical(digits: str, scale: int = 1) -> str:
    """A number in digits without leading or trailing zeros; a version like 1.2.3 stays as it is.

    >>> _canonical("007"), _canonical("21.50"), _canonical("4.2", 1000), _canonical("1.2.3"), _canonical("-0.0")
    ('7', '21.5', '4200', '1.2.3', '0')
    """
    if digits.count(".") > 1 or len(digits) > 40:
        return digits.removeprefix("-")
    text = f"{abs(Decimal(digits)) * scale:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"-{text}" if digits.startswith("-") and text != "0" else text


def _spelled(words: list[str]) -> Iterator[int]:
    """The numbers in a run of number words: "two hundred and five" is one, "nineteen sixty-nine" a year.

    >>> [*_spelled("two hundred and five thousand".split()), *_spelled("nineteen sixty nine seven".split())]
    [205000, 1969, 7]
    """
    total, smallest, group = 0, 10**15, 0
    for word in words:
        scale = _SCALES.get(word) or _SCALES.get(word.removesuffix("th")) or 0
        value = _SPELLED.get(word, 0)
        if word == "and":
            continue
        if scale == 100 and group < 100:
            group = (group or 1) * scale
        elif scale != 100 and scale and scale < smallest:
            total, smallest, group = total + (group or 1) * scale, scale, 0
        elif not scale and (group % 100 == 0 or (group % 10 == 0 and group % 100 >= 20 and 0 < value < 10)):
            group += value
        elif not scale and 13 <= group <= 20 and value >= 10:
            group = group * 100 + value
        else:
            yield total + group
            total, smallest, group = (scale, scale, 0) if scale > 100 else (0, 10**15, scale or value)
    yield total + group


def derivable(number: str, given: Iterable[str]) -> bool:
    """Whether a number is one of those given, in another unit or rounded, or follows from two of them.

    Two numbers give their sum, difference, ratio, percentage and percentage change, at the decimals written.
    Numbers are canonical, as `numbers` returns them.

    >>> derivable("25", ["80", "100"]), derivable("4.2", ["4200000000"]), derivable("31", ["80", "100"])
    (True, True, False)
    """
    try:
        wanted = float(number)
        known = sorted({float(value) for value in given if value.count(".") < 2})
    except ValueError:
        return False
    if not wanted:
        return 0.0 in known
    margin = 0.5000001 * 10 ** -len(number.partition(".")[2])
    low, high = wanted - margin, wanted + margin

    def between(bounds: tuple[float, float], besides: float | None = None) -> bool:
        first, last = sorted(bounds)
        found = known[bisect_left(known, first) : bisect_right(known, last)][:2]
        return any(value != besides for value in found)

    units = (1.0, 100.0, 1e3, 1e6, 1e9, 1e12, 0.01, 1e-3, 1e-6, 1e-9, 1e-12)
    if any(between((low * unit, high * unit)) for unit in units) or between((100 - high, 100 - low)):
        return True
    return any(
        between((low - a, high - a), a)
        or between((a - high, a - low), a)
        or between((low * a, high * a), a)
        or between((low * a / 100, high * a / 100), a)
        or between((a * (1 + low / 100), a * (1 + high / 100)), a)
        or between((a * (1 - low / 100), a * (1 - high / 100)), a)
        for a in known
    )


# --- dates and names --------------------------------------------------------------------------------------------------


def dates(text: str) -> frozenset[str]:
    """The dates a text names, in ISO form; what a date leaves out is left out ("1969-07", "--07-20").

    A date in digits alone whose day and month could change places is not read; see `unsure_dates`.

    >>> sorted(dates("From 16 July 1969 to July 20-21, 1969, 1970-01-05, in May 1971 and on the 3rd of June"))
    ['--06-03', '1969-07-16', '1969-07-20', '1969-07-21', '1970-01-05', '1971-05']
    """
    return frozenset(_dates(" ".join(surface(text).split())))


def unsure_dates(text: str) -> frozenset[str]:
    """The dates in digits alone whose day and month could change places, as they are written but for leading zeros.

    >>> sorted(unsure_dates("On 03/04/2021, 4.3.2021, 05/05/2021 and 31/12/2021"))
    ['3/4/2021', '4.3.2021']
    """
    return frozenset(date for date, _, sure in digit_dates(text) if not sure)


def digit_dates(text: str) -> Iterator[tuple[str, str, bool]]:
    """Each date in digits alone: what it is compared by, as it is written, whether its day and month are sure."""
    plain = " ".join(surface(text).split())
    for match in _DATE.finditer(plain) if _DIGIT_DATE.search(plain) else ():
        if match["y"] or match["a"]:
            sure = next(_spoken(match), None)
            parts = (str(int(match[part])) for part in "abc") if match["a"] else ()
            if sure or (parts and max(int(match["a"]), int(match["b"])) <= 12):
                yield sure or (match["sep2"] or "").join(parts), match.group(), sure is not None


def _dates(text: str) -> Iterator[str]:
    for match in _DATE.finditer(text):
        yield from _spoken(match)


def _spoken(match: re.Match[str]) -> Iterator[str]:
    """The dates of one match in ISO form; none where day and month could change places, or there is no such day."""
    if match["y"]:
        spans = [(match["y"], int(match["m"]), match["d"])]
    elif match["a"]:
        a, b = int(match["a"]), int(match["b"])
        if a <= 12 and b <= 12 and a != b:
            return
        spans = [(match["c"], min(a, b) if max(a, b) > 12 else a, str(max(a, b)))]
    else:
        month = next(place for place, name in enumerate(_MONTHS, 1) if name[:3] == match["month"][:3].lower())
        days = [match[key] for key in ("day", "to", "day2", "to2") if match[key]]
        spans = [(match["year"] or "", month, day.rstrip("stndrh")) for day in days or [""]]
    for year, month, day in spans:
        if month <= 12 and (int(day) <= 31 if day else year):
            yield f"{year or '-'}-{month:02d}" + (f"-{int(day):02d}" if day else "")


def names(text: str) -> frozenset[str]:
    """The proper names of a text in lower case: capitalised words that do not merely open a sentence.

    A name is cut at "of": "Neil Armstrong of NASA" and "Bank of England" are two each. Dots of initials are dropped.

    >>> sorted(names("Yesterday Neil Armstrong of NASA met Ludwig van Beethoven. Visitors like the Moon's dust."))
    ['ludwig van beethoven', 'moon', 'nasa', 'neil armstrong']
    """
    parts = (tokens(text[start:end]) for start, end in sentences(text))
    return frozenset(" ".join(name).casefold() for words in parts for name in read_names(words))


def read_names(words: list[str]) -> Iterator[list[str]]:
    """The names in one sentence, each as its words; a long sentence all in capitals shows none."""
    if len(words) > 4 and all(word == word.upper() for word in words):
        return
    name: list[str] = []
    links: list[str] = []
    opening, alone, before = True, False, ""
    for word in [*words, "."]:
        bare = word.removesuffix("'s").replace(".", "")
        low = bare.casefold()
        idle = low in _MONTHS or (opening and low in _OPENERS) or (not name and low in STOP_WORDS)
        if word[0].isalpha() and word != word.lower() and (not idle or word in _ACRONYMS):
            alone = alone if name else opening and word.istitle()
            if name and len(word) == 1 and before == ".":
                name[-1] += bare
            else:
                name += [*links, bare]
            links = []
        elif name and low in NAME_LINKS:
            links.append(bare)
        elif not (name and word == "." and len(before) == 1):
            while name and name[-1] not in _ACRONYMS and name[-1].casefold() in STOP_WORDS:
                name.pop()
            if name and not (alone and len(name) == 1):
                yield name
            name, links = [], []
        opening = (opening and not word[0].isalpha()) or word == ":"
        before = word
