"""Applications whose traces the real SDK writes to the stand-in for Braintrust, one of each way there is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import braintrust
import openai
import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from opentelemetry.sdk.trace import TracerProvider

from braintrust_pulling import DOCUMENT, PROJECT, Stand

WAYS = ("traced", "openai", "langchain", "otel")
QUESTION = "When does the ferry of town {n} leave?"
ANSWER = "It leaves at 21:40 [1]."


@contextmanager
def installed(stand: Stand, monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[None]:
    """The SDK, which writes to the stand-in and knows nothing of this machine."""
    for name in [name for name in os.environ if name.startswith(("BRAINTRUST_", "OTEL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    told = {"API_KEY": "sk-test", "APP_URL": stand.url, "API_URL": stand.url, "PARENT": f"project_name:{PROJECT}"}
    for name, value in {**told, "DISABLE_ATEXIT_FLUSH": "1"}.items():
        monkeypatch.setenv(f"BRAINTRUST_{name}", value)
    braintrust.logger._internal_reset_global_state()
    try:
        yield
    finally:
        braintrust.logger._internal_reset_global_state()


def write(count: int, model_url: str) -> None:
    """As many traces as that, of each way in turn; all of them are sent."""
    logger = braintrust.init_logger(project=PROJECT)
    writers = {"traced": traced, "openai": wrapped(model_url), "langchain": chain(logger), "otel": exported()}
    for n in range(count):
        writers[WAYS[n % len(WAYS)]](QUESTION.format(n=n))
    logger.flush()
    writers["otel"].provider.shutdown()


@braintrust.traced(name="retrieve", type="tool")
def retrieve(query: str) -> list[dict[str, Any]]:
    """What the ferries' timetable says."""
    return [DOCUMENT, {"id": "d2", "text": f"About: {query}", "score": 0.4}]


@braintrust.traced(name="answer")
def traced(question: str) -> str:
    """Answers, as a function the SDK traces."""
    retrieve(question)
    return ANSWER


def wrapped(model_url: str) -> Any:
    """The same, with OpenAI's client wrapped."""
    client = braintrust.wrap_openai(openai.OpenAI(api_key="k", base_url=model_url, max_retries=0))

    @braintrust.traced(name="ask")
    def ask(question: str) -> str:
        found = "\n".join(one["text"] for one in retrieve(question))
        told = [{"role": "system", "content": f"Use: {found}"}, {"role": "user", "content": question}]
        return str(client.chat.completions.create(model="gpt-5.2", messages=told).choices[0].message.content)

    return ask


class Timetable(BaseRetriever):
    """A retriever of LangChain's."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [Document(id="d1", page_content=DOCUMENT["text"]), Document(id="d2", page_content=f"About: {query}")]


def chain(logger: Any) -> Any:
    """The same, with LangChain and the SDK's callback handler."""
    from braintrust.integrations.langchain import BraintrustCallbackHandler

    told = ChatPromptTemplate.from_messages([("system", "Use: {context}"), ("human", "{question}")])
    model = GenericFakeChatModel(messages=iter(lambda: AIMessage(ANSWER), None))
    steps = {"context": Timetable(), "question": RunnablePassthrough()} | told | model

    def ask(question: str) -> str:
        handler = BraintrustCallbackHandler(logger)
        return str(steps.invoke(question, config={"callbacks": [handler], "tags": ["prod"]}).content)

    return ask


class exported:  # noqa: N801 - called as the others are
    """The same, with spans of OpenTelemetry and the SDK's processor."""

    def __init__(self) -> None:
        from braintrust.otel import BraintrustSpanProcessor

        self.provider = TracerProvider()
        self.provider.add_span_processor(BraintrustSpanProcessor())
        self._tracer = self.provider.get_tracer("ferries")

    def __call__(self, question: str) -> str:
        with self._tracer.start_as_current_span("answer") as top:
            top.set_attribute("braintrust.input_json", json.dumps({"question": question}))
            with self._tracer.start_as_current_span("retrieve") as span:
                span.set_attribute("braintrust.span_attributes", json.dumps({"type": "tool", "name": "retrieve"}))
                span.set_attribute("braintrust.input_json", json.dumps({"query": question}))
                span.set_attribute("braintrust.output_json", json.dumps([DOCUMENT]))
            with self._tracer.start_as_current_span("chat gpt-5.2") as call:
                told = [{"role": "user", "parts": [{"type": "text", "content": f"{DOCUMENT['text']} {question}"}]}]
                said = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"}]
                call.set_attribute("gen_ai.operation.name", "chat")
                call.set_attribute("gen_ai.request.model", "gpt-5.2")
                call.set_attribute("gen_ai.input.messages", json.dumps(told))
                call.set_attribute("gen_ai.output.messages", json.dumps(said))
            top.set_attribute("braintrust.output_json", json.dumps(ANSWER))
        return ANSWER
