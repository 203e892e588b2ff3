"""The embedded judge: deterministic, no key, no network, no download; it counts words and says which are missing.

It answers in the JSON a language model would answer in and passes the same gate. What it measures is
`groundtrace.lexical.compare`: how much of a claim stands in a few sentences of the passages, and whether its numbers
and names do. Low scores are alarms to be trusted; high scores are no proof. It does not see negation, relations or who
did what to whom where the words overlap, it knows nothing but English, and it does not assess abstention or how
conflicting sources are dealt with.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from itertools import count
from typing import TYPE_CHECKING, Any

from groundtrace import lexical
from groundtrace.citations import abstention, cite, claims
from groundtrace.lexical import Comparison, Passages, Tokens, compare
from groundtrace.model import Case, Mention, Passage, Reply

if TYPE_CHECKING:
    from groundtrace.model import JudgeKind
    from groundtrace.ports import Again

RULES = 1
"""Counts up whenever a rule here or in `groundtrace.lexical` moves a score."""

CUTS = {5: 0.80, 4: 0.45, 3: 0.25}
"""The composite from which a level is given; 4 is where a claim counts as supported. Set once, over all open data."""

ON_TOPIC = 0.2
"""The share of a claim's words that makes a passage on topic, level 2; below it is off topic, level 1."""

_STEEPNESS = 4.2
_LEVELS = {
    5: "Directly Supports",
    4: "Strongly Implies",
    3: "Partially Supports",
    2: "Weakly Related",
    1: "No Support / Contradicts",
}
_OPENINGS = {
    5: "The passage says this nearly word for word",
    4: "The passage holds most of this in its own words",
    3: "The passage holds a part of this",
    2: "The passage shares words with the claim and does not carry it; it comes closest here",
    1: "The passage has next to nothing of the claim",
}
_UNASSESSED = {
    "source_support": frozenset[str](),
    "rag_faithfulness": frozenset({"abstention_appropriateness", "source_conflict_handling"}),
}
_SILENT, _CLAUSE_WORDS = 0.15, 3
_WEAK = 0.5
_GLIMPSE = 160
_REMEMBERED = 4000

Answered = tuple[dict[str, Any], tuple[str, ...]]


