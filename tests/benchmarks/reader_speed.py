"""How fast traces become records: `python tests/benchmarks/reader_speed.py [--traces 4000] [--rounds 3]`.

One core, six spans a trace, every text of every trace its own, one line a trace as exporters write them. Prints CPU
time as traces a second and as a multiple of what `orjson.loads` needs for the same lines in the same run: decoded
spans, with readings, whole records; for each of the dialects below.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from groundtrace.adapters.otel.wire import Decoder
from groundtrace.model import Ref, Trace
from groundtrace.plugins import installed, load
from groundtrace.read import read, readings

CONVENTIONS = tuple(load("convention", plugin.name) for plugin in installed("convention"))
WORDS = (
    "harbour", "ferry", "ticket", "cabin", "deck", "night", "crossing", "wind", "delay", "captain", "crew",
    "luggage", "dog", "bicycle", "fare", "child", "meal", "coffee", "departs", "arrives", "costs", "takes",
    "carries", "holds", "opens", "closes", "allows", "needs", "early", "late", "cheap", "quiet", "northern",
    "island", "bridge",
)  # fmt: skip


def main() -> None:
    """Make the lines, time each stage, print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--traces", type=int, default=4000)
    asked.add_argument("--rounds", type=int, default=3)
    told = asked.parse_args()
    print(f"{'dialect':<16}{'bytes/trace':>12}{'stage':>22}{'traces/s':>12}{'x orjson.loads':>16}")
    for name, dialect in DIALECTS.items():
        pick = random.Random(7)
        lines = [line(dialect, at, pick) for at in range(told.traces)]
        stages: tuple[tuple[str, Callable[[list[bytes]], int]], ...] = (
            ("orjson.loads", parsed),
            ("decoded", decoded),
            ("decoded and read", heard),
            ("whole records", recorded),
        )
        floor = 0.0
        for stage, work in stages:
            spent = min(timed(work, lines) for _ in range(told.rounds))
            floor = floor or spent
            size = sum(map(len, lines)) / len(lines)
            print(f"{name:<16}{size:>12,.0f}{stage:>22}{len(lines) / spent:>12,.0f}{spent / floor:>16.2f}")


def timed(work: Callable[[list[bytes]], int], lines: list[bytes]) -> float:
    """Seconds of CPU for the lines; every line must give its trace."""
    began = time.process_time()
    found = work(lines)
    spent = time.process_time() - began
    assert found == len(lines)
    return spent


def parsed(lines: list[bytes]) -> int:
    """The floor: JSON to dicts and lists."""
    return sum(bool(orjson.loads(text)) for text in lines)


def traces(lines: list[bytes]) -> Iterator[Trace]:
    """The traces of the lines, each whole in its own."""
    decoder = Decoder()
    for text in lines:
        found = decoder.decode(text)
        assert found is not None
        yield Trace(Ref("otel", trace_id=found.spans[0].trace_id), tuple(found.spans))


def decoded(lines: list[bytes]) -> int:
    """Spans as groundtrace has them."""
    return sum(len(trace.spans) == 6 for trace in traces(lines))


def heard(lines: list[bytes]) -> int:
    """What the conventions say of every span that one of them knows; a database's and a client's are nobody's."""
    return sum(len(readings(trace, CONVENTIONS)) >= 4 for trace in traces(lines))


def recorded(lines: list[bytes]) -> int:
    """Records, whole: query, three passages, answer, two citations."""
    whole = 0
    for trace in traces(lines):
        (record,) = read(trace, CONVENTIONS)
        whole += (
            len(record.context) == 3 and len(record.citations) == 2 and not record.gaps and record.query is not None
        )
    return whole


# --- traces ---------------------------------------------------------------------------------------------------------


def sentence(pick: random.Random, words: int = 16) -> str:
    """A sentence nobody wrote before."""
    said = " ".join(pick.choices(WORDS, k=words))
    return f"{said.capitalize()} {pick.randrange(1000)}."


def line(dialect: Callable[[dict[str, Any]], list[dict[str, Any]]], at: int, pick: random.Random) -> bytes:
    """One trace as an exporter writes it."""
    told = {
        "question": f"When does the {sentence(pick, 5)[:-1].lower()} leave?",
        "passages": [" ".join(sentence(pick) for _ in range(3)) for _ in range(3)],
        "answer": f"{sentence(pick, 9)[:-1]} [2]. {sentence(pick, 9)[:-1]} [1].",
    }
    ident = hashlib.sha256(f"{at}".encode()).hexdigest()
    spans = []
    for number, span in enumerate(dialect(told)):
        attributes = [{"key": key, "value": _value(value)} for key, value in span["attributes"].items()]
        spans.append(
            {
                "traceId": ident[:32],
                "spanId": f"{int(ident[32:40], 16):08x}{number:08x}",
                **({"parentSpanId": f"{int(ident[32:40], 16):08x}{span['below']:08x}"} if number else {}),
                "flags": 256,
                "name": span["name"],
                "kind": 1,
                "startTimeUnixNano": str(1_767_225_600_000_000_000 + at * 1_000_000_000 + number * 1000),
                "endTimeUnixNano": str(1_767_225_600_900_000_000 + at * 1_000_000_000 - number * 1000),
                "attributes": attributes,
                "status": {"code": 1},
            }
        )
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "helpdesk"}}]}
    scoped = [{"scope": {"name": "openinference.instrumentation.langchain", "version": "0.1.80"}, "spans": spans}]
    return orjson.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scoped}]})


def _value(value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value}


def _prompt(told: dict[str, Any]) -> str:
    numbered = "\n\n".join(f"[{n}] (source: doc-{n}) {text}" for n, text in enumerate(told["passages"], start=1))
    return f"Answer from the documents and cite them as [n].\n\nDocuments:\n{numbered}\n\nQuestion: {told['question']}"


