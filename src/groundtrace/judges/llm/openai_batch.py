"""OpenAI's Batch API through its SDK: a file of chat completions is uploaded, worked off within a day, at half price.

Results stand in two files, those that came and those that did not, in no order; each names the question's own id.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import IO, Any, Literal

from groundtrace.errors import PlanError
from groundtrace.judges.llm import openai_shapes as shapes
from groundtrace.judges.llm import refusals
from groundtrace.judges.llm.batch_desk import Outcome, Progress, inside, loaded, spoken, whole_lines
from groundtrace.judges.llm.batch_ledger import Sent
from groundtrace.judges.llm.client import Answer, Question, Trouble

_ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_ENDED = frozenset(("completed", "expired", "cancelled"))
_FULL = frozenset(("token_limit_exceeded", "rate_limit_exceeded"))
"""Why a batch fails that would do later: too much is waiting in the organisation's queue.

OpenAI's SDK and reference leave the codes open: `BatchError.code` is any text. `token_limit_exceeded` ("Enqueued token
limit reached ...") is what users report of failed batches at OpenAI (openai-python, issue 2084) and Azure.
`rate_limit_exceeded` is the code of an ordinary 429; that a batch fails with it is not verified. A batch that can't
be made at all is answered with 429, which is tried again anyway.
"""

_TOKEN = "groundtrace"  # noqa: S105 - the name of a note on the batch, no secret


class OpenAIDesk:
    """Hands questions for one model to OpenAI's Batch API, or to a server at `base_url` that has the same.

    `options` go into every request (seed, reasoning_effort). `timeout` is in seconds, of one request; an upload or a
    download may take `transfer` seconds.
    """

    most = 50_000
    most_bytes = 190_000_000

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        *,
        options: Mapping[str, Any] | None = None,
        timeout: float = 60,
        transfer: float = 600,
    ) -> None:
        key = os.environ.get(api_key_env, "").strip()
        if not key:
            raise PlanError("judge", f"openai-batch:{model}", f"needs a key; set {api_key_env}")
        try:
            import openai
        except ImportError:
            hint = "pip install 'groundtrace[openai]'"
            raise PlanError("judge", "openai-batch", "needs a package that is not installed", hint=hint) from None
        self._sdk = openai.OpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=timeout)
        self._unknown = openai.NotFoundError
        self._door = refusals.Door("openai", model, api_key_env, key)
        self._options, self._transfer = dict(options or {}), transfer
        self._uploaded: dict[str, str] = {}
        self.where = f"openai {str(self._sdk.base_url).rstrip('/')}"

    def line(self, ident: str, question: Question) -> bytes:
        """One question as a line of the file that is uploaded."""
        turns = [{"role": "system", "content": question.prefix}, {"role": "user", "content": question.body}]
        body: dict[str, Any] = {"model": self._door.model, "messages": turns, **self._options}
        if question.temperature is not None:
            body["temperature"] = question.temperature
        if question.max_tokens is not None:
            body["max_completion_tokens"] = question.max_tokens
        form = shapes.form(question, responses=False)
        if form is not None:
            body["response_format"] = form
        return shapes.dumped({"custom_id": ident, "method": "POST", "url": _ENDPOINT, "body": body}) + b"\n"

    def send(self, lines: IO[bytes], token: str) -> str:
        """Upload the file, once, and have a batch made of it."""
        with spoken(self._door):
            if token not in self._uploaded:
                lines.seek(0)
                name = f"groundtrace-{token}.jsonl"
                made = self._sdk.files.create(file=(name, lines), purpose="batch", timeout=self._transfer)
                self._uploaded[token] = made.id
            batch = self._sdk.batches.create(
                input_file_id=self._uploaded[token],
                endpoint=_ENDPOINT,
                completion_window="24h",
                metadata={_TOKEN: token},
            )
        del self._uploaded[token]
        return batch.id

    def newest(self) -> str:
        """Not needed: a batch is known by our token."""
        return ""

    def find(self, sent: Sent) -> str | None:
        """The newest batch that bears our token."""
        with spoken(self._door):
            page = self._sdk.batches.list(limit=100)
        return next((one.id for one in page.data if (one.metadata or {}).get(_TOKEN) == sent.token), None)

    def look(self, batch: str) -> Progress:
        """Running until it is completed, expired or cancelled; failed where the file was not taken."""
        with spoken(self._door):
            try:
                told = self._sdk.batches.retrieve(batch)
            except self._unknown:
                return Progress("gone", Trouble("request", f"openai knows no batch {batch}"))
        if told.status == "failed":
            said = [fault.to_dict() for fault in (told.errors.data if told.errors else None) or ()]
            return Progress("failed", self._failed(said[0] if said else {}))
        return Progress("ended" if told.status in _ENDED else "running")

    def rows(self, batch: str) -> Iterator[bytes]:
        """The lines of the output file, then those of the error file."""
        with spoken(self._door):
            told = self._sdk.batches.retrieve(batch)
            for file in filter(None, (told.output_file_id, told.error_file_id)):
                content = self._sdk.files.with_streaming_response.content(file, timeout=self._transfer)
                try:
                    with content as response:
                        yield from whole_lines(response.iter_bytes())
                except self._unknown:
                    raise Trouble("request", f"the results of batch {batch} are there no more") from None

    def read(self, row: bytes) -> Outcome | None:
        """A completion, an error the model's server gave, or word that it was never asked."""
        found = loaded(row)
        if found is None:
            return None
        ident, told = found
        response, body = inside(told, "response"), inside(told, "response", "body")
        status = response.get("status_code")
        if status == 200 and body:
            return ident, shapes.completion(body, {})
        if isinstance(status, int) and status != 200:
            return ident, self._refused(status, body)
        error = inside(told, "error")
        words = self._door.safe(error.get("message") or error.get("code") or "no result came for it")
        return ident, Trouble("timeout", f"openai, in a batch: {words}")

    def close(self) -> None:
        """Let go of its connections."""
        self._sdk.close()

    def _refused(self, status: int, body: Mapping[str, Any]) -> Answer | Trouble:
        words = refusals.filtered(status, body)
        if words is not None:
            return Answer("", "filter", refusal=self._door.safe(words))
        return refusals.refused(self._door, status, body)

    def _failed(self, fault: Mapping[str, Any]) -> Trouble:
        """Why a whole batch failed."""
        if fault.get("code") in _FULL:
            return Trouble("rate", self._door.safe(f"openai takes no more batches now: {fault.get('message')}"))
        return refusals.refused(self._door, 400, {"error": fault})
