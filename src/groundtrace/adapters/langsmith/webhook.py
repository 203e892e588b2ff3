"""What an automation rule of LangSmith sends to an address: which traces it is about, and nothing else of it.

The message (documented; no real one was seen) holds `rule_id` and `runs`, each with `trace_id` and `session_id`, its
project. Inputs, outputs and times stand there too, the times without a zone and the texts perhaps as links: none of
that is used, for what is judged is read from the API. LangSmith gives a message up that is not answered in 5 s, sends
one again (twice) that was answered by 5xx or not at all, and never one that was answered by 4xx.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from groundtrace.errors import PlatformError
from groundtrace.model import Delivery

_SHOWN = 60


def delivery(told: object) -> Delivery:
    """The traces a message names, each once; PlatformError where it is no message of a rule.

    An odd run keeps no other from being heard, for LangSmith does not send a message again that was refused: one is
    refused where every run of it is odd.

    >>> trace, project = "0198a1b2-0000-7000-8000-000000000001", "11111111-1111-4111-8111-111111111111"
    >>> delivery({"rule_id": "r", "runs": [{"id": trace, "trace_id": trace, "session_id": project}]}).traces
    (('11111111-1111-4111-8111-111111111111', '0198a1b2-0000-7000-8000-000000000001'),)
    """
    if not isinstance(told, Mapping) or not isinstance(told.get("runs"), list):
        raise PlatformError("this is no message of a LangSmith rule: it has no list of runs")
    rule = told.get("rule_id")
    traces, odd = dict[tuple[str, str], None](), list[PlatformError]()
    for run in told["runs"]:
        try:
            traces[_trace(run)] = None
        except PlatformError as error:
            odd.append(error)
    if odd and not traces:
        raise odd[0]
    return Delivery(rule if isinstance(rule, str) else "", tuple(traces), len(odd))


def _trace(run: Any) -> tuple[str, str]:
    """The project and the trace of a run."""
    if not isinstance(run, Mapping):
        raise PlatformError("this is no message of a LangSmith rule: a run of it is no object")
    return _id(run, "session_id"), _id(run, "trace_id", "id")


def _id(run: Mapping[str, Any], *names: str) -> str:
    value = next((run[name] for name in names if run.get(name)), None)
    try:
        return str(uuid.UUID(value))
    except (ValueError, TypeError, AttributeError):
        shown = repr(value)[:_SHOWN]
        raise PlatformError(f"this is no message of a LangSmith rule: {names[0]} of a run is {shown}") from None
