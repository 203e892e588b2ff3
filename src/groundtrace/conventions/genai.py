"""OpenTelemetry GenAI, the semantic conventions' `gen_ai.*`: on the span, or in the log record beside it.

Source: semantic-conventions v1.41 (docs/gen-ai) and what opentelemetry-instrumentation-genai-*, openai-v2, logfire,
pydantic-ai and Google ADK really write. The content of a call stands in attributes of the span, in a log record
`gen_ai.client.inference.operation.details`, or nowhere, as a setting has it. Retrieval spans hold ids, seldom texts;
citations are not part of the conventions.
Verified beside these by real captures: openai-v2 2.4b0 (opted in, with every value of the setting, and not), Strands
Agents 1.62 (messages as events and as attributes), LiteLLM 1.110 (its callback, both forms), azure-ai-inference 1.0.0b9
(a message an event, content off). Not captured: a thread of azure-ai-agents 1.1, written from its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from groundtrace.conventions.messages import last_user_text, message, messages, noted, set_apart, tool_result
from groundtrace.conventions.shapes import decode, documents, said, text
from groundtrace.conventions.wrapped import question, reply
from groundtrace.model import Document, Message, Reading, Role, Said, Span, State, Struct, Tool

_ROLES: Mapping[str, Role] = {
    "chat": "generation",
    "generate_content": "generation",
    "text_completion": "generation",
    "embeddings": "embedding",
    "retrieval": "retrieval",
    "search_memory": "retrieval",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "invoke_workflow": "request",
    # Azure's agents: a run as it streamed, and the thread's messages as they were fetched after it.
    "process_thread_run": "generation",
    "list_messages": "generation",
}
_FACTS = (
    ("gen_ai.conversation.id", "session"),
    ("gen_ai.thread.id", "session"),
    ("user.id", "user"),
    ("llm.user", "user"),
    ("gen_ai.response.model", "model"),
    ("gen_ai.request.model", "model"),
    ("gen_ai.response.id", "response_id"),
    ("gen_ai.data_source.id", "knowledge_base"),
)
_DETAILS = "gen_ai.client.inference.operation.details"
_SPOKEN = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_CHOICE = "gen_ai.choice"
_VARIABLE = "gen_ai.prompt.variable."
_SHARED = 300
"""More attributes than that, and what their names say is not kept."""

_OTHER_DIALECTS = ("gen_ai.prompt", "gen_ai.completion")
_INPUT, _OUTPUT, _SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"
_QUERY, _FOUND = "gen_ai.retrieval.query.text", "gen_ai.retrieval.documents"
_ARGUMENTS, _RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
_MARKS_OF_A_ROLE: tuple[tuple[str, Role], ...] = (
    (_INPUT, "generation"),
    (_OUTPUT, "generation"),
    (_QUERY, "retrieval"),
    (_FOUND, "retrieval"),
    (_RESULT, "tool"),
)

_AS_THEY_ARE: Mapping[str, str] = MappingProxyType({})
_CAPTURE = (
    "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY (one of NO_CONTENT, SPAN_ONLY, EVENT_ONLY, "
    "SPAN_AND_EVENT; older packages take true) and OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"
)
_LOGS_TOO = "; with EVENT_ONLY the content is in the logs: put them beside the traces as NAME.logs.jsonl"
_AZURE = "set AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true in the traced process"
_REMEDIES = (
    ("gcp.vertex.agent", "Google ADK writes content to the logs: put them beside the traces as NAME.logs.jsonl"),
    ("pydantic-ai", "use InstrumentationSettings(include_content=True)"),
    ("com.anthropic.sdk.python", "this SDK span holds no content: add an instrumentor for the anthropic package"),
    ("gen_ai", "do not set recordInputs or recordOutputs to false in the AI SDK's telemetry settings"),
    ("logfire", "do not scrub or exclude message content in the logfire settings"),
)


class GenAI:
    """Reads one span of any instrumentation that follows the GenAI conventions, with the logs joined to it."""

    name = "genai"
    marks = ("gen_ai.",)
    fallback = True

    def reading(self, span: Span) -> Reading | None:
        """What the span and its logs hold; None where the conventions give them no meaning."""
        held, places = _held(span)
        named = _named(held)
        role = _role(held, named)
        facts: dict[str, Any] = {}
        for name, fact in named.facts:
            if fact not in facts and (told := text(held[name])):
                facts[fact] = told
        if "knowledge_base" in facts:
            facts["slices"] = {"knowledge_base": facts.pop("knowledge_base")}
        if role is None:
            session = facts.get("session")
            return Reading("other", session=session, user=facts.get("user")) if session else None
        if role == "retrieval":
            return _retrieval(held, places, facts)
        if role == "tool":
            return _tool(held, places, facts)
        if role in {"generation", "agent", "request"}:
            if named.variables:
                facts["variables"] = _variables(held, places, named.variables)
            return _conversation(role, span, held, places, facts)
        return Reading(role, aside=held.get("gen_ai.operation.name") == "evaluation", **facts)


def _held(span: Span) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The span's attributes with what its events and logs add, and for these the place they stand in."""
    if not span.logs and not span.events:
        return span.attributes, _AS_THEY_ARE
    tool = span.attributes.get("gen_ai.operation.name") == "execute_tool"
    extra: dict[str, Any] = {}
    spoken: list[Mapping[str, Any]] = []
    chosen: list[Mapping[str, Any]] = []
    notes = [(log.name or str(log.attributes.get("event.name")), log.body, log.attributes) for log in span.logs]
    for name, body, attributes in [*notes, *((e.name, None, e.attributes) for e in span.events)]:
        told = noted(body, attributes)
        if name == _DETAILS:
            extra.update(attributes)
            extra.update({k: v for k, v in told.items() if str(k).startswith("gen_ai.")})
        elif name in _SPOKEN and (told.get("content") or told.get("tool_calls")):
            spoken.append({"role": _SPOKEN[name], **told})
        elif name == _CHOICE and (chose := told.get("message")):
            chosen.append({"role": "assistant", **(chose if isinstance(chose, Mapping) else {"content": chose})})
    if span.attributes.get("gen_ai.operation.name") in ("process_thread_run", "list_messages"):
        spoken, chosen = _thread(spoken)
    if tool:
        # Strands Agents tells what a tool was asked and answered as messages.
        pairs = ((_ARGUMENTS, spoken), (_RESULT, chosen))
        extra |= {key: told[-1].get("content") for key, told in pairs if told}
    # An event a message, the form before v1.37: one that names no content says only that there was a message.
    elif any(m.get("content") or m.get("tool_calls") for m in (*spoken, *chosen)):
        extra.setdefault(_INPUT, spoken)
        extra.setdefault(_OUTPUT, chosen)
    if not extra:
        return span.attributes, {}
    places = {k: f"logs: {k}" for k in extra if k not in span.attributes}
    return {**extra, **span.attributes}, places


