"""The automation rule that has LangSmith tell an address of new traces: created once, found again, removed.

That the server takes a rule with `webhooks` over `POST /runs/rules` was never seen: the field stands in what a rule
looks like when it is read, and LangSmith's own command line creates other rules this way. Nothing else here depends on
it: where the server refuses, what to do by hand in its UI is said. Rules are listed by `GET /api/v2/runs/rules`, a page
at a time, or by `GET /runs/rules`, all at once; a rule is ours by its address, whoever made it.

`extend_webhook_trace_retention` is false: a rule that prolongs how long traces are kept costs money.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from groundtrace.adapters.langsmith.api import Api, Project
from groundtrace.adapters.patience import Refused
from groundtrace.errors import PlatformError

NAME = "groundtrace"
PATIENCE = 60.0
"""Seconds after which a request that does the same when it comes twice is sent no more."""

_FILTERS = ("filter", "trace_filter", "tree_filter", "thread_filter", "group_by")
_LONG = 8
"""Characters from which on a value in an address may be a secret that has to be found in what LangSmith gives back."""

_TRIES = 3
_PAGES = 100
"""Pages of rules that are read before the list is taken for endless."""

Rule = Mapping[str, Any]


def attach(api: Api, project: Project, url: str, *, share: float, headers: Mapping[str, str]) -> Sequence[str]:
    """Create the rule that tells an address of this share of a project's new traces, or leave the one that does.

    One that differs is changed, unless it does more than to tell the address: how it differs is said then. Says what
    was done; where that is refused, what to do by hand. What may be a secret in an address is never said.
    """
    body = _body(project, url, share, headers)
    steps = by_hand(project, url, share, headers)
    with _or_by_hand(f"no rule was made or changed; {steps}", [*headers.values(), *_secrets(url)]):
        found = sorted(_telling(api, project, url), key=lambda rule: bool(_others(rule, url)))
        if not found:
            return [f"created rule {_created(api, project, url, body)} of project {project.name}: {_what(url, share)}"]
        first, *more = found
        named = f"rule {first['id']} of project {project.name}"
        done = [f"rule {rule['id']} of project {project.name} tells the same address: it was left" for rule in more]
        if not (differ := ", ".join(_differences(first, body))):
            return [f"{named} is there already: {_what(url, share)}", *done]
        if others := ", ".join(_others(first, url)):
            what = (
                f"{named} tells the address, but not as was asked: {differ}; it was left, for it does more ({others})"
            )
            return [f"{what}; {steps}", *done]
        asked = body | {name: None for name in _FILTERS if first.get(name) and name not in body}
        api.call("PATCH", f"/runs/rules/{first['id']}", json=asked, tier="write", patience=PATIENCE)
        return [f"changed {named} ({differ} before): {_what(url, share)}", *done]


def detach(api: Api, project: Project, url: str) -> Sequence[str]:
    """Remove every rule of a project that tells an address and does nothing else; says what was done."""
    done: list[str] = []
    hint = f"by hand: project {project.name}, Automations, the rule with the webhook {shown(url)}, Delete"
    with _or_by_hand(hint, _secrets(url)):
        for rule in _telling(api, project, url):
            if others := _others(rule, url):
                more = ", ".join(others)
                done.append(
                    f"rule {rule['id']} was left, for it does more ({more}): take the address out of it by hand"
                )
                continue
            try:
                api.call("DELETE", f"/runs/rules/{rule['id']}", tier="write", patience=PATIENCE)
            except Refused as error:
                if error.status != 404:
                    raise
            done.append(f"removed rule {rule['id']} of project {project.name}")
    return done or [f"no rule of project {project.name} tells {shown(url)}"]


def shown(url: str) -> str:
    """An address without what may be a secret in it.

    >>> shown("https://ada:pw@example.org/x?secret=abc"), shown("https://example.org/x")
    ('https://***@example.org/x?***', 'https://example.org/x')
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "***"
    who, at, where = parts.netloc.rpartition("@")
    more = f"{'?***' if parts.query else ''}{'#***' if parts.fragment else ''}"
    return f"{parts.scheme}://{'***' if who else ''}{at}{where}{parts.path}{more}"


def _secrets(url: str) -> list[str]:
    """What in an address may be a secret, the longest first; and the address itself."""
    parts = urlsplit(url)
    told = [value for _, value in parse_qsl(parts.query)] + [parts.password or "", parts.fragment]
    return sorted([url, parts.query, *(value for value in told if len(value) >= _LONG)], key=len, reverse=True)


def by_hand(project: Project, url: str, share: float, headers: Mapping[str, str]) -> str:
    """How a person makes the same rule; a secret is not shown."""
    named = f", with the header {', '.join(headers)} holding the secret" if headers else ""
    where = f"by hand: project {project.name}, Automations, New: runs that are roots, sampling rate {share:g}"
    return f"{where}, action Webhook to {shown(url)}{named}"


