"""What is between the judge and a provider: one question, one answer, and the ways in which none comes.

A client speaks to one provider through its own SDK, with the SDK's own retries off, and turns what that raises into
`Trouble`. It knows nothing of cases, rubrics or retries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from groundtrace.model import Usage

Mode = Literal["schema", "json", "plain"]
"""How a reply's shape is asked for: the provider's structured output, its JSON mode, or by words alone."""

Stop = Literal["", "length", "refusal", "filter"]
"""Why a reply ended where it should not have; "" where it ended well."""

Kind = Literal["rate", "server", "connection", "timeout", "request", "unsupported", "fatal"]
"""What went wrong: too many requests, a server's failure, a broken or refused connection, no answer in time, a request
the provider refuses, one whose options it does not take, or one that can never succeed (key, model)."""

TRANSIENT: frozenset[Kind] = frozenset(("rate", "server", "connection", "timeout"))
"""Kinds that may be well the next time."""


@dataclass(frozen=True, slots=True)
class Question:
    """One call to a model: the rubric's part, equal for all records, and the record's part.

    `name` is the schema's name for the provider; `temperature` None is left out of the request.
    """

    prefix: str
    body: str
    schema: Mapping[str, Any]
    name: str
    mode: Mode = "schema"
    temperature: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said: its text, why it stopped, its tokens, the model that says it answered."""

    text: str
    stop: Stop = ""
    usage: Usage | None = None
    model: str = ""
    refusal: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)
    """The provider's rate limit headers, lower case, where it sends any."""


class Trouble(Exception):
    """Why no answer came. `retry_after` is in seconds, from the provider; `option` names what it does not take."""

    def __init__(self, kind: Kind, message: str, *, retry_after: float | None = None, option: str = "") -> None:
        super().__init__(message)
        self.kind, self.message, self.retry_after, self.option = kind, message, retry_after, option


class Client(Protocol):
    """Speaks to one provider; made inside the event loop it is used in."""

    async def ask(self, question: Question) -> Answer:
        """Put one question; raises Trouble."""
        ...

    async def close(self) -> None:
        """Let go of its connections."""
        ...
