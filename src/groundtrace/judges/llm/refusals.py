"""What a provider's error means, in words a person can act on; never with a key in them.

Every SDK gives a status, a body and headers; providers put the same few things into them in words of their own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groundtrace.judges.llm.client import Kind, Trouble
from groundtrace.judges.llm.transport import parse_retry_after

_SHOWN = 300
"""Characters of a provider's own words that are told."""

_READ = 4_000
"""And that are looked at: some proxies send a page of HTML."""

_KEYS = re.compile(r"\b(?:sk|pk|rk|gsk|xai)-[\w*.-]{4,}|\bAIza[\w*-]{8,}|\bBearer\s+\S+", re.IGNORECASE)
"""What looks like a key, whole or masked in part by the provider."""

_SPENT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "credit balance is too low")
_NO_MODEL = re.compile(
    r"model_not_found|deploymentnotfound|invalid_model|\bmodels?\b.{0,80}\b(?:does not exist|not found)"
    r"|no such model|unknown model|not_found_error model",
    re.IGNORECASE | re.DOTALL,
)
_NO_KEY = re.compile(r"api key not valid|api_key_invalid|invalid_api_key|incorrect api key", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context_length_exceeded|context.?(?:length|window)|prompt is too long|input is too long"
    r"|input token count|too many (?:input )?tokens|string_above_max_length|request too large",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content_filter|responsibleaipolicyviolation|content management policy", re.IGNORECASE)
_REFUSES = re.compile(
    r"unsupported|not support|n't support|not permitted|not allowed|unrecognized|unknown|unexpected|invalid|extra"
    r"|deprecated|not available|only the default|must be|must contain|not (?:a )?valid|cannot|can't"
    r"|too (?:large|high|long)|maximum|exceed|out of range|>|unavailable|requires",
    re.IGNORECASE,
)
_OPTIONS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "mode",
        re.compile(
            r"response_?format|json_?schema|json_?object|json mode|structured output|text\.format|output_config\.format"
            r"|output_format|response_?schema|response_?mime_?type|responsejsonschema|guided_|invalid schema"
            r"|output_config|strict mode",
            re.IGNORECASE,
        ),
    ),
    ("temperature", re.compile(r"temperature", re.IGNORECASE)),
    ("seed", re.compile(r"\bseed\b", re.IGNORECASE)),
    (
        "reasoning_effort",
        re.compile(r"reasoning|\beffort\b|thinking_?(?:level|budget|config)|\bthinking\b", re.IGNORECASE),
    ),
    ("max_tokens", re.compile(r"max_?(?:completion_|output_)?_?tokens", re.IGNORECASE)),
)
_TRANSPORTS = frozenset(("httpx", "httpx2", "httpcore", "httpcore2", "anyio", "requests", "urllib3", "botocore"))
_RETRY_DELAY = re.compile(r"retryDelay['\"]?\s*:\s*['\"]([0-9]+(?:\.[0-9]+)?)s['\"]")


@dataclass(frozen=True, slots=True)
class Door:
    """Who is asked, and with which variable's key: what a message needs to say what to do."""

    provider: str
    model: str
    key_env: str
    key: str = field(default="", repr=False)
    stated: bool = True
    """Whether a key was there, and not a placeholder."""

    def safe(self, words: object) -> str:
        """The words in one short line without a key.

        >>> Door("openai", "m", "K", "sk-secret").safe("bad key sk-secret,  sk-pr***1234")
        'bad key [key], [key]'
        """
        text = str(words)
        if self.key and self.stated:
            text = text.replace(self.key, "[key]")
        text = " ".join(_KEYS.sub("[key]", text).split())
        return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def filtered(status: int, body: Any) -> str | None:
    """The provider's words where a filter stopped the question itself, which no other request would mend."""
    code, message, _ = _told(body)
    if status == 400 and (_FILTERED.search(code) or _FILTERED.search(message) or code == "invalid_prompt"):
        return message or code
    return None


def refused(door: Door, status: int, body: Any, headers: Mapping[str, str] | None = None) -> Trouble:
    """What an answer with an error's status means."""
    code, message, param = _told(body)
    said = f"{code} {message}"
    words = door.safe(f"{door.provider} says ({status}): {message or code or 'nothing more'}")
    if fatal := _fatal(door, status, said, words):
        return Trouble("fatal", fatal)
    if status == 429 and "request too large" in said.lower():  # more than a minute's tokens: it will never pass
        return Trouble("request", words)
    kind: Kind | None = {408: "timeout", 409: "server", 425: "server", 429: "rate"}.get(status)  # type: ignore[assignment]
    if kind or status >= 500:
        return Trouble(kind or "server", words, retry_after=_wait(headers, body))
    if status in (400, 422) and (option := _option(code, param, message)):
        return Trouble("unsupported", words, option=option)
    return Trouble("request", words)