def _thread(spoken: list[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """What was said in a thread of Azure's before the agent spoke last, and what it said then; told in either order."""
    roles = [m.get("role") for m in spoken]
    if roles and roles[0] == "assistant" != roles[-1]:
        spoken, roles = spoken[::-1], roles[::-1]
    last = max((at for at, role in enumerate(roles) if role != "assistant"), default=-1)
    return spoken[: last + 1], spoken[last + 1 :]


def _role(held: Mapping[str, Any], named: _Names) -> Role | None:
    operation = held.get("gen_ai.operation.name")
    if named.older and _INPUT not in held and _OUTPUT not in held:
        return None
    if isinstance(operation, str) and operation in _ROLES:
        return _ROLES[operation]
    for mark, role in _MARKS_OF_A_ROLE:
        if mark in held:
            return role
    return "other" if isinstance(operation, str) and operation else None


# --- by operation -----------------------------------------------------------------------------------------------------


def _conversation(
    role: Role, span: Span, held: Mapping[str, Any], places: Mapping[str, str], facts: Mapping[str, Any]
) -> Reading:
    """A call, an agent or a workflow: what it was given, and what it said last."""
    given, told = decode(held.get(_INPUT)), decode(held.get(_OUTPUT))
    input_place, output_place = places.get(_INPUT, _INPUT), places.get(_OUTPUT, _OUTPUT)
    spoken = messages(given.value, input_place)
    if _SYSTEM in held:
        spoken = (*_system(held[_SYSTEM], places.get(_SYSTEM, _SYSTEM)), *spoken)
    if role == "generation":
        spoken = set_apart(spoken, given.value, input_place)
    answered = messages(told.value, output_place)
    cut = Said(str(given.value), input_place, "truncated") if given.cut else None
    query = cut
    if query is None and role != "generation" and (last := last_user_text(spoken)) is not None:
        query = said(question(last.value), input_place)
    silent = role == "generation" and not any(map(_says, (*spoken, *answered)))
    content, remedy = _unsaid(span, held) if silent else ("present", "")
    searched = [d for m in answered for d in m.documents]
    return Reading(
        role,
        query=query if role != "generation" else None,
        documents=tuple(searched) if searched else None,
        messages=(Message("user", cut),) if cut else spoken if role == "generation" else (),
        calls=tuple([t for m in answered for t in m.tools if t.arguments is not None]),
        output=Said(str(told.value), output_place, "truncated") if told.cut else _answer(answered, held),
        content=content,
        remedy=remedy,
        **facts,
    )


def _says(spoken: Message) -> bool:
    return bool(spoken.text or spoken.documents or any(t.arguments or t.result for t in spoken.tools))


def _answer(answered: tuple[Message, ...], held: Mapping[str, Any]) -> Said | None:
    """The text of the reply: the last message's, or the first choice's where there are several."""
    # What came out is the model's, whatever it is called: a streamed message of LangChain is "unknown" to Traceloop.
    texts = [m.text for m in answered if m.text is not None and m.role not in {"user", "system", "tool"}]
    if not texts:
        return None
    answer = texts[0] if held.get("gen_ai.request.choice.count") not in (None, 1) else texts[-1]
    if held.get("gen_ai.output.type") == "json" and (inner := reply(answer.value)):
        return said(inner, answer.attribute)  # the answer field of a structured output
    return answer


def _unsaid(span: Span, held: Mapping[str, Any]) -> tuple[State, str]:
    """Where the content of a call is in whose messages nothing is said, and what to change where it was not kept."""
    # pydantic-ai keeps the messages and leaves out their content.
    if any(not isinstance(held[key], str) or '"content"' in held[key] for key in (_INPUT, _OUTPUT) if key in held):
        return "present", ""
    if f"{_INPUT}_ref" in held or f"{_OUTPUT}_ref" in held:
        return "elsewhere", "the content was uploaded elsewhere: unset OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK"
    known = next((remedy for scope, remedy in _REMEDIES if span.scope.startswith(scope)), None)
    if str(held.get("gen_ai.system")).startswith("az.") or "az.namespace" in held:
        known = _AZURE
    if span.logs:
        return "off", known or _CAPTURE
    return ("elsewhere", known) if known and "logs" in known else ("off", known or _CAPTURE + _LOGS_TOO)


def _retrieval(held: Mapping[str, Any], places: Mapping[str, str], facts: Mapping[str, Any]) -> Reading:
    place = places.get(_FOUND, _FOUND)
    found = documents(held.get(_FOUND), place)
    cut = found is None and _cut(held.get(_FOUND), place)
    return Reading(
        "retrieval",
        query=said(held.get(_QUERY), places.get(_QUERY, _QUERY)),
        documents=(Document(cut),) if cut else found,
        remedy=_CAPTURE if found is None else "",
        **facts,
    )


def _tool(held: Mapping[str, Any], places: Mapping[str, str], facts: Mapping[str, Any]) -> Reading:
    asked, place = held.get(_ARGUMENTS), places.get(_ARGUMENTS, _ARGUMENTS)
    words, found = tool_result(held.get(_RESULT), places.get(_RESULT, _RESULT))
    tool = Tool(
        text(held.get("gen_ai.tool.name")) or "",
        text(held.get("gen_ai.tool.call.id")),
        said(asked, place),
        _cut(held.get(_RESULT), places.get(_RESULT, _RESULT)) or said(words, places.get(_RESULT, _RESULT)),
        found,
    )
    return Reading("tool", query=said(question(asked), place), tool=tool, **facts)


# --- parts ------------------------------------------------------------------------------------------------------------


def _cut(value: Any, place: str) -> Said | None:
    """What a limit left of a JSON value that breaks off."""
    return Said(str(value), place, "truncated") if decode(value).cut else None


def _system(value: Any, place: str) -> tuple[Message, ...]:
    """The system instructions, a list of text parts, as the first message."""
    if value is None:
        return ()
    parts = decode(value).value
    if isinstance(parts, str):
        parts = [parts]
    told = message({"role": "system", "parts": parts}, place) if isinstance(parts, list) and parts else None
    return (told,) if told is not None else ()


def _variables(held: Mapping[str, Any], places: Mapping[str, str], names: Iterable[str]) -> dict[str, Said]:
    named = {k[len(_VARIABLE) :]: said(held[k], places.get(k, k)) for k in names}
    return {name: words for name, words in named.items() if words is not None}


class _Names(Struct, frozen=True):
    """What the names of attributes tell: whether older forms are among them, a prompt's variables, known facts."""

    older: bool
    variables: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


def _named(held: Mapping[str, Any]) -> _Names:
    names = tuple(held)
    return _by_name(names) if len(names) <= _SHARED else _by_name.__wrapped__(names)


@lru_cache(maxsize=128)
def _by_name(names: tuple[str, ...]) -> _Names:
    variables = tuple(name for name in names if name.startswith(_VARIABLE))
    older = any(name.startswith(_OTHER_DIALECTS) for name in names if name not in variables)
    return _Names(older, variables, tuple((name, fact) for name, fact in _FACTS if name in names))
