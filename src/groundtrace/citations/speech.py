"""How an answer talks about itself: that it can't answer, that the documents don't say, a greeting, an offer.

English only: in other languages such sentences count as statements, except questions.
"""

from __future__ import annotations

import functools
import re
from types import MappingProxyType

_WORDS = MappingProxyType(
    {
        "I": "i",  # the assistant
        "W": "we",  # the assistant, or a company whose words it repeats
        "P": "context contexts document documents documentation passage passages sources text texts article articles "
        "excerpt excerpts snippet snippets transcript references",  # what was retrieved
        "p": "source content contents material materials result results data files pages records resources knowledge",
        "N": "no not n't cannot unable nothing none neither never insufficient lack unsure uncertain unaware unclear "
        "impossible silent",  # denial
        "U": "unknown unanswerable unavailable unspecified",
        "T": "contain provide include cover give indicate have offer disclose list name reveal present show identify "
        "define support",  # what documents and others do
        "t": "specify state address discuss describe explain clarify detail talk speak refer elaborate focus deal "
        "relate pertain concern settle resolve explicitly directly specifically",  # what documents do
        "C": "disagree conflict differ diverge contradict vary",  # what they do together
        "K": "know find determine locate confirm tell verify say sure certain aware",
        "k": "see help assist able",
        "M": "mention indication",  # both done and had
        "m": "answer reference response",
        "F": "information details info",
        "S": "mentioned specified stated",  # what is told
        "D": "available found covered discussed addressed included known listed indicated detailed described present "
        "contained explained possible clear enough sufficient",
        "X": "answered answerable determined confirmed verified established",
        "E": "there",
        "H": "they it this that question query these",
        "O": "in from within by based",
        "A": "about on regarding concerning for",
        "q": "provided given retrieved supplied search these following above",  # which documents
        "": "a am an and any are as at be been being both but can could did do does enough even had has however is of "
        "or so the their to was were will with would currently fully which relevant your",
    }
)
_LETTER = MappingProxyType({word: letter for letter, words in _WORDS.items() for word in words.split()})
_TOKEN = re.compile(r"n['’]t\b|[^\W_]+?(?=n['’]t\b)|['’](?:m|re|s|d|ve)\b|[^\W_]+|[,;:()]")
_ABSTAINS = re.compile(
    r"I[.,TKk]{0,2}N[.,Tt]{0,2}[KkTtMmFDSqX]"  # I do not know; I was unable to find
    r"|W[.,]{0,2}N[.,k]{0,2}K"  # we cannot confirm
    r"|[IW][TtK](?:NO?|O?N)[.DSq]{0,2}[FM]|WN[.Tt]{0,2}[FM]"  # we have no information
    r"|(?<!')P[^,]{0,6}N[.]?[TtMmKF]"  # the documents about it do not mention
    r"|(?<!')P[^,]{0,6}[Tt]N[.DSq]{0,3}[FMm]"  # the documents contain no information
    r"|(?<!')[PF][^,]{0,6}N[DA]"  # the context is not sufficient
    r"|N[Oq]{0,2}P[^,]{0,4}[TtMKD]"  # none of the documents mentions; nothing in the context tells
    r"|HN[.]?[Tt][.DSq]{0,2}[FMm]"  # it does not contain the information
    r"|EN[.DSqTtK]{0,3}(?:[FM]|m$)"  # there is no information
    r"|EN[^,]{0,10}O[SDq.]{0,2}P"  # there is nothing about it in the context
    r"|N[.]?[SqDXK][^,]{0,10}O[SDq.]{0,2}P"  # it is not stated in the documents
    r"|NO[SDq.]{0,2}P,?$"  # it is not in the documents
    r"|[NU][^,]{0,6}O[SDq.]{0,2}P,?$"  # it is unclear from the documents
    r"|N[Sq],?$"  # the budget is not mentioned
    r"|^[.]?N[.DSqK]{0,2}(?:[FM](?:$|[^,]{0,8}[SqDX],?(?:$|O)|[.]?m$)|m[.]?D?$)"  # no information is available
    r"|^[.]?N[.DSq]{0,2}P.{0,3}[DSqK]"  # no documents were found
    r"|(?:^|,).{0,2}ND[KMm]"  # it is not possible to determine
    r"|[HMm].{0,3}NX(?:,|$|[^,]{0,6}O[SDq.]{0,2}P)"  # the question cannot be answered
    r"|^(?:H?U|N[SqDFX])$"  # unknown; not found
)
_ABOUT_DOCUMENTS = re.compile(r"^[,.NA]?[SDq]{0,2}(?:P[SDq.]{0,2}N?[TtMmKA]|H[.]?N?[tM])")
_DISAGREE = re.compile(r"^[,.N]?[SDq]{0,2}P[SDq.]{0,2}C")
_REPORTS = re.compile(r"\bthat\b|\d")
_QUALIFIED = re.compile(r"q([.]?)[pF]")
_NUMBERED = re.compile(r"\barticles? \d")  # of a law, which a passage may well quote
_CONTRAST = re.compile(r"[,;]?\s+(?:but|however|though|although|yet|while|whereas)\b,?\s+|;\s+", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"\n]{0,400}"|“[^“”\n]{0,400}”')
_QUESTION = re.compile(r"[?？؟][\s\"'”’)\]*_.!]*$")
_COURTESY = re.compile(
    r"\W*(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening)|sure|certainly|of course|absolutely|definitely"
    r"|okay?|great|thanks|thank you|you['’]re welcome|no problem|i['’]m sorry|sorry|(?:my )?apologies|i apologi[sz]e"
    r"|unfortunately|(?:great|good|excellent) question|happy to help)"
    r"(?:\s(?:there|again|everyone|much|so much|thing|to help|for (?:the|your|any|asking)[^.!?]{0,60}))?\W*",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"\W*(?:i hope (?:this|that|it)|let me know|feel free to|please (?:let me|feel free|provide (?:me|more)|share"
    r"|clarify|rephrase)|if you (?:have|need|would like|['’]d like|want|can|could) (?:\w+ ){0,3}?(?:questions?|help"
    r"|information|details?|assistance|clarification|documents?|context)|i(?:['’]d| would) be (?:happy|glad)"
    r"|i can (?:help|assist)|here(?:['’]s| is| are) (?:the answer|what|a summary|my))\b",
    re.IGNORECASE,
)
_ADVICE = re.compile(
    r"\W*(?:for (?:more|further|additional|detailed|accurate|that|this) (?:\w+ )?(?:information|details|answers?)\b"
    r"|i(?:['’]d| would)? (?:recommend|suggest|advise)\b"
    r"|(?:you|it) (?:may|might|could|can|should|would) (?:also )?(?:want|wish|need to|try|consider|check|consult"
    r"|contact|visit|refer|look|find|ask|be (?:best|helpful|better|useful))\b"
    r"|please (?:check|consult|contact|refer|see|visit|try|note|provide)\b|(?:try|consider) \w+ing\b"
    r"|(?:more|further|additional) (?:information|details|context|research|documents?)\b"
    r"|to (?:find|get|obtain|answer) (?:this|that|more|the|your|an?) (?:\w+ )?(?:information|answers?|details)\b)",
    re.IGNORECASE,
)
_DENIALS = (*_WORDS["N"].split(), *_WORDS["U"].split())
# The first letter comes first, so that the search skips what begins with no such letter.
_MAY_DENY = re.compile(
    rf"[{''.join(sorted({word[0] for word in _DENIALS}))}](?<![^\W_].)(?:"
    + "|".join(
        rf"(?<={first})(?:{'|'.join(word[1:] for word in _DENIALS if word[0] == first)})"
        for first in sorted({word[0] for word in _DENIALS})
    )
    + r")(?:e?s)?(?![^\W_])"
)
# The same of ASCII, in a part of the time: it is asked of every answer and every statement there is.
_DENYING = frozenset(f"{word}{ending}".encode() for word in _DENIALS for ending in ("", "s", "es"))
_WORDS_ALONE = bytes(code if chr(code).isalnum() else 0x20 for code in range(128)).ljust(256)
_MAY_DISAGREE = re.compile(r"disagree|conflict|differ|diverge|contradict|var(?:y|ies)", re.IGNORECASE)
"""Words without which a sentence need not be looked at: every form above has one of them in it."""

_LONGEST = 1000  # a sentence that abstains is short; what is longer says more than that


def abstains(sentence: str) -> bool:
    """Whether a sentence says that its speaker can't answer or that the documents don't say.

    >>> abstains("The provided documents do not mention a catering budget."), abstains("It does not orbit the Sun.")
    (True, False)
    """
    if len(sentence) > _LONGEST or not may_abstain(sentence):
        return False
    return _ABSTAINS.search(_letters(sentence)) is not None


def may_abstain(text: str) -> bool:
    """Whether a text has a word without which nothing abstains.

    >>> may_abstain("It orbits the Sun."), may_abstain("It does not orbit the Sun.")
    (False, True)
    """
    lowered = text.lower()
    if not _denies(lowered):
        return False
    return lowered.isascii() or "n't" in lowered or "n’t" in lowered or _MAY_DENY.search(lowered) is not None


def may_abstain_in_part(text: str) -> bool:
    """Whether any part of a text may abstain, wherever it is cut: between words, or at a mark.

    >>> may_abstain_in_part("It orbits the Sun [1]."), may_abstain_in_part("Unknown²not [1].")
    (False, True)
    """
    return _denies(text.lower())


def _denies(lowered: str) -> bool:
    """Whether a word that denies stands in a text, if only between letters that are no ASCII."""
    if "n't" in lowered or "n’t" in lowered:
        return True
    return not _DENYING.isdisjoint(lowered.encode("ascii", "replace").translate(_WORDS_ALONE).split())


def beside_the_point(sentence: str) -> bool:
    """Whether a sentence beside an abstention only says what the documents are about, or what to do instead.

    >>> beside_the_point("They only discuss the crew."), beside_the_point("You may want to ask NASA.")
    (True, True)
    """
    if _ADVICE.match(sentence):
        return True
    return not _REPORTS.search(sentence) and _ABOUT_DOCUMENTS.match(_letters(sentence[:_LONGEST])) is not None


def states_nothing(sentence: str) -> bool:
    """Whether a sentence states nothing a passage could support: a question, a courtesy, that the sources disagree.

    >>> states_nothing("Who was it?"), states_nothing("Sure!"), states_nothing("Sure, it flew.")
    (True, True, False)
    """
    if len(sentence) > _LONGEST:
        return _QUESTION.search(sentence[-12:]) is not None
    return (
        _QUESTION.search(sentence[-12:]) is not None
        or _COURTESY.fullmatch(sentence) is not None
        or _OFFER.match(sentence) is not None
        or (
            _MAY_DISAGREE.search(sentence) is not None
            and not _REPORTS.search(sentence)
            and _DISAGREE.match(_letters(sentence)) is not None
        )
    )


def contrasts(sentence: str) -> tuple[tuple[int, int], ...]:
    """The sides of a sentence that turns round: where each starts and ends.

    >>> contrasts("They do not say, but it flew.")
    ((0, 15), (21, 29))
    """
    if len(sentence) > _LONGEST:
        return ((0, len(sentence)),)
    turns = [match.span() for match in _CONTRAST.finditer(sentence)]
    starts, ends = [0, *(end for _, end in turns)], [*(start for start, _ in turns), len(sentence)]
    return tuple(zip(starts, ends, strict=True))


def _letters(sentence: str) -> str:
    """The sentence with a letter for each word that matters here, a dot for each other, idle words left out.

    >>> _letters("The provided documents do not mention it.")
    'qPNMH'
    """
    plain = _NUMBERED.sub("law ", _QUOTED.sub(" ", sentence).replace("’", "'").lower())
    letters = "".join(_letter(word) for word in _TOKEN.findall(plain))
    return _QUALIFIED.sub(r"q\1P", letters)


@functools.lru_cache(maxsize=1 << 14)
def _letter(word: str) -> str:
    if not word[-1].isalnum():
        return ","
    if word.startswith("'"):
        return "'" if word == "'s" else ""
    return next((_LETTER[w] for w in (word, word.removesuffix("s"), word.removesuffix("es")) if w in _LETTER), ".")