def _fatal(door: Door, status: int, said: str, words: str) -> str | None:
    """What to do where no request can succeed, in one line; None where one may."""
    if 300 <= status < 400:
        return f"{door.provider} sends the request elsewhere ({status}): name the final address in base_url"
    if status < 500 and any(word in said.lower() for word in _SPENT):
        return f"{words}; the quota is spent: add credit or set {door.key_env} to another account's key"
    if status == 401 or (status == 400 and _NO_KEY.search(said)):
        return _no_key(door, status)
    if status in (400, 403, 404) and _NO_MODEL.search(said) and not _TOO_LONG.search(said):
        return f"{door.provider} has no model {door.model!r} for this key ({status}): {_after(words)}"
    advice = {
        402: f"add credit or set {door.key_env} to another account's key",
        403: f"check what the key in {door.key_env} may do",
        404: f"is model {door.model!r} right, and base_url?",
        405: "is base_url right?",
    }.get(status)
    return advice and f"{words}; {advice}"


def _no_key(door: Door, status: int) -> str:
    if not door.stated:
        return f"{door.provider} wants a key ({status}): set {door.key_env}"
    return f"{door.provider} refuses the key ({status}): set {door.key_env} to a valid one"


def _after(words: str) -> str:
    """A provider's words without our own before them."""
    return words.partition("): ")[2] or words


def _option(code: str, param: str, message: str) -> str:
    """Which of our options is not taken; "" where it is something else."""
    if _TOO_LONG.search(code) or (_TOO_LONG.search(message) and not param):
        return ""
    for name, known in _OPTIONS:
        if param and known.search(param):
            return name
    if not _REFUSES.search(message):
        return ""
    found = [(match.start(), name) for name, known in _OPTIONS if (match := known.search(message))]
    return min(found)[1] if found else ""


def _told(body: Any) -> tuple[str, str, str]:
    """Code and type, message, parameter, wherever they stand."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, Mapping):
        return "", body[:_READ] if isinstance(body, str) else "", ""
    inner = body.get("error", body)
    if isinstance(inner, str):
        return "", inner[:_READ], ""
    if not isinstance(inner, Mapping):
        return "", "", ""
    codes = [inner.get("code"), inner.get("type"), inner.get("status"), *_reasons(inner)]
    message = inner.get("message") or inner.get("detail") or inner.get("msg") or ""
    return " ".join(str(code) for code in codes if code), str(message)[:_READ], str(inner.get("param") or "")


def _reasons(error: Mapping[str, Any]) -> list[Any]:
    """Google's and Azure's second words on an error."""
    details, deeper = error.get("details"), error.get("innererror")
    found = [one.get("reason") for one in details if isinstance(one, Mapping)] if isinstance(details, list) else []
    return [*found, deeper.get("code")] if isinstance(deeper, Mapping) else found


def _wait(headers: Mapping[str, str] | None, body: Any) -> float | None:
    """Seconds until it may be asked again, as the headers or Google's body say."""
    named = parse_retry_after(headers, time.time()) if headers else None
    if named is not None:
        return named
    found = _RETRY_DELAY.search(str(body)) if isinstance(body, (Mapping, list)) else None
    return float(found[1]) if found else None


# --- what came instead of an answer -----------------------------------------------------------------------------------


def broken(door: Door, error: BaseException) -> Trouble:
    """What an error without a status means: no answer in time, or a connection that broke or never stood.

    The aiohttp transports call every broken connection a timeout; what lies below tells.
    """
    chain, seen = [error], {id(error)}
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and id(cause) not in seen:
        chain.append(cause)
        seen.add(id(cause))
    below = [one for one in chain if _home(one) == "aiohttp" or isinstance(one, OSError)]
    named = [type(one).__name__ for one in chain]
    if not below and not any(_home(one) in _TRANSPORTS for one in chain):  # no transport's word: the SDK's own failure
        return Trouble("request", door.safe(f"{door.provider} could not be asked ({named[0]}: {error})"))
    late = any(isinstance(one, TimeoutError) for one in below) if below else any("Timeout" in name for name in named)
    what = "gave no answer in time" if late else "could not be reached, or the connection broke"
    return Trouble("timeout" if late else "connection", door.safe(f"{door.provider} {what} ({named[-1]})"))


def _home(error: BaseException) -> str:
    """The package an error comes from."""
    return type(error).__module__.partition(".")[0]
