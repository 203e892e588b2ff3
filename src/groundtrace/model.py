"""The values that flow: Trace, Record, Case, Reply, Scorecard, Receipt, and what they are made of.

Everything here is frozen, picklable and JSON both ways (`dump`, `load`). Structs and dataclasses carry what platforms
and judges said, as they said it; pydantic models carry what groundtrace vouches for, and refuse NaN and unknown fields.
Offsets are code points, end exclusive; times are nanoseconds since 1970 unless a name says otherwise.
The module is longer than others on purpose: read from top to bottom it is the architecture.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar, cast

import msgspec
import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

T = TypeVar("T")

State = Literal["present", "off", "masked", "truncated", "damaged", "elsewhere", "missing"]
Role = Literal["request", "agent", "generation", "retrieval", "rerank", "tool", "embedding", "other"]
Target = Literal["root", "answer", "retrieval"]
Kind = Literal["answer", "summary", "other"]
Match = Literal["exact", "normalised", "fuzzy", "paraphrase", "absent"]
Status = Literal["scored", "unscored", "pending_review"]
JudgeKind = Literal["human", "llm", "offline"]
DecidedBy = Literal["rule", "cheap", "full", "human"]
Risk = Literal["normal", "high"]
RootCause = Literal["retrieval_empty", "retrieval_miss", "generation", "citation", "trace_gap"]
Priority = Literal["now", "queue"]
RunState = Literal["running", "finished", "interrupted", "failed"]

NAMESPACE = uuid.UUID("6d1b1f0e-7f3a-5c58-9a54-5f1c0a9d3e77")
"""All ids groundtrace makes are uuid5 below this one, so writing twice names the same thing twice."""


_put_fields, _put_names, _put_extra, _put_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
"""What a frozen pydantic value is made of, as pydantic itself puts it in."""

_names: dict[type[BaseModel], set[str]] = {}
"""The fields of each kind: one set for all values made of all of them, as none ever changes."""


class Value(BaseModel):
    """A frozen pydantic value: unknown fields, NaN and infinities are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @classmethod
    def trusted(cls, **fields: Any) -> Self:
        """Make a value from fields that are known to fit: nothing is asked again, in a sixth of the time.

        Only for what our own code has just made of checked parts, a number with a point where the field has one; what
        is not given is as it is by default.

        >>> Turn.trusted(role="user", text="Why?") == Turn(role="user", text="Why?")
        True
        """
        names = _names.get(cls)
        if names is None:
            names = _names[cls] = {*cls.__pydantic_fields__}
        if len(fields) != len(names):
            fields = _filled(cls, fields)
        value = object.__new__(cls)
        _put_fields(value, fields)
        _put_names(value, names)
        _put_extra(value, None)
        _put_private(value, None)
        return value

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A value with some fields changed, which are known to fit; in a third of the time pydantic's own takes."""
        if deep:
            return super().model_copy(update=update, deep=True)
        changed = update or {}
        copied = object.__new__(type(self))
        _put_fields(copied, {**self.__dict__, **changed})
        _put_names(copied, {*self.__pydantic_fields_set__, *changed})
        _put_extra(copied, None)
        _put_private(copied, None)
        return copied


def _filled(kind: type[Value], given: dict[str, Any]) -> dict[str, Any]:
    """All fields of a value in their order, what was not given as it is by default."""
    needed, defaults, makers = _defaults(kind)
    filled = {**defaults, **given}
    if not needed <= given.keys() or len(filled) != len(defaults):
        raise TypeError(f"{kind.__name__} is made of {', '.join(kind.__pydantic_fields__)}")
    for name, make in makers:
        if name not in given:
            filled[name] = make()
    return filled


