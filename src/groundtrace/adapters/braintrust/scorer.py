"""A scorer for `Eval` and `EvalAsync`: the case it is shown becomes a record, and the record's card its scores.

Passages are looked for where the reader looks in any span: in what the task returned and in what it was given. Where
neither holds them, the case's metadata may, and last the spans its task traced. So a case has the same score whether
the experiment is sent or not, unless what was retrieved stands in the trace alone. What has no score is None, with the
reason in its metadata; nothing is ever scored for want of passages.

Source: `braintrust.framework` of 0.48.1 and of the lowest version that is supported, run against a stand-in. The SDK
binds what it hands a scorer by name; a name it does not know silently gets whatever is left over. So all names are
spelled out here, and none is made up. With `no_send_logs` a case has no spans, and asking the SDK for them would make
it log in: then nothing is asked. What it holds of spans it loses now and then where threads log at the same moment (its
`span_cache` of 0.48.1 writes a list and then empties it, under no lock; seen once in some ten runs of three cases): a
case whose passages stood in such a span alone has no score, and says that the context could not be read.

The names are those the sink gives, but for one: where a project has a column of human review of the very same name the
sink evades it, which can't be known here without asking the platform.

Not verified, for no platform was at hand: what the platform hands a scorer that was pushed to it, beside what its
SDK's types say.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from braintrust import Score

from groundtrace.adapters.braintrust import rows
from groundtrace.adapters.braintrust.api import PLATFORM
from groundtrace.adapters.braintrust.names import name_of
from groundtrace.adapters.braintrust.scored import RATIONALE, unit
from groundtrace.adapters.experiments import Judged, Scoring, lacks, plain
from groundtrace.adapters.facts import cut, facts, sound
from groundtrace.adapters.facts import plain as plain_facts
from groundtrace.errors import PlatformError
from groundtrace.model import Ref, Trace

if TYPE_CHECKING:
    from groundtrace.adapters.published import Result
    from groundtrace.model import Record, Scorecard

_SAID = ("input", "output", "metadata", "tags")
"""What the SDK hands a scorer of a case's own span."""

_CONTEXTS = ("context", "contexts", "retrieved_contexts", "retrieved_context", "passages")
"""What passages go by in a task's output or a case's metadata."""

_LISTS = (
    *("documents", "docs", "chunks", "retrieved_documents", "retrieved_docs", "source_documents", "search_results"),
)
"""And what they go by where they are more than the names of files."""

_TEXTS = ("document", "text", "page_content", "content", "article", "source", "transcript", "input")
"""What the text of a passage, or one that is to be summarised, goes by."""

_PATIENCE = 60.0
"""Seconds after which the spans of a case are waited for no more."""

_THREADS = 64
"""Cases judged at once, at most: `Eval` has a max_concurrency, and a judge its own."""

_LOOKED = "the output, the input and the metadata (context, contexts, retrieved_contexts, documents, passages)"
_RETURN = (
    'let the task return its passages, {"answer": ..., "context": [...]}, put them in hooks.metadata["context"], or '
    'trace its retriever, @traced(type="tool"), in an experiment that is sent'
)

_LOG = logging.getLogger(__name__)

_Row: TypeAlias = dict[str, Any]
T = TypeVar("T")


class Spans(Protocol):
    """The trace of a case, as the SDK hands it to a scorer."""

    def get_configuration(self) -> Mapping[str, str]:
        """Where it is kept."""

    async def get_spans(self) -> Sequence[Any]:
        """Its spans, but for those of scorers."""


class _Case(NamedTuple):
    """One case as the SDK hands it over."""

    input: Any
    output: Any
    metadata: Any
    tags: Any
    trace: Spans | None


class _Seen(NamedTuple):
    """What is known of a case: its rows, the case's own first, and what was read in them, where it was already."""

    told: list[_Row]
    records: tuple[Record, ...] | None
    looked: str
    more: Spans | None = None
    """Its trace, where that alone may tell what is lacking."""


