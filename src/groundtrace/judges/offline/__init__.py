"""The embedded judge: deterministic, no key, no network, no download; it counts words and says which are missing.

It answers in the JSON a language model would answer in and passes the same gate. What it measures is
`groundtrace.lexical.compare`: how much of a claim stands in a few sentences of the passages, and whether its numbers
and names do. Low scores are alarms to be trusted; high scores are no proof. It does not see negation, relations or who
did what to whom where the words overlap, it knows nothing but English, and it does not assess abstention, how
conflicting sources are dealt with, or causes and the order of events. It calls a claim contradicted only where
`groundtrace.lexical.clash` shows another number, date or name in the place of the claim's.

One module a rubric; `measure` is what they share.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata, resources
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from groundtrace import lexical
from groundtrace.judges.offline import accuracy, faithfulness, measure, summary
from groundtrace.judges.offline.accuracy import check_facts
from groundtrace.judges.offline.faithfulness import judge_answer
from groundtrace.judges.offline.measure import CUTS, Answered, Tokenise, confidence, level
from groundtrace.judges.offline.summary import judge_summary
from groundtrace.judges.offline.support import judge_pair
from groundtrace.lexical import Tokens
from groundtrace.model import Case, Reply

if TYPE_CHECKING:
    from groundtrace.model import JudgeKind
    from groundtrace.ports import Again

__all__ = ["CUTS", "RULES", "OfflineJudge", "confidence", "level"]

RULES = 3
"""Counts up whenever a rule here or in `groundtrace.lexical` moves a score."""

_RUBRICS: Mapping[str, Callable[[Mapping[str, Any], Tokenise], Answered]] = MappingProxyType(
    {
        "source_support": judge_pair,
        "factual_accuracy": check_facts,
        "rag_faithfulness": judge_answer,
        "summary_groundedness": judge_summary,
    }
)
_UNASSESSED = MappingProxyType(
    {"rag_faithfulness": faithfulness.UNASSESSED, "summary_groundedness": summary.UNASSESSED}
)
_REMEMBERED = 4000


class OfflineJudge:
    """Scores by how well the words of a claim stand in its passages; the default judge, needs nothing."""

    kind: JudgeKind = "offline"
    limits = (
        "Counts words: blind to negation, relations, causes and who did what to whom where words overlap; English "
        "only. Sees a contradiction only in a number, date or name. Low scores are alarms, high scores are not proof."
    )

    def __init__(self) -> None:
        self.id = f"offline@{_version()}"
        # The same passages come case after case; of long ones a few are remembered.
        self._short = functools.lru_cache(maxsize=256)(Tokens)
        self._long = functools.lru_cache(maxsize=4)(Tokens)

    def unassessed(self, rubric: str) -> frozenset[str]:
        """What counting words can't assess: how an answer abstains, how it deals with conflict, causes and order."""
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
        judge = _RUBRICS.get(case.rubric)
        if judge is None:
            *some, last = _RUBRICS
            fault = f"the offline judge does not know the rubric {case.rubric!r}; it knows {', '.join(some)} and {last}"
            return Reply("", self.id, attempt, fault=fault)
        try:
            verdict, flags = judge(case.body, self._tokenise)
        except KeyError as part:
            return Reply("", self.id, attempt, fault=f"the case lacks {part}, which {case.rubric} is judged by")
        return Reply(json.dumps(verdict, ensure_ascii=False), self.id, attempt, cost=0.0, flags=flags)

    def _tokenise(self, text: str) -> Tokens:
        return self._short(text) if len(text) <= _REMEMBERED else self._long(text)


@functools.cache
def _version() -> str:
    """The rules' number and a hash of everything else that can move a score."""
    data = resources.files("groundtrace.data")
    tables = b"".join(data.joinpath(name).read_bytes() for name in ("df.tsv", "english.toml"))
    libraries = [metadata.version(name) for name in ("snowballstemmer", "sentencex")]
    moving = (
        RULES,
        (measure.CUTS, measure.ON_TOPIC, measure.STEEPNESS, measure.SILENT, measure.CLAUSE_WORDS),
        (lexical.WEIGHTS, lexical.COVERING, lexical.SAME_WORDS),
        (accuracy.FACTS, accuracy.LISTED, accuracy.ROOM),
        (summary.SHARES, summary.FOREMOST, summary.FADING, summary.MASSES, summary.HELD),
        libraries,
    )
    return f"{RULES}.{hashlib.sha256(repr(moving).encode() + tables).hexdigest()[:8]}"
