"""What a request asks and what is said to it, whatever the provider's dialect: the words the shapes share."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FENCE = "<<<groundtrace"

Body = dict[str, Any]

_LEAST_CACHED = 1024
"""Tokens a prefix must have for a provider to keep it."""


@dataclass(slots=True)
class Asked:
    """One question to a model. `at` and what follows is filled in by the server as the request arrives."""

    dialect: str
    """chat, responses, messages or gemini."""

    model: str
    prompt: str
    """All its text, the system's first."""

    body: Body
    mode: str = "text"
    """How the answer's form is asked for: schema, json, tool or text."""

    schema: Mapping[str, Any] | None = None
    tool: str | None = None
    marked: str | None = None
    """The text up to the last cache breakpoint, where a dialect has them."""

    strict: bool = False
    """Whether the provider would refuse a schema outside its subset."""

    batched: bool = False
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    at: float = 0.0
    """Seconds since the first request under this script."""

    in_flight: int = 1
    nth: int = 1
    """The n-th request for this case, told by the record and the rubric, not by nonce or remark."""

    key: int = 0
    """Equal for equal cases, in this process."""

    overall: int = 1
    record: str = ""
    """The prompt from the first fence on, or nothing."""

    nonce: str = ""

    def find_record(self) -> None:
        """See where the record begins; the rubric's own words on fences do not stand at a line's start."""
        prompt = self.prompt
        start = 0 if prompt.startswith(FENCE) else prompt.find("\n" + FENCE) + 1
        if start or prompt.startswith(FENCE):
            self.record = prompt[start:]
            self.nonce = self.record[len(FENCE) + 1 :].partition(":")[0]

    @property
    def fixed(self) -> str:
        """The part a provider can keep: up to the breakpoint, or up to the record."""
        if self.marked is not None:
            return self.marked
        return self.prompt[: len(self.prompt) - len(self.record)] if self.record else ""

    @property
    def once_more(self) -> bool:
        """Whether it is asked again with the faults of the reply before."""
        return bool(self.nonce) and f"{FENCE}:{self.nonce}:faults>>>" in self.record

    @property
    def case(self) -> str:
        """What is asked, without nonce and remark."""
        if not self.record:
            return self.prompt
        told = self.record.partition(f"{FENCE}:{self.nonce}:faults>>>")[0] if self.once_more else self.record
        if self.once_more:
            told = told.rpartition("\nYour reply to this case")[0] + "\n"
        return self.fixed + told.rstrip("\n").replace(f"{FENCE}:{self.nonce}:", FENCE)

    @property
    def mark(self) -> int:
        """A number that is the case's in every run."""
        return zlib.crc32(self.case.encode("utf-8", "surrogatepass"))


@dataclass(slots=True)
class Tokens:
    """What a reply took: `cached` and `written` are parts of `input`, `thought` is one of `output`."""

    input: int
    output: int
    cached: int = 0
    written: int = 0
    thought: int = 0


@dataclass(slots=True)
class Said:
    """What the model says: `finish` is stop, length, filter, refusal, or a word of the provider's own."""

    text: str
    finish: str = "stop"
    thoughts: str = ""
    model: str = ""
    number: int = 1
    tokens: Tokens | None = None


class Kept:
    """A provider's prompt cache: which prefixes it has seen."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, int]] = set()

    def tokens(self, asked: Asked, said: Said) -> Tokens:
        """Four characters are a token; a long enough prefix costs less from its second time on."""
        thought = len(said.thoughts) // 4
        tokens = Tokens(max(1, len(asked.prompt) // 4), max(1, len(said.text) // 4) + thought, thought=thought)
        fixed = asked.fixed
        known = len(fixed) // 4
        if asked.dialect != "messages":
            known -= known % 128
        if known < _LEAST_CACHED:
            return tokens
        key = (asked.dialect, asked.model, hash(fixed))
        if key in self._seen:
            tokens.cached = known
        else:
            self._seen.add(key)
            tokens.written = known
        return tokens