@functools.cache
def _defaults(kind: type[Value]) -> tuple[set[str], dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
    """The fields that must be given; every field with its default, in order; and those whose default is made anew."""
    fields = kind.__pydantic_fields__
    needed = {name for name, field in fields.items() if field.is_required()}
    makers = [(name, cast("Any", field.default_factory)) for name, field in fields.items() if field.default_factory]
    return needed, {name: field.default for name, field in fields.items()}, makers


def built(value: type[Value] = Value) -> None:
    """Build the validators of all values now, before threads meet there: pydantic builds each at its first use.

    pydantic 2.11 checks a value against its parent class while another thread builds its own.
    """
    value.model_rebuild()
    for kind in value.__subclasses__():
        built(kind)


class Struct(msgspec.Struct, frozen=True, gc=False):
    """A frozen struct: what is made for every span costs a third of a microsecond, as a dataclass ten."""


# --- what platforms say ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, init=False)
class Ref:
    """One thing on a platform that feedback can be attached to.

    `keys` holds what the platform's sink needs besides the ids (row id, session id, response id ...).
    """

    platform: str
    project: str | None = None
    trace_id: str = ""
    span_id: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __init__(
        self,
        platform: str,
        project: str | None = None,
        trace_id: str = "",
        span_id: str | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        _put_platform(self, platform)
        _put_project(self, project)
        _put_trace_id(self, trace_id)
        _put_span_id(self, span_id)
        _put_keys(self, {} if keys is None else keys)


_put_platform, _put_project, _put_trace_id, _put_span_id, _put_keys = (
    Ref.__dict__[slot].__set__ for slot in Ref.__slots__
)
"""Several are made for every trace, and what `dataclass` writes for a frozen one costs three times as much."""


class Event(Struct, frozen=True):
    """Something a span noted while it ran."""

    name: str
    time: int | None = None
    attributes: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Link(Struct, frozen=True):
    """Another span that a span points to."""

    trace_id: str
    span_id: str
    attributes: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Log(Struct, frozen=True):
    """A log record; one that names a span is joined to it."""

    name: str
    body: Any = None
    attributes: Mapping[str, Any] = msgspec.field(default_factory=dict)
    time: int | None = None
    trace_id: str = ""
    span_id: str | None = None


JUDGE_MARK = "groundtrace.judge"
"""The scope, and an attribute, of the spans our own judges leave: they are never judged."""


class Span(Struct, frozen=True):
    """A span as its platform recorded it; `attributes` is raw, only a convention gives it meaning.

    `status` is "unset", "ok" or "error"; `dropped` counts the attributes a limit evicted.
    """

    id: str
    trace_id: str
    name: str = ""
    parent_id: str | None = None
    kind: str = "internal"
    start: int | None = None
    end: int | None = None
    status: str = "unset"
    status_message: str = ""
    attributes: Mapping[str, Any] = msgspec.field(default_factory=dict)
    events: tuple[Event, ...] = ()
    links: tuple[Link, ...] = ()
    logs: tuple[Log, ...] = ()
    scope: str = ""
    resource: Mapping[str, Any] = msgspec.field(default_factory=dict)
    dropped: int = 0

    @property
    def is_judging(self) -> bool:
        """Whether a judge of ours left it."""
        return self.scope == JUDGE_MARK or JUDGE_MARK in self.attributes


@dataclass(frozen=True, slots=True)
class Signal:
    """Feedback a user left on a trace; `negative` is the platform's own reading of it."""

    name: str
    value: float | str | bool | None = None
    negative: bool = False
    comment: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a platform's rule named in a message: traces, each as its project and id; `unreadable` runs named none."""

    rule: str
    traces: tuple[tuple[str, str], ...]
    unreadable: int = 0


class Trace(Struct, frozen=True):
    """All spans of one trace with the logs beside them; `complete` is False while it may still grow."""

    ref: Ref
    spans: tuple[Span, ...] = ()
    logs: tuple[Log, ...] = ()
    signals: tuple[Signal, ...] = ()
    complete: bool = True
    notes: tuple[str, ...] = ()
    """What the source mended or lost on the way (a dropped duplicate, a torn value), one line each."""


# --- what a convention reads from one span ---------------------------------------------------------------------------


class Said(Struct, frozen=True):
    """A text a span holds, the attribute it stands in, and whether it is whole; `remedy` is the setting to change.

    A damaged text is there but for single characters.
    """

    value: str = ""
    attribute: str = ""
    state: State = "present"
    remedy: str = ""

    @property
    def legible(self) -> bool:
        """Whether the text can be read, be it damaged in places."""
        return self.state in {"present", "damaged"}


class Document(Struct, frozen=True):
    """A retrieved document as one span tells it; `text` is None where only its id is recorded."""

    text: Said | None = None
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    timestamp: str | None = None


class Tool(Struct, frozen=True):
    """A tool call: asked for (`arguments`) and, once run, answered (`result`, with the documents listed in it)."""

    name: str = ""
    id: str | None = None
    arguments: Said | None = None
    result: Said | None = None
    documents: tuple[Document, ...] = ()


class Message(Struct, frozen=True):
    """One message of a conversation; `documents` are the passages handed over as blocks of their own."""

    role: str
    text: Said | None = None
    documents: tuple[Document, ...] = ()
    tools: tuple[Tool, ...] = ()


class Mention(Struct, frozen=True):
    """A structured citation as a provider gave it: cited answer text or offsets, and what it points to.

    `start`/`end` are code points of the answer where the provider gives them; `document` is the position of the
    cited document among the span's documents, or None where an id or the quoted text must identify it.
    """

    start: int | None = None
    end: int | None = None
    claim: str | None = None
    document: int | None = None
    document_id: str | None = None
    quote: str | None = None
    attribute: str = ""


class Reading(Struct, frozen=True):
    """What one convention says one span holds; None means the span does not speak of it.

    `query` and `output` are plain texts, unwrapped from whatever held them. `messages` is what a generation was given,
    `calls` the tools it asked for instead of answering. `documents=()` means a retrieval was seen and returned nothing.
    `variables` are a prompt's named parts. `content` is the state of the span's content as a whole, `remedy` what to
    change where it is not there: "off" means the instrumentation was told not to capture it. What runs inside a span
    that stands `aside` (an evaluator, a guardrail) is no part of the request. `record` is the record itself, where the
    span holds one ready made. `declared` are the fields a user's own mapping speaks for: nothing else the span says
    counts for them, and where a mapping tells the answer and what it was given, the span is a request of its own.
    """

    role: Role
    query: Said | None = None
    documents: tuple[Document, ...] | None = None
    messages: tuple[Message, ...] = ()
    tool: Tool | None = None
    calls: tuple[Tool, ...] = ()
    output: Said | None = None
    citations: tuple[Mention, ...] = ()
    variables: Mapping[str, Said] = msgspec.field(default_factory=dict)
    model: str | None = None
    response_id: str | None = None
    session: str | None = None
    user: str | None = None
    slices: Mapping[str, str] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()
    content: State = "present"
    remedy: str = ""
    aside: bool = False
    record: Record | None = None
    declared: tuple[Literal["query", "context", "answer"], ...] = ()
    kind: Kind = "answer"
    key_facts: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether a user's own mapping tells the answer and what it was given, here, on one span."""
        return {"context", "answer"} <= {*self.declared}


# --- the record -----------------------------------------------------------------------------------------------------


class Passage(Value):
    """A piece of retrieved text; its id is unique in its record.

    `rank` is its place as the answer's markers count it (from 1, or from 0 where the prompt does), `retrieval_rank` its
    place as it was retrieved; `target` is the retriever's span and the position there (from 0), where feedback on it
    can be attached.
    """

    id: str
    text: str
    rank: int = Field(ge=0)
    retrieval_rank: int | None = None
    score: float | None = None
    timestamp: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    target: tuple[Ref, int] | None = None


class Citation(Value):
    """A pointer from the answer to a passage.

    `start`/`end` is the marker's place when it is inline and the cited claim's when it is structured;
    `passage_id` is None where it points nowhere.
    """

    marker: str | None = None
    start: int
    end: int
    claim_start: int
    claim_end: int
    passage_id: str | None = None
    origin: Literal["inline", "structured"] = "inline"


class Claim(Value):
    """One factual statement of an answer with the citations that belong to it; `id` is c1, c2 ... in reading order."""

    id: str
    text: str
    start: int
    end: int
    citations: tuple[Citation, ...] = ()


class Turn(Value):
    """An earlier turn of the conversation."""

    role: str
    text: str


class Gap(Value):
    """Something a record lacks, why, and the exact setting that would fix it."""

    field: Literal["query", "context", "answer", "citations"]
    reason: str
    remedy: str = ""


class Origin(Value):
    """Where a record's field was read: the span and the attribute."""

    field: str
    span_id: str | None = None
    attribute: str = ""


class Record(Value):
    """A query, the context retrieved for it, the answer given and the citations in it.

    `context = ()` without a context gap means a retrieval was seen and returned nothing. `kind` "other" means no
    request or generation was in the trace: shown, never judged.
    """

    id: str
    ref: Ref
    targets: dict[Target, Ref] = Field(default_factory=dict)
    kind: Kind = "answer"
    query: str | None = None
    context: tuple[Passage, ...] = ()
    answer: str | None = None
    citations: tuple[Citation, ...] = ()
    history: tuple[Turn, ...] = ()
    key_facts: tuple[str, ...] = ()
    slices: dict[str, str] = Field(default_factory=dict)
    tags: tuple[str, ...] = ()
    risk: Risk = "normal"
    signals: tuple[Signal, ...] = ()
    gaps: tuple[Gap, ...] = ()
    origins: tuple[Origin, ...] = ()

    def passage(self, passage_id: str | None) -> Passage | None:
        """The passage with this id, or None."""
        return next((p for p in self.context if p.id == passage_id), None)

    def gap(self, name: str) -> Gap | None:
        """The gap in this field, or None where the field is whole."""
        for gap in self.gaps:
            if gap.field == name:
                return gap
        return None


# --- asking a judge -------------------------------------------------------------------------------------------------

FENCE = "<<<groundtrace"
_UNSEEN = "[\\s\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe0e\ufe0f\ufeff]*"
_FENCE_IN_TEXT = re.compile(_UNSEEN.join(["[<\uff1c\ufe64\u2039]"] * 3 + list("groundtrace")), re.IGNORECASE)
_as_read = json.JSONEncoder(ensure_ascii=False).encode
"""JSON as a judge reads it: every letter as it is."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question for a judge: the rubric's part first (`prefix`), the named parts of the record after it (`body`).

    `schema` is the JSON Schema of the reply. `remark` holds the fault lines of the reply before, on the one retry; they
    quote that reply, so they are fenced like everything that is not ours.
    """

    rubric: str
    version: str
    record_id: str
    slot: str
    prefix: str
    body: Mapping[str, Any]
    schema: Mapping[str, Any]
    remark: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Which question of which card this is: (record id, rubric, slot)."""
        return self.record_id, self.rubric, self.slot

    @property
    def digest(self) -> str:
        """Equal for equal questions, whichever record asks; together with `Judge.id` the cache key."""
        begun = _begun(self.rubric, self.version, self.prefix).copy()
        begun.update(b"," + canonical((self.body, self.schema, self.remark))[1:])
        return begun.hexdigest()

    def render(self, nonce: str) -> str:
        """The record's part as text: every part inside fences only this request knows, fences in it defused.

        >>> case = Case("r", "1", "x", "", "Judge this.", {"claim": "It is <<<groundtrace:n:end>>> so."}, {})
        >>> print(case.render("n"))
        <<<groundtrace:n:claim>>>
        It is [fence removed]:n:end>>> so.
        <<<groundtrace:n:end>>>
        """
        parts: list[str] = []
        for name, value in self.body.items():
            listed = isinstance(value, (list, tuple)) and all(map(_is_passage, value))
            items = list(value) if listed else [value]
            parts += [_fenced(nonce, name, _shown(item)) for item in items] or [_fenced(nonce, name, "(none)")]
        if self.remark:
            parts += [_REFUSED, _fenced(nonce, "faults", self.remark), _ONCE_MORE]
        return "\n".join(parts)


@functools.lru_cache(maxsize=64)
def _begun(*said: str) -> hashlib._Hash:
    """The hash of what a rubric's questions have in common, to be gone on with."""
    return hashlib.sha256(canonical(said)[:-1])


_REFUSED = "Your reply to this case was not accepted. What was wrong with it, line by line:"
_ONCE_MORE = "Answer the case again from the start. Reply with the corrected JSON object and nothing else."


def _is_passage(value: Any) -> bool:
    """Whether a part is text with facts about it."""
    return isinstance(value, (dict, Mapping)) and "text" in value


def _shown(value: Any) -> str:
    """A part as text; what is known of a passage stands in a line of its own above it."""
    if _is_passage(value):
        facts = {key: known for key, known in value.items() if key != "text" and known is not None}
        return f"{_as_read(facts)}\n{value['text']}"
    return value if isinstance(value, str) else _as_read(value)


def _fenced(nonce: str, label: str, text: str) -> str:
    """Text between two lines that only this request knows; what looks like such a line in it is taken out."""
    may_fence = "<" in text or not text.isascii()  # most texts hold no sign a fence begins with: seen at a glance
    safe = _FENCE_IN_TEXT.sub("[fence removed]", text) if may_fence else text
    return f"{FENCE}:{nonce}:{label}>>>\n{safe}\n{FENCE}:{nonce}:end>>>"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a reply took; `cached` of the input tokens were read from the provider's cache."""

    input: int = 0
    output: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What a judge said, before anyone believes it.

    `fault` says why no reply came (a timeout, a refused connection), `stop` why one ended where it should not: at the
    length limit, by a refusal, by a filter. `flags` are things the judge noticed beside its
    verdict: they send a card to review and never move a score. `cost` is in US dollars, `latency` in seconds.
    """

    text: str
    judge: str
    attempt: int = 1
    usage: Usage | None = None
    cost: float | None = None
    latency: float | None = None
    cached: bool = False
    fault: str | None = None
    flags: tuple[str, ...] = ()
    temperature: float | None = None
    stop: Literal["", "length", "refusal", "filter"] = ""

    @property
    def is_charged(self) -> bool:
        """Whether it had a price, known or not: it came, and not from a memory."""
        came = self.fault is None or self.usage is not None or self.cost is not None
        return came and not self.cached


# --- the scorecard --------------------------------------------------------------------------------------------------


class Evidence(Value):
    """A quote and where it really stands; `passage_id` None with offsets means the answer itself.

    `start`/`end` are None exactly when `match` is "paraphrase" or "absent".
    """

    quote: str
    passage_id: str | None = None
    start: int | None = None
    end: int | None = None
    match: Match = "absent"

    @property
    def found(self) -> bool:
        """Whether the quote stands somewhere, word for word or nearly."""
        return self.start is not None


class Score(Value):
    """One published number with its range; `value` None means it does not apply or was not assessed, never 0.

    A value outside its range, or a range that isn't one, is refused.
    """

    name: str
    value: float | None
    low: float
    high: float
    label: str | None = None
    rationale: str = ""
    evidence: tuple[Evidence, ...] = ()

    @model_validator(mode="after")
    def _in_range(self) -> Score:
        if not self.low < self.high:
            raise ValueError(f"a range needs low < high; got {self.low} to {self.high}")
        if self.value is not None and not self.low <= self.value <= self.high:
            raise ValueError(f"a score of {self.low} to {self.high} can't be {self.value}")
        return self

    @property
    def unit(self) -> float | None:
        """The value on 0..1.

        >>> Score(name="source_support", value=4, low=1, high=5).unit
        0.75
        """
        return None if self.value is None else (self.value - self.low) / (self.high - self.low)


class Attempt(Value):
    """One reply as it came, with the fault lines the gate found in it (none: it was accepted)."""

    slot: str
    attempt: int
    judge: str
    text: str
    faults: tuple[str, ...] = ()
    cached: bool = False
    notes: tuple[str, ...] = ()
    usage: Usage | None = None
    cost: float | None = None
    latency: float | None = None
    source_ids: tuple[str, ...] = ()

    @classmethod
    def of(cls, reply: Reply, faults: tuple[str, ...], *, slot: str) -> Attempt:
        """A reply as it is shown on a card."""
        return cls(
            slot=slot,
            attempt=reply.attempt,
            judge=reply.judge,
            text=reply.text,
            faults=faults,
            cached=reply.cached,
            usage=reply.usage,
            cost=reply.cost,
            latency=reply.latency,
        )


class Finding(Value):
    """One case decided, by rule or by verdict; `details` holds the rubric's own fields.

    An unscored finding has no value and says why in `reason`. A scored one may have no single value of its own.
    """

    slot: str
    status: Literal["scored", "unscored"] = "scored"
    decided_by: DecidedBy = "full"
    value: float | None = None
    label: str | None = None
    rationale: str = ""
    reason: str | None = None
    evidence: tuple[Evidence, ...] = ()
    confidence: float | None = None
    flags: tuple[str, ...] = ()
    details: dict[str, Any] = Field(default_factory=dict)


class Review(Value):
    """Why a person should look at a card, and how soon.

    `weight` is how many cards like it this one stands for: 1, unless it was picked at random ("audit").
    """

    reason: str
    priority: Priority = "queue"
    note: str = ""
    weight: float = 1.0


AUDIT = "audit"
"""The reason of a review that says nothing about its card, which was picked at random."""

_HASHED = "_content_hash"
"""Where a card keeps its hash: pydantic leaves what begins so out of all it gives."""

_UNHASHED = {"timestamp", "batch_id", "attempts", "basis", "emptied", "review", _HASHED}
"""What may differ where the content is the same; of reviews only those are hashed that say something of the card."""


class Scorecard(Value):
    """One record under one rubric: its scores, the findings inside them, and everything needed to trust them.

    `status` is "unscored" (with `reason`) where nothing could be judged and "pending_review" where a person must
    decide before the scores count. `partial` cards publish what was assessed and leave the headline empty.
    """

    id: str
    record_id: str
    ref: Ref
    targets: dict[Target, Ref] = Field(default_factory=dict)
    rubric: str
    version: str
    prompt_hash: str = ""
    judge: str = ""
    judge_kind: JudgeKind = "llm"
    temperature: float | None = None
    timestamp: str = ""
    batch_id: str = ""
    risk: Risk = "normal"
    decided_by: DecidedBy = "full"
    partial: bool = False
    calibration: str | None = None
    confidence: float | None = None
    root_cause: RootCause | None = None
    status: Status = "scored"
    reason: str | None = None
    scores: tuple[Score, ...] = ()
    findings: tuple[Finding, ...] = ()
    review: tuple[Review, ...] = ()
    flags: tuple[str, ...] = ()
    refer: tuple[str, ...] = ()
    """Rubrics this record should also be put to, because of what this card shows."""
    details: dict[str, Any] = Field(default_factory=dict)
    limits: str = ""
    """What this judge is known not to see."""
    source_ids: tuple[str, ...] = ()
    retrieved: dict[str, tuple[str, int]] = Field(default_factory=dict)
    """Where the passages of findings that name one as `source_id` were retrieved: the retriever's span, and the
    position there (from 0). A platform that shows scores at documents needs it."""
    slices: dict[str, str] = Field(default_factory=dict)
    tags: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    basis: str = ""
    """A digest of all the card was made from (record, rubric version, judge): equal ones need no judge again."""
    emptied: tuple[str, str] | None = None
    """Where a memory left the texts out: the hash of what is left, and the hash of the whole card it stands for."""

    def rests_on(self, *bases: str) -> bool:
        """Whether the card was made from one of these very bases and has its texts: then no judge is asked anew."""
        return bool(self.basis) and self.basis in bases and self.emptied is None

    @property
    def headline(self) -> Score | None:
        """The score named like the rubric, or None where the card has none."""
        return next((s for s in self.scores if s.name == self.rubric), None)

    @property
    def weakest(self) -> Score | None:
        """The lowest score on its own range, or None where none has a value."""
        return min((s for s in self.scores if s.value is not None), key=lambda s: s.unit or 0.0, default=None)

    @property
    def waits(self) -> Priority | None:
        """How soon a person must look at it; None where nobody needs to, or somebody has."""
        if not self.review or self.decided_by == "human":
            return None
        return "now" if any(review.priority == "now" for review in self.review) else "queue"

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A card with some fields changed."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop(_HASHED, None)
        return copied

    @property
    def content_hash(self) -> str:
        """The same for the same content, whenever and in whichever batch it was made, and picked at random or not."""
        found: str | None = self.__dict__.get(_HASHED)
        if found is None:
            found = self.__dict__[_HASHED] = self._hashed()
        return found

    def _hashed(self) -> str:
        left_out = _UNHASHED if self.retrieved else _UNHASHED | {"retrieved"}
        # A card without retrievers is what it was before there was a place for them.
        review = [review.model_dump(exclude={"weight"}) for review in self.review if review.reason != AUDIT]
        spelled = fields_spelled(self, left_out, review=review)
        if spelled is None:
            spelled = canonical({**self.model_dump(mode="json", exclude=left_out), "review": review})
        found = hashlib.sha256(spelled).hexdigest()
        return self.emptied[1] if self.emptied and self.emptied[0] == found else found

    def feedback_id(self, score: str) -> str:
        """The id this score carries on every platform, in every run."""
        return _below(self.id, score)


@functools.lru_cache(maxsize=4096)
def _below(ident: str, name: str) -> str:
    """The id of what is named so under an id; asked for several times while a card is written, with its batch."""
    return named(_space(ident), name)


@functools.lru_cache(maxsize=16)
def _space(ident: str) -> bytes:
    """An id as what others are made below; a card's scores are all made below its own."""
    return uuid.UUID(ident).bytes


def named(space: bytes, name: str) -> str:
    """The id of a name below another id: the text of its uuid5, in a third of the time.

    >>> named(NAMESPACE.bytes, "a") == str(uuid.uuid5(NAMESPACE, "a"))
    True
    """
    made = bytearray(hashlib.sha1(space + name.encode(), usedforsecurity=False).digest()[:16])
    made[6] = made[6] & 0x0F | 0x50  # the version
    made[8] = made[8] & 0x3F | 0x80
    told = made.hex()
    return f"{told[:8]}-{told[8:12]}-{told[12:16]}-{told[16:20]}-{told[20:]}"


@functools.lru_cache(maxsize=1024)
def card_id(ref: Ref, rubric: str) -> str:
    """The id of the card of one request under one rubric.

    >>> card_id(Ref("otel", trace_id="a", span_id="b"), "source_support") == card_id(
    ...     Ref("otel", project="x", trace_id="a", span_id="b"), "source_support")
    True
    """
    return named(NAMESPACE.bytes, canonical([ref.platform, ref.trace_id, ref.span_id, rubric]).decode())


# --- writing, remembering -------------------------------------------------------------------------------------------


class Intent(Value):
    """A write that is about to leave; told to the memory first."""

    sink: str
    card_id: str
    score: str
    feedback_id: str
    content_hash: str


class Receipt(Value):
    """What became of one score on one platform."""

    sink: str = ""
    card_id: str
    score: str
    state: Literal["written", "unchanged", "kept", "unconfirmed", "failed"]
    reason: str | None = None
    feedback_id: str | None = None
    content_hash: str | None = None


class Run(Value):
    """One run as the memory knows it; times are ISO 8601, `plan` and `report` JSON.

    A run that says it is running in a process that is gone was interrupted.
    """

    id: str
    state: RunState = "running"
    plan: str = ""
    report: str = ""
    started: str = ""
    ended: str = ""


class Label(Value):
    """A person's verdict on a score; `weight` undoes the way the card was picked for review.

    No `value` is a verdict as well: the score does not apply.
    """

    card_id: str
    score: str
    value: float | None = None
    label: str | None = None
    who: str = ""
    when: str = ""
    why: str = ""
    weight: float = 1.0

    @property
    def rubric(self) -> str:
        """The rubric whose score it is."""
        return self.score.partition(".")[0]


class Decision(Value):
    """What a person decided on a card in review; `labels` are the scores as corrected, `when` is ISO 8601."""

    card_id: str
    state: Literal["accepted", "corrected", "rejected"]
    who: str
    when: str
    why: str = ""
    labels: tuple[Label, ...] = ()


class Calibration(Value):
    """How a judge agreed with people on one rubric, and on what."""

    rubric: str
    version: str
    judge: str
    items: int
    alpha: float | None = None
    kappa: float | None = None
    rank_correlation: float | None = None
    data_hash: str = ""
    when: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time to look at, in nanoseconds since 1970; None is open."""

    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing a doctor looked at; `remedy` says what to do when it is not well."""

    name: str
    well: bool
    detail: str = ""
    remedy: str = ""


# --- JSON both ways -------------------------------------------------------------------------------------------------


def dump(value: object) -> str:
    """Any value of this module as JSON.

    >>> dump(Ref("otel", trace_id="t"))
    '{"platform":"otel","project":null,"trace_id":"t","span_id":null,"keys":{}}'
    """
    if isinstance(value, msgspec.Struct):
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    if isinstance(value, Value):
        spelled = _spelled(value, (), OURS_ALONE)
        if spelled is not None:
            return spelled.decode()
    return _adapter(cast("Any", type(value))).dump_json(value).decode()


def load(kind: type[T], text: str | bytes) -> T:
    """The value back from its JSON; a ValidationError (a ValueError) of pydantic's or msgspec's says what does not fit.

    >>> load(Ref, dump(Ref("otel", trace_id="t"))) == Ref("otel", trace_id="t")
    True
    """
    if issubclass(kind, msgspec.Struct):
        return msgspec.json.decode(text, type=kind, dec_hook=_revived)
    made: T = _adapter(cast("Any", kind)).validate_json(text)
    return made


def _revived(kind: type[Any], plain: Any) -> Any:
    """A pydantic value inside a struct."""
    return kind.model_validate_json(json.dumps(plain))


@functools.cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


_FIGURES: dict[type, tuple[str, ...]] = {
    kind: tuple(name for name, of in kind.__pydantic_fields__.items() if of.annotation in (float, float | None))
    for kind in cast(
        "tuple[type[Value], ...]",
        (Passage, Citation, Claim, Turn, Gap, Origin, Record, Evidence, Score, Attempt, Finding, Review, Scorecard),
    )
}
"""The values that are known by their fields alone, and which of these hold a number with a point."""

_FLOATS = (float, type(None))

OURS_ALONE = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
"""Of orjson: what else may be in a value is asked of `parts`, and then of pydantic."""


def parts(value: object) -> Mapping[str, Any]:
    """What a value of this module is made of, for orjson: pydantic comes to the same in three times the time.

    TypeError for anything else, and for a figure that is no float: what pydantic makes of that, it alone knows.
    """
    kind = type(value)
    if kind is Ref:  # there are several in every record: named one by one, its fields are read in half the time
        return _parts_of(cast("Ref", value))
    figures = _FIGURES.get(kind)
    if figures is None:
        if kind in (Usage, Signal):
            return {name: getattr(value, name) for name in kind.__slots__}
        raise TypeError(f"{kind.__name__} has parts of its own")
    held = value.__dict__
    for name in figures:
        if type(held.get(name)) not in _FLOATS:
            raise TypeError(f"{kind.__name__} has a {name} of its own")
    return held if kind is not Scorecard else {name: one for name, one in held.items() if name != _HASHED}


def _parts_of(ref: Ref) -> Mapping[str, Any]:
    return {
        "platform": ref.platform,
        "project": ref.project,
        "trace_id": ref.trace_id,
        "span_id": ref.span_id,
        "keys": ref.keys,
    }


_ONE_SPELLING = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def fields_spelled(value: Value, left_out: Collection[str], **instead: Any) -> bytes | None:
    """What `canonical` makes of a value's fields once pydantic dumped them, some `instead` of them.

    None where a field holds anything but our own values and plain JSON: what that is, only pydantic knows.
    """
    return _spelled(value, left_out, _ONE_SPELLING | OURS_ALONE, **instead)


def _spelled(value: Value, left_out: Collection[str], spelling: int, **instead: Any) -> bytes | None:
    """The JSON of a value's fields as pydantic writes it, letter for letter, in half the time; None as above."""
    try:
        fields = {name: held for name, held in parts(value).items() if name not in left_out}
        return orjson.dumps(fields | instead, default=parts, option=spelling)
    except TypeError:
        return None


def canonical(value: object, default: Callable[[object], object] = _plain) -> bytes:
    """JSON with one spelling: sorted keys, no spaces; what orjson does not take, as lone surrogates, is escaped.

    >>> canonical({"b": 1, "a": "ä"}) == canonical({"a": "ä", "b": 1})
    True
    """
    try:
        return orjson.dumps(value, default=default, option=_ONE_SPELLING)
    except orjson.JSONEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=default).encode()