class Scorer:
    """Scores a case under one rubric; the same object serves `Eval` and `EvalAsync`, in a running loop too.

    It is also a function: `scorer(output="...", input="...", metadata={"context": [...]})`.
    """

    def __init__(self, scoring: Scoring) -> None:
        self._scoring = scoring
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, "groundtrace")
        self._warned: set[str] = set()
        self.__name__ = self._name()

    def __repr__(self) -> str:
        return f"<groundtrace scorer {self._scoring.name}, judge {self._scoring.judge.id}>"

    def _name(self) -> str:
        """What the rubric's own score is called on Braintrust; the SDK names the scorer's span by it."""
        return name_of(self._scoring.name)

    def __call__(
        self,
        output: Any,
        expected: Any = None,  # noqa: ARG002 - the SDK gives it by name
        *,
        input: Any = None,  # noqa: A002 - the SDK's word
        metadata: Mapping[str, Any] | None = None,
        trace: Spans | None = None,
        id: Any = None,  # noqa: A002, ARG002 - the SDK's word
        tags: Iterable[str] | None = None,
    ) -> list[Score]:
        """The case's scores; what was expected is not looked at."""
        case = _Case(input, output, metadata, tags, trace)
        return _run(self._steps(case))

    async def evaluated(
        self,
        output: Any,
        expected: Any = None,  # noqa: ARG002 - the SDK gives it by name
        *,
        input: Any = None,  # noqa: A002 - the SDK's word
        metadata: Mapping[str, Any] | None = None,
        trace: Spans | None = None,
        id: Any = None,  # noqa: A002, ARG002 - the SDK's word
        tags: Iterable[str] | None = None,
    ) -> list[Score]:
        """As calling it, beside the loop: what it runs meanwhile is not held up."""
        return await self._steps(_Case(input, output, metadata, tags, trace))

    if TYPE_CHECKING:

        async def eval_async(self, output: Any, expected: Any = None, **given: Any) -> list[Score]:
            """As the SDK's types want it; at run time it names what it takes, and is handed no more."""
    else:
        eval_async = evaluated

    # --- scoring ------------------------------------------------------------------------------------------------------

    async def _steps(self, case: _Case) -> list[Score]:
        """A case's scores. Its spans are asked for in the loop: the SDK does that in threads of its own."""
        said: list[str] = []
        with self._scoring.border(said.append):
            seen = await self._beside(lambda: self._seen(case))
            if seen.more is not None:
                seen = await self._traced(seen, seen.more)
            return await self._beside(lambda: self._judged(seen))
        return self._told(self._scoring.failed("scorer_failed", said[0]))

    async def _beside(self, work: Callable[[], T]) -> T:
        """Work done in a thread of ours: those of the loop are few, and the SDK's own work waits for them too."""
        return await asyncio.wrap_future(self._threads.submit(contextvars.copy_context().run, work))

    def _judged(self, seen: _Seen) -> list[Score]:
        records = self._scoring.records(_trace(seen.told)) if seen.records is None else seen.records
        ident = seen.told[0]["span_id"]
        return self._told(self._scoring.judged(records, ident, seen.looked, what="case", remedy=_RETURN))

    def _told(self, judged: Judged) -> list[Score]:
        for result in judged.results:
            if result.error is not None:
                self._warn(judged, result)
        return [self._score(judged.card, result) for result in judged.results]

    def _score(self, card: Scorecard | None, result: Result) -> Score:
        rubric, judge = self._scoring.rubric, self._scoring.judge
        about = {"rubric": rubric.name, "version": rubric.version, "judge": judge.id}
        told = {**(about if card is None else _about(card)), **_said(result), "groundtrace_version": _version()}
        return Score(name_of(result.score), unit(result), told)

    def _warn(self, judged: Judged, result: Result) -> None:
        """Tell each reason once: Braintrust shows a score that is None as skipped, and its summary not at all."""
        reason = (judged.card.reason if judged.card is not None else None) or str(result.error)
        if reason not in self._warned:
            self._warned.add(reason)
            _LOG.warning("%s: a case has no score: %s: %s", self._name(), reason, result.explanation[:300])

    # --- finding what was retrieved -----------------------------------------------------------------------------------

    def _seen(self, case: _Case) -> _Seen:
        """What there is of a case without its trace."""
        kept = _kept(case.trace)
        root = _root(case, kept or uuid.uuid4().hex)
        records = self._scoring.records(_trace([root]))
        if not any(map(lacks, records)):
            return _Seen([root], records, _LOOKED)
        told = _passages(case)
        if self._scoring.kind == "summary" and (source := _source(case, told)) is not None:
            return _Seen([{**root, "input": {"context": source}}], None, _LOOKED)
        if told is not None:
            joined = [root, _retrieved(root, told)]
            return _Seen(joined, tuple(map(_without_retriever, self._scoring.records(_trace(joined)))), _LOOKED)
        if case.trace is None or not kept:
            why = "there is no trace" if case.trace is None else "nothing is traced with no_send_logs"
            return _Seen([root], records, f"{_LOOKED}; {why}")
        return _Seen([root], records, _LOOKED, case.trace)

    async def _traced(self, seen: _Seen, spans: Spans) -> _Seen:
        """The same with all that the task traced."""
        said: list[str] = []
        [root] = seen.told
        told: list[_Row] = []
        with self._scoring.border(said.append):
            told = [_row(span, root["root_span_id"]) for span in await _fetched(spans)]
        if said:
            return seen._replace(looked=f"{_LOOKED}; its trace could not be had: {said[0]}")
        first = next(filter(rows.is_root, told), None)
        whole = {**first, **{name: root[name] for name in _SAID}} if first is not None else root
        # The SDK hands a span twice where two scorers ask at once; of two alike the first counts.
        joined = [whole, *told]
        count = len({rows.span_of(row) for row in joined})
        return _Seen(joined, None, f"{_LOOKED} and the {count} spans of its trace")