def openinference(told: dict[str, Any]) -> list[dict[str, Any]]:
    """LangChain under OpenInference's instrumentor: chain, retriever, embedding, prompt, call, parser."""
    documents: dict[str, Any] = {}
    for n, text in enumerate(told["passages"]):
        documents[f"retrieval.documents.{n}.document.content"] = text
        documents[f"retrieval.documents.{n}.document.metadata"] = json.dumps({"source": f"doc-{n + 1}"})
    reply, context = told["answer"], _prompt(told)
    filled = json.dumps({"question": told["question"], "context": context})
    call = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o-mini",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "You answer from the documents only.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": context,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": reply,
        "llm.invocation_parameters": '{"temperature": 0}',
        "llm.token_count.prompt": 321,
        "llm.token_count.completion": 45,
        "llm.token_count.total": 366,
    }
    kind = "openinference.span.kind"
    return [
        {
            "name": "RunnableSequence",
            "attributes": {
                kind: "CHAIN",
                "input.value": told["question"],
                "output.value": reply,
                "session.id": "s-1",
            },
        },
        {
            "name": "Retriever",
            "below": 0,
            "attributes": {kind: "RETRIEVER", "input.value": told["question"], **documents},
        },
        {
            "name": "OpenAIEmbeddings",
            "below": 1,
            "attributes": {kind: "EMBEDDING", "embedding.model_name": "text-embedding-3-small"},
        },
        {
            "name": "ChatPromptTemplate",
            "below": 0,
            "attributes": {kind: "PROMPT", "input.value": filled, "input.mime_type": "application/json"},
        },
        {"name": "ChatOpenAI", "below": 0, "attributes": call},
        {
            "name": "StrOutputParser",
            "below": 0,
            "attributes": {kind: "CHAIN", "input.value": reply, "output.value": reply},
        },
    ]


def genai(told: dict[str, Any]) -> list[dict[str, Any]]:
    """A hand-written application under the GenAI conventions: agent, retrieval, embeddings, database, call, HTTP."""
    listed = [{"id": f"doc-{n}", "content": text, "score": 0.5} for n, text in enumerate(told["passages"], start=1)]
    asked = [{"role": "user", "parts": [{"type": "text", "content": _prompt(told)}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": told["answer"]}], "finish_reason": "stop"}]
    user = [{"role": "user", "parts": [{"type": "text", "content": told["question"]}]}]
    named = "gen_ai.operation.name"
    return [
        {
            "name": "invoke_agent helpdesk",
            "attributes": {
                named: "invoke_agent",
                "gen_ai.agent.name": "helpdesk",
                "gen_ai.conversation.id": "s-1",
                "gen_ai.input.messages": json.dumps(user),
                "gen_ai.output.messages": json.dumps(said),
            },
        },
        {
            "name": "retrieval kb",
            "below": 0,
            "attributes": {
                named: "retrieval",
                "gen_ai.data_source.id": "kb",
                "gen_ai.retrieval.query.text": told["question"],
                "gen_ai.retrieval.documents": json.dumps(listed),
            },
        },
        {
            "name": "embeddings text-embedding-3-small",
            "below": 1,
            "attributes": {named: "embeddings", "gen_ai.request.model": "text-embedding-3-small"},
        },
        {
            "name": "SELECT",
            "below": 1,
            "attributes": {
                "db.system.name": "postgresql",
                "db.query.text": "SELECT id, body FROM docs ORDER BY v <-> $1",
            },
        },
        {
            "name": "chat gpt-4o-mini",
            "below": 0,
            "attributes": {
                named: "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-4o-mini",
                "gen_ai.response.model": "gpt-4o-mini",
                "gen_ai.response.id": "chatcmpl-1",
                "gen_ai.usage.input_tokens": 321,
                "gen_ai.usage.output_tokens": 45,
                "gen_ai.input.messages": json.dumps(asked),
                "gen_ai.output.messages": json.dumps(said),
            },
        },
        {
            "name": "POST",
            "below": 4,
            "attributes": {
                "http.request.method": "POST",
                "server.address": "api.openai.com",
                "url.full": "https://api",
            },
        },
    ]


def mixed(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Two vocabularies in one trace: OpenInference around a call whose messages are GenAI's."""
    kind = "openinference.span.kind"
    found: dict[str, Any] = {}
    for n, text in enumerate(told["passages"]):
        where = f"retrieval.documents.{n}.document"
        found |= {f"{where}.content": text, f"{where}.id": f"doc-{n + 1}", f"{where}.score": 0.5}
    asked = [{"role": "user", "parts": [{"type": "text", "content": _prompt(told)}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": told["answer"]}]}]
    call = {
        kind: "LLM",
        "llm.model_name": "gpt-4o",
        "llm.token_count.prompt": 812,
        "llm.token_count.completion": 61,
        "gen_ai.input.messages": json.dumps(asked),
        "gen_ai.output.messages": json.dumps(said),
    }
    return [
        {"name": "rag", "attributes": {kind: "CHAIN", "input.value": told["question"], "output.value": told["answer"]}},
        {"name": "retrieve", "below": 0, "attributes": {kind: "RETRIEVER", "input.value": told["question"], **found}},
        {"name": "embed", "below": 1, "attributes": {kind: "EMBEDDING", "embedding.model_name": "e"}},
        {"name": "rerank", "below": 0, "attributes": {kind: "RERANKER", "reranker.top_k": 3}},
        {"name": "prompt", "below": 0, "attributes": {kind: "CHAIN"}},
        {"name": "llm", "below": 0, "attributes": call},
    ]


DIALECTS = {"openinference": openinference, "genai": genai, "mixed": mixed}

if __name__ == "__main__":
    main()