class OfflineJudge:
    """Scores by how well the words of a claim stand in its passages; the default judge, needs nothing."""

    kind: JudgeKind = "offline"
    limits = (
        "Counts words: blind to negation, relations and who did what to whom where words overlap; English only. "
        "Low scores are alarms, high scores are not proof."
    )

    def __init__(self) -> None:
        self.id = f"offline@{_version()}"
        # The same passages come case after case; of long ones a few are remembered.
        self._short = functools.lru_cache(maxsize=256)(Tokens)
        self._long = functools.lru_cache(maxsize=4)(Tokens)

    def unassessed(self, rubric: str) -> frozenset[str]:
        """What counting words can't assess: how an answer abstains and how it deals with conflicting sources."""
        return _UNASSESSED.get(rubric, frozenset())

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with its reply, one after the other; a remark gets the same answer, for nothing here is chance."""
        for first in cases:
            case, reply = first, self._reply(first, 1)
            for attempt in count(2):
                asked = again(case, reply)
                if asked is None:
                    break
                case, reply = asked, self._reply(asked, attempt)
            yield case, reply

    def _reply(self, case: Case, attempt: int) -> Reply:
        known: dict[str, Callable[[Mapping[str, Any]], Answered]] = {
            "source_support": self._pair,
            "rag_faithfulness": self._answer,
        }
        if case.rubric not in known:
            fault = f"the offline judge does not know the rubric {case.rubric!r}; it knows {' and '.join(known)}"
            return Reply("", self.id, attempt, fault=fault)
        try:
            verdict, flags = known[case.rubric](case.body)
        except KeyError as part:
            return Reply("", self.id, attempt, fault=f"the case lacks {part}, which {case.rubric} is judged by")
        return Reply(json.dumps(verdict, ensure_ascii=False), self.id, attempt, cost=0.0, flags=flags)

    def _tokenise(self, text: str) -> Tokens:
        return self._short(text) if len(text) <= _REMEMBERED else self._long(text)

    def _compare(self, claim: str, texts: Sequence[str]) -> Comparison:
        return compare(claim, Passages(texts, self._tokenise))

    def _pair(self, body: Mapping[str, Any]) -> Answered:
        """The verdict on a claim and the passage it is held against."""
        text = body["passage"]["text"]
        found = self._compare(body["claim"], [text])
        score = level(found)
        quotes = _quotes(found, [text])
        verdict = {
            "score": score,
            "support_level": _LEVELS[score],
            "rationale": " ".join([_opening(score, quotes), *_reasons(found)]),
            "key_evidence": quotes[0] if quotes else None,
            "missing_information": None if score == 5 else _missing(found),
            "confidence": confidence(found),
        }
        return verdict, _flags([found])

    def _answer(self, body: Mapping[str, Any]) -> Answered:
        """The verdict on an answer: what its claims rest on, and whether its citations point there."""
        passages, answer, stood = body["passages"], body["answer"], body["citations"]
        texts = {passage["id"]: passage["text"] for passage in passages}
        held_back = abstention(answer)
        held = [] if held_back == "pure" else self._held(answer, passages, stood)
        support = _support(answer, held, texts, abstains=held_back is not None)
        accuracy, misattributions = self._citations(answer, stood, texts, held)
        scores = [dimension["score"] for dimension in (support, accuracy) if dimension["score"] is not None]
        unassessed = sorted(_UNASSESSED["rag_faithfulness"])
        verdict = {
            "overall_faithfulness_score": _mean(scores),
            "dimension_scores": {
                "claim_support": support,
                "citation_accuracy": accuracy,
                **{name: _dimension(None, "not assessed by this judge") for name in unassessed},
            },
            "unsupported_claims": [_unsupported(item, list(texts)) for item in held if item.level < 4],
            "hallucination_flags": [_fabrication(item) for item in held if item.level < 3] + misattributions,
        }
        return verdict, _flags([item.found for item in held])

    def _held(
        self, answer: str, passages: Sequence[Mapping[str, Any]], stood: Sequence[Mapping[str, Any]]
    ) -> list[_Held]:
        """The answer's claims, each held against all passages together."""
        listed = [Passage(id=p["id"], text=p["text"], rank=p["rank"]) for p in passages]
        told = [Mention(claim=c["claim"], document_id=c["passage_id"]) for c in stood if c["marker"] is None]
        texts = [passage.text for passage in listed]
        stated = claims(answer, cite(answer, listed, told))
        found = [(claim, self._compare(claim.text, texts)) for claim in stated]
        return [_Held(claim.text, bool(claim.citations), comparison, level(comparison)) for claim, comparison in found]

    def _citations(
        self, answer: str, stood: Sequence[Mapping[str, Any]], texts: Mapping[str, str], held: Sequence[_Held]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The dimension citation_accuracy, and a flag for each citation that does not carry its claim."""
        if not stood:
            return _dimension(None, "the answer cites nothing"), []
        wrong: list[Mapping[str, Any]] = []
        loose = 0
        spans: list[str] = []
        together: dict[str, list[str]] = {}
        for citation in stood:
            together.setdefault(citation["claim"], []).append(texts.get(citation["passage_id"], ""))
        for citation in stood:
            claim, text = citation["claim"], texts.get(citation["passage_id"], "")
            found = self._compare(claim, [text])
            reached = level(found)
            if reached < 3:
                wrong.append(citation)
                spans.append(claim)
            else:
                spans += _quotes(found, [text])
                loose += reached < 4 and level(self._compare(claim, together[claim])) < 4
        bare = sum(item.level >= 4 and not item.cited for item in held)
        score = _accuracy(stood, wrong, loose=loose, bare=bare)
        told = [f"{len(stood) - len(wrong)} of {len(stood)} citations point to a passage that holds their claim."]
        told += [f"{loose} of them hold only a part of it."] if loose else []
        told += [f"{bare} backed claims have no citation."] if bare else []
        shown = [span for span in dict.fromkeys(spans) if any(map(str.isalnum, span))][:3] or _beginning(
            [answer, *texts.values()]
        )
        return _dimension(score, " ".join(told), shown), [_misattribution(c) for c in wrong]


@dataclass(frozen=True, slots=True)
class _Held:
    """A claim in the answer's words, whether it is cited, and what holding it against the passages gave."""

    text: str
    cited: bool
    found: Comparison
    level: int


# --- from a comparison to a level -------------------------------------------------------------------------------------


def level(found: Comparison) -> int:
    """The level of support, 1..5: never 5 where something is missing or a negation is in doubt.

    A number of two or more digits that stands nowhere, or a clause on which the passage is silent, makes it 3 at most.

    >>> night = Passages(["The night ferry leaves at 21:40 every day except Sunday."])
    >>> told = "The night ferry leaves at {} every day."
    >>> [level(compare(told.format(hour), night)) for hour in ("21:40", "22:15")]
    [5, 3]
    """
    if found.score < CUTS[3]:
        return 2 if found.cover >= ON_TOPIC else 1
    unmet = any(len(number.replace(".", "")) > 1 for told in found.missing_numbers for number in lexical.numbers(told))
    clause = found.weakest_clause or ""
    silent = found.weakest_cover < _SILENT and len(lexical.content_words(clause)) >= _CLAUSE_WORDS
    if found.score < CUTS[4] or unmet or silent:
        return 3
    lacking = found.missing_numbers or found.missing_names or found.personal
    return 4 if found.score < CUTS[5] or lacking or _clashes(found) or not found.english else 5


def confidence(found: Comparison) -> float:
    """How sure the judge is that a claim is, or is not, supported: 0..1, by the distance from the cut between them.

    Even odds where a rule decides against the composite or a negation is in doubt, less where the language is unknown.
    """
    if not found.english:
        return 0.2
    likely = 1 / (1 + math.exp(-_STEEPNESS * (found.score - CUTS[4])))
    sure = likely if level(found) >= 4 else 1 - likely
    return 0.5 if _clashes(found) else round(max(0.5, sure), 2)


def _clashes(found: Comparison) -> bool:
    return found.negation_clash or found.antonym_clash is not None


def _flags(found: Iterable[Comparison]) -> tuple[str, ...]:
    """What a person should look at; moves no score."""
    every = list(found)
    flags = {
        "possible_contradiction": any(_clashes(comparison) for comparison in every),
        "language_not_covered": any(not comparison.english for comparison in every),
    }
    return tuple(flag for flag, raised in flags.items() if raised)


# --- saying why -------------------------------------------------------------------------------------------------------


def _quotes(found: Comparison, texts: Sequence[str]) -> list[str]:
    """The covering sentences word for word, one quote a passage, best passage first."""
    by_passage: dict[int, list[tuple[int, int]]] = {place: [] for place, _, _ in found.sentences}
    for place, start, end in sorted(found.sentences):
        by_passage[place].append((start, end))
    return [" ... ".join(texts[place][start:end] for start, end in spans) for place, spans in by_passage.items()]


def _opening(score: int, quotes: Sequence[str]) -> str:
    return f"{_OPENINGS[score]}: {_quoted(quotes[0])}." if quotes else f"{_OPENINGS[score]}."


def _quoted(text: str) -> str:
    """A text in quotation marks, cut to what is read at a glance."""
    plain = " ".join(text.split()).rstrip(".,;:")
    if len(plain) > _GLIMPSE:
        plain = plain[:_GLIMPSE].rsplit(" ", 1)[0] + " ..."
    return f"“{plain}”"


def _reasons(found: Comparison, where: str = "the passage") -> list[str]:
    """One sentence for each thing that speaks against support."""
    told = [f"Not in {where}: {lacking}." for lacking in [_lacking(found)] if lacking]
    if found.weakest_clause and found.weakest_cover < _WEAK:
        told.append(f"The part covered least is {_quoted(found.weakest_clause)}.")
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


def _lacking(found: Comparison) -> str:
    kinds = (("number", found.missing_numbers), ("name", found.missing_names))
    return ", ".join(f"the {kind}{'s' * (len(items) > 1)} {', '.join(items)}" for kind, items in kinds if items)


def _missing(found: Comparison) -> str:
    """What the passage would have to hold for a higher score."""
    wanted = [_lacking(found)]
    if found.weakest_clause and found.weakest_cover < _WEAK:
        wanted.append(f"what {_quoted(found.weakest_clause)} says")
    return ", ".join(filter(None, wanted)) or "the claim in so many words"


# --- the dimensions of an answer --------------------------------------------------------------------------------------


def _dimension(score: int | None, justification: str, spans: Sequence[str] = ()) -> dict[str, Any]:
    return {"score": score, "justification": justification, "evidence_spans": list(spans)}


def _beginning(texts: Iterable[str]) -> list[str]:
    """How the first text begins that has a word in it: what is left to point at where no claim is made."""
    worded = (text.strip() for text in texts if any(map(str.isalnum, text)))
    return [text[:_GLIMPSE] for text in worded][:1]


def _support(answer: str, held: Sequence[_Held], texts: Mapping[str, str], *, abstains: bool) -> dict[str, Any]:
    """The dimension claim_support, with the words of passages and answer that decided it."""
    whole = _beginning([answer, *texts.values()])
    if not texts and not abstains:
        return _dimension(1, "The retrieval came back empty, and the answer does not say so.", whole)
    if not held:
        return _dimension(5, "The answer makes no factual claim.", whole)
    weak = [item for item in held if item.level < 4]
    told = [f"{len(held) - len(weak)} of {len(held)} claims are backed by the passages."]
    if not texts:
        told.append("The retrieval came back empty.")
    for item in weak[:2]:
        told += [f"Not backed: {_quoted(item.text)}.", *_reasons(item.found, "the passages")]
    passages = list(texts.values())
    backing = [_quotes(item.found, passages)[0] for item in held if item.level >= 4]
    spans = [item.text for item in weak[:3]] + backing[: max(1, 3 - len(weak))]
    return _dimension(_grade([item.level for item in held]), " ".join(told), list(dict.fromkeys(spans)))


def _grade(levels: Sequence[int]) -> int:
    """An answer's level from its claims' levels; a claim that is backed in part counts half.

    >>> [_grade(levels) for levels in ([5, 4], [5, 4, 3], [4, 4, 2], [4, 3, 2, 1], [1, 2])]
    [5, 4, 3, 2, 1]
    """
    missing = sum(value < 3 for value in levels)
    share = sum(1.0 if value >= 4 else 0.5 if value == 3 else 0.0 for value in levels) / len(levels)
    if share == 1:
        return 5
    if not missing and share > 0.75:
        return 4
    if missing <= 2 and share >= 0.5:
        return 3
    return 2 if share >= 0.25 else 1


def _accuracy(stood: Sequence[Any], wrong: Sequence[Mapping[str, Any]], *, loose: int, bare: int) -> int:
    """The level of an answer's citations: how many are wrong, hold a part only, or are missing."""
    nowhere = sum(citation["passage_id"] is None for citation in wrong)
    if len(wrong) == len(stood) and (len(stood) > 1 or nowhere):
        return 1
    if len(wrong) > 1:
        return 2
    if wrong or bare or loose > 1:
        return 3
    return 4 if loose else 5


def _mean(scores: Sequence[int]) -> float:
    """The mean at one decimal, halves up.

    >>> _mean([4, 5]), _mean([3, 4, 4, 4])
    (4.5, 3.8)
    """
    return (20 * sum(scores) + len(scores)) // (2 * len(scores)) / 10


def _unsupported(item: _Held, ids: Sequence[str]) -> dict[str, Any]:
    """A claim no passage backs: major where nothing carries it or a number or name stands nowhere, else minor."""
    strange = item.found.missing_numbers or item.found.missing_names
    return {
        "claim": item.text,
        "closest_retrieved_passage": ids[item.found.sentences[0][0]] if item.found.sentences else None,
        "severity": "major" if item.level < 3 or strange else "minor",
    }


def _fabrication(item: _Held) -> dict[str, Any]:
    told = " ".join(_reasons(item.found, "the passages")) or "Hardly a word of it stands in a passage."
    return {"type": "fabrication", "description": told, "trace_reference": item.text}


def _misattribution(citation: Mapping[str, Any]) -> dict[str, Any]:
    place = citation["passage_id"]
    told = "points to no retrieved passage" if place is None else f"points to {place}, which does not carry the claim"
    marker = citation["marker"]
    return {
        "type": "misattribution",
        "description": f"{marker or 'The citation'} {told}: {_quoted(citation['claim'])}",
        "trace_reference": marker or citation["claim"],
    }


@functools.cache
def _version() -> str:
    """The rules' number and a hash of everything else that can move a score."""
    data = resources.files("groundtrace.data")
    tables = b"".join(data.joinpath(name).read_bytes() for name in ("df.tsv", "english.toml"))
    libraries = [metadata.version(name) for name in ("snowballstemmer", "sentencex")]
    moving = (RULES, CUTS, ON_TOPIC, _STEEPNESS, _SILENT, _CLAUSE_WORDS, lexical.WEIGHTS, lexical.COVERING, libraries)
    return f"{RULES}.{hashlib.sha256(repr(moving).encode() + tables).hexdigest()[:8]}"
