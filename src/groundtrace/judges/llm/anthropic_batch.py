"""Anthropic's Message Batches through its SDK: worked off within a day, at half price.

The rubric's part of each question is marked to be kept for an hour, since a batch takes longer than the usual five
minutes. Results come in no order; each names the question's own id.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import IO, Any

import orjson

from groundtrace.errors import PlanError
from groundtrace.judges.llm import openai_shapes as shapes
from groundtrace.judges.llm import refusals
from groundtrace.judges.llm.batch_desk import Outcome, Progress, inside, loaded, spoken, whole_lines
from groundtrace.judges.llm.batch_ledger import Sent
from groundtrace.judges.llm.client import Answer, Question, Stop, Trouble
from groundtrace.judges.llm.schema import strict
from groundtrace.model import Usage

_STATUS: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status each error would have had outside of a batch."""

_STOPS: Mapping[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class AnthropicDesk:
    """Hands questions for one model to Anthropic's Message Batches.

    `options` go into every request. `max_tokens` holds where a question names none. `timeout` is in seconds, of one
    request; handing in and fetching may take `transfer` seconds.
    """

    most = 100_000
    most_bytes = 250_000_000

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "ANTHROPIC_API_KEY",
        *,
        options: Mapping[str, Any] | None = None,
        max_tokens: int = 8192,
        timeout: float = 60,
        transfer: float = 600,
    ) -> None:
        key = os.environ.get(api_key_env, "").strip()
        if not key:
            raise PlanError("judge", f"anthropic-batch:{model}", f"needs a key; set {api_key_env}")
        try:
            import anthropic
        except ImportError:
            hint = "pip install 'groundtrace[anthropic]'"
            raise PlanError("judge", "anthropic-batch", "needs a package that is not installed", hint=hint) from None
        self._sdk = anthropic.Anthropic(api_key=key, base_url=base_url, max_retries=0, timeout=timeout)
        self._unknown = anthropic.NotFoundError
        self._door = refusals.Door("anthropic", model, api_key_env, key)
        self._options, self._max_tokens, self._transfer = dict(options or {}), max_tokens, transfer
        self.where = f"anthropic {str(self._sdk.base_url).rstrip('/')}"

    def line(self, ident: str, question: Question) -> bytes:
        """One question as a line of JSON."""
        kept = {"type": "text", "text": question.prefix, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
        params: dict[str, Any] = {
            "model": self._door.model,
            "max_tokens": question.max_tokens or self._max_tokens,
            "system": [kept],
            "messages": [{"role": "user", "content": question.body}],
            **self._options,
        }
        if question.temperature is not None:
            params["temperature"] = question.temperature
        if question.mode == "schema":
            schema = strict(question.schema) or dict(question.schema)
            form = {"type": "json_schema", "schema": schema}
            params["output_config"] = {**params.get("output_config", {}), "format": form}
        return shapes.dumped({"custom_id": ident, "params": params}) + b"\n"

    def send(self, lines: IO[bytes], token: str) -> str:  # noqa: ARG002 - these batches bear no notes
        """Hand in all requests; what is equal in them is held once while they are put together."""
        lines.seek(0)
        requests: list[Any] = []
        prefixes: dict[str, Any] = {}
        schemas: dict[bytes, Any] = {}
        for line in lines:
            request = orjson.loads(line)
            params = request["params"]
            params["system"] = prefixes.setdefault(params["system"][0]["text"], params["system"])
            if "output_config" in params:
                config = params["output_config"]
                params["output_config"] = schemas.setdefault(orjson.dumps(config), config)
            requests.append(request)
        with spoken(self._door):
            return self._sdk.messages.batches.create(requests=requests, timeout=self._transfer).id

    def newest(self) -> str:
        """The batch made last, by whomever."""
        with spoken(self._door):
            page = self._sdk.messages.batches.list(limit=1)
        return page.data[0].id if page.data else ""

    def find(self, sent: Sent) -> str | None:
        """The batch with as many questions as ours among those made since; None where two could be it.

        These batches bear no notes. Were it another's after all, none of our ids would be in it.
        """
        with spoken(self._door):
            page = self._sdk.messages.batches.list(limit=100)
        since = itertools.takewhile(lambda one: one.id != sent.after, page.data)
        found = [one.id for one in since if _total(one.request_counts) == sent.count and _soon(sent, one.created_at)]
        return found[0] if len(found) == 1 else None

    def look(self, batch: str) -> Progress:
        """Running until all of it succeeded, failed, expired or was cancelled; gone once its results are."""
        with spoken(self._door):
            try:
                told = self._sdk.messages.batches.retrieve(batch)
            except self._unknown:
                return Progress("gone", Trouble("request", f"anthropic knows no batch {batch}"))
        if told.archived_at is not None:
            return Progress("gone", Trouble("request", f"anthropic keeps the results of batch {batch} no more"))
        return Progress("ended" if told.processing_status == "ended" else "running")

    def rows(self, batch: str) -> Iterator[bytes]:
        """The lines of results, as they are sent."""
        with spoken(self._door):
            if self._sdk.messages.batches.retrieve(batch).results_url is None:
                raise Trouble("request", f"the results of batch {batch} are there no more")
            results = self._sdk.messages.batches.results(batch, timeout=self._transfer)
            try:
                yield from whole_lines(results.http_response.iter_bytes())
            finally:
                results.http_response.close()

    def read(self, row: bytes) -> Outcome | None:
        """A message, an error the model's server gave, or word that it was never asked."""
        found = loaded(row)
        if found is None:
            return None
        ident, told = found
        result = inside(told, "result")
        kind = result.get("type")
        if kind == "succeeded":
            return ident, _answer(inside(result, "message"))
        if kind == "errored":
            error = inside(result, "error", "error") or inside(result, "error")
            status = _STATUS.get(str(error.get("type")), 500)
            return ident, refusals.refused(self._door, status, {"error": error})
        words = self._door.safe(kind or "no result came for it")
        return ident, Trouble("timeout", f"anthropic, in a batch: the request is {words}")

    def close(self) -> None:
        """Let go of its connections."""
        self._sdk.close()


def _soon(sent: Sent, made: datetime) -> bool:
    """Whether a batch was made when ours was sent: in the hour after, or before by clocks that differ."""
    made = made if made.tzinfo else made.replace(tzinfo=UTC)
    return abs(made - sent.at) <= timedelta(hours=1)


def _total(counts: Any) -> int:
    return sum((counts.processing, counts.succeeded, counts.errored, counts.canceled, counts.expired))


def _answer(message: Mapping[str, Any]) -> Answer:
    """A message's text; its thinking is not looked at."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
    stop = _STOPS.get(str(message.get("stop_reason")), "")
    refusal = str(inside(message, "stop_details").get("explanation") or "") if stop == "refusal" else ""
    return Answer(text, stop, _usage(message.get("usage")), str(message.get("model") or ""), refusal)


def _usage(told: Any) -> Usage | None:
    """The tokens: those written into the cache and those read from it are input too."""
    if not isinstance(told, dict):
        return None
    plain, read, written, output = (
        value if isinstance(value := told.get(name), int) and value > 0 else 0
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    )
    return Usage(plain + read + written, output, read)