def _run(steps: Coroutine[Any, Any, T]) -> T:
    """What comes of steps, in a loop of their own: there may be one running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(steps)
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        return other.submit(contextvars.copy_context().run, asyncio.run, steps).result()


async def _fetched(spans: Spans) -> Sequence[Any]:
    try:
        async with asyncio.timeout(_PATIENCE):
            return await spans.get_spans()
    except TimeoutError:
        raise PlatformError(f"its spans did not come within {_PATIENCE:.0f} seconds") from None


def _kept(spans: Spans | None) -> str:
    """The id of the trace whose spans are kept; nothing where the SDK would have to log in to say there are none."""
    told = spans.get_configuration() if spans is not None and hasattr(spans, "get_configuration") else {}
    return (told.get("root_span_id") or "") if told.get("object_id") else ""


# --- rows -------------------------------------------------------------------------------------------------------------


def _root(case: _Case, ident: str) -> _Row:
    """The case as the row its experiment shows."""
    return {
        "id": ident,
        "span_id": ident,
        "root_span_id": ident,
        "span_parents": None,
        "is_root": True,
        "span_attributes": {"type": "eval", "name": "eval"},
        "input": plain(case.input),
        "output": plain(case.output),
        "metadata": plain(case.metadata) if isinstance(case.metadata, Mapping) else {},
        "tags": plain(case.tags),
        "metrics": {},
    }


def _retrieved(root: _Row, passages: list[Any]) -> _Row:
    """Passages that merely stand somewhere, as the row of a retriever."""
    ident = f"{root['span_id']}-retrieved"
    told = [{"text": passage} if isinstance(passage, str) else passage for passage in passages]
    return {
        **root,
        "id": ident,
        "span_id": ident,
        "span_parents": [root["span_id"]],
        "is_root": False,
        "span_attributes": {"type": "tool", "name": "retriever"},
        "output": told,
        "metadata": {},
        "tags": None,
    }


def _row(span: Any, trace_id: str) -> _Row:
    """A span of the SDK as a row of the API; it has none of its ids but its own."""
    held = dict(vars(span)) if hasattr(span, "__dict__") else dict(span)
    parents = held.get("span_parents") or None
    ident = str(held.get("span_id"))
    return {
        **{name: plain(value) for name, value in held.items()},
        "id": str(held.get("id") or ident),
        "span_id": ident,
        "root_span_id": trace_id,
        "span_parents": parents,
        "is_root": not parents,
        "span_attributes": plain(held.get("span_attributes")) or {},
        "metrics": plain(held.get("metrics")) or {},
    }


def _trace(told: list[_Row]) -> Trace:
    return rows.trace(Ref(PLATFORM, trace_id=rows.trace_of(told[0])), told)


# --- passages ---------------------------------------------------------------------------------------------------------


def _passages(case: _Case) -> list[Any] | None:
    """The passages the output or the metadata names, in whatever shape; None where neither does."""
    output = plain(case.output)
    inner = output.values() if isinstance(output, Mapping) else output if isinstance(output, list) else ()
    for held in (output, *inner, plain(case.metadata)):
        for told in _named(held):
            return told
    return None


def _source(case: _Case, passages: list[Any] | None) -> str | None:
    """The text a case summarises: what passages there are, else what its task was given."""
    given = plain(case.input)
    if passages is None:
        held = given if isinstance(given, str) else next(_texts(given), None) if isinstance(given, Mapping) else None
        return held if isinstance(held, str) and held.strip() else None
    told = (p if isinstance(p, str) else next(_texts(p), "") for p in passages)
    return "\n\n".join(told)


def _texts(held: Mapping[str, Any]) -> Iterator[str]:
    """What stands under a name a text goes by."""
    return (held[name] for name in _TEXTS if isinstance(held.get(name), str))


def _named(held: Any) -> Iterator[list[Any]]:
    """What stands under a name passages go by, as a list; None under such a name says nothing."""
    if not isinstance(held, Mapping):
        return
    for name in (*_CONTEXTS, *_LISTS):
        told = held.get(name)
        if isinstance(told, Mapping):
            yield from _named(told)
        elif isinstance(told, str) and told.strip() and (name in _CONTEXTS or _worded(told)):
            yield [told]
        elif isinstance(told, list) and all(isinstance(part, (str, Mapping)) for part in told):
            texts = [part for part in told if isinstance(part, str)]
            if name in _CONTEXTS or all(map(_worded, texts)):
                yield told


def _worded(text: str) -> bool:
    """Whether a text is more than a name or an address; scripts without spaces have words all the same."""
    return len(text.split()) > 1 or not text.isascii()


def _without_retriever(record: Record) -> Record:
    """A record without the slice of a retriever that nobody has seen."""
    slices = {name: told for name, told in record.slices.items() if name != "retriever"}
    return record.model_copy(update={"slices": slices})


# --- scores -----------------------------------------------------------------------------------------------------------


def _about(card: Scorecard) -> dict[str, Any]:
    """What a scorer span tells beside its scores, but for ids: a case has none that lasts."""
    told = {name: fact for name, fact in facts(card).items() if name not in ("card_id", "record_id")}
    return {**plain_facts(dict(card.slices)), **told}


def _said(result: Result) -> dict[str, Any]:
    """One score's own words: why, the number as its rubric counts, its range and label, or why there is none."""
    told: dict[str, Any] = {"label": result.label}
    if result.value is None:
        told["reason"] = result.error or result.label
    else:
        told |= {"value": result.value, "low": result.low, "high": result.high}
    return {**plain_facts(told), "rationale": cut(sound(result.explanation), RATIONALE)}


@functools.cache
def _version() -> str:
    return version("groundtrace")