def _body(project: Project, url: str, share: float, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "display_name": NAME,
        "session_id": project.id,
        "is_enabled": True,
        "sampling_rate": share,
        "filter": "eq(is_root, true)",
        "webhooks": [{"url": url, "headers": dict(headers)}],
        "extend_webhook_trace_retention": False,
    }


def _rules(api: Api, project: Project) -> Iterator[Rule]:
    """The rules of a project: by the newer list, else by the older one."""
    try:
        found = list(_paged(api, project))
    except Refused as error:
        if error.status not in (400, 404, 405, 422, 501):
            raise
        told = api.call("GET", "/runs/rules", params={"session_id": project.id})
        found = told if isinstance(told, list) else []
    for rule in found:
        if isinstance(rule, dict) and rule.get("id") and str(rule.get("session_id", project.id)) == project.id:
            yield rule


def _paged(api: Api, project: Project) -> Iterator[Any]:
    cursor = None
    for _ in range(_PAGES):
        told = api.call("GET", "/api/v2/runs/rules", params={"session_id": project.id, "cursor": cursor})
        rows = told.get("items", told.get("rules")) if isinstance(told, dict) else None
        if not isinstance(rows, list):
            raise Refused("LangSmith's answer has no rules", status=501)
        yield from rows
        cursor = told.get("next_cursor")
        if not cursor:
            return
    raise PlatformError("LangSmith's list of rules has no end")


def _urls(rule: Rule) -> list[str]:
    hooks = rule.get("webhooks")
    return [str(hook.get("url")) for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else []


def _others(rule: Rule, url: str) -> list[str]:
    """What a rule does beside telling an address."""
    acts = ("add_to_annotation_queue_id", "add_to_dataset_id", "evaluators", "code_evaluators", "alerts")
    return [name for name in acts if rule.get(name)] + [shown(other) for other in _urls(rule) if other != url]


def _differences(rule: Rule, body: Mapping[str, Any]) -> Iterator[str]:
    """How a rule is not as it should be, in all that is told of it; a header it does not show may be as it should."""
    if rule.get("is_enabled") not in (None, body["is_enabled"]):
        yield "disabled"
    if (share := rule.get("sampling_rate")) not in (None, body["sampling_rate"]):
        yield f"sampling rate {share}"
    for name in _FILTERS:
        if name in rule and (held := rule[name] or None) != body.get(name):
            yield f"{name.replace('_', ' ')} {held}" if held else f"no {name}"
    if rule.get("extend_webhook_trace_retention") not in (None, body["extend_webhook_trace_retention"]):
        yield "traces kept longer"
    (wanted,) = body["webhooks"]
    hooks = [hook for hook in rule["webhooks"] if isinstance(hook, dict) and hook.get("url") == wanted["url"]]
    if any(hook.get("headers") not in (None, wanted["headers"]) for hook in hooks):
        yield "other headers"


def _what(url: str, share: float) -> str:
    told = f"{share * 100:g}% of its new traces are told to {shown(url)}"
    return f"{told}; how long they are kept is not prolonged"


def _telling(api: Api, project: Project, url: str) -> list[Rule]:
    """The rules of a project that tell an address."""
    return [rule for rule in _rules(api, project) if url in _urls(rule)]


def _created(api: Api, project: Project, url: str, body: Mapping[str, Any]) -> str:
    """Create a rule; its id. Where no answer came it may be there, so that is looked at before it is asked again."""
    for attempt in range(_TRIES):
        try:
            made = api.call("POST", "/runs/rules", json=body, tier="write", patience=0.0)
        except Refused as error:
            passing = error.status in (0, 408, 409, 429) or error.status >= 500
            held = _telling(api, project, url) if passing else []
            if held:
                return str(held[0]["id"])
            if not passing or attempt + 1 == _TRIES:
                raise
        else:
            ident = made.get("id") if isinstance(made, dict) else None
            return str(ident or "(LangSmith did not say its id)")
    raise PlatformError("no rule was created")


@contextmanager
def _or_by_hand(hint: str, secrets: Iterable[str]) -> Iterator[None]:
    """Where LangSmith refuses, how a person does the same is said; a secret it gives back is not."""
    try:
        yield
    except Refused as error:
        message, detail = str(error), error.detail
        for secret in filter(None, secrets):
            message, detail = message.replace(secret, "***"), detail.replace(secret, "***")
        if error.status not in (0, 401, 429) and error.status < 500:
            message = f"{message}; {hint}"
        raise Refused(message, status=error.status, detail=detail, retry_after=error.retry_after) from None
