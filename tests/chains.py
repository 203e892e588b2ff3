"""An application of LangChain's and one of LangGraph's, with a retriever and a model that always says the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, RunnablePassthrough
from langgraph.graph import END, START, StateGraph

Ask = Callable[[str, RunnableConfig], object]
"""Answers a question, traced as the config says."""


class Runs(BaseCallbackHandler):
    """Counts what is traced."""

    def __init__(self) -> None:
        self.begun = 0

    def _count(self, *_: Any, **__: Any) -> None:
        self.begun += 1

    on_chain_start = on_chat_model_start = on_retriever_start = on_llm_start = on_tool_start = _count


class State(TypedDict, total=False):
    """What a graph hands from node to node."""

    question: str
    documents: list[Document]
    answer: str


def applications(passage: str, answer: str) -> tuple[Ask, Ask]:
    """A chain and a graph that find this passage first, and give this answer."""

    class Ferries(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return [Document(page_content=passage), Document(page_content=f"About {query}", metadata={"id": query})]

    search, model = Ferries(), FakeListChatModel(responses=[answer])
    prompt = ChatPromptTemplate.from_messages([("system", "Answer from these: {context}"), ("user", "{question}")])
    chain = {"context": search, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()

    def retrieve(state: State, config: RunnableConfig) -> State:
        return {"documents": search.invoke(state["question"], config)}

    def generate(state: State, config: RunnableConfig) -> State:
        context = "\n".join(f"[{n}] {found.page_content}" for n, found in enumerate(state["documents"], start=1))
        said = (prompt | model).invoke({"context": context, "question": state["question"]}, config)
        return {"answer": str(said.content)}

    graph = StateGraph(State)
    graph.add_node("retrieve", retrieve)
    graph.add_node("generate", generate)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "generate")
    graph.add_edge("generate", END)
    compiled = graph.compile()
    return (
        chain.invoke,
        lambda question, config: compiled.invoke({"question": question}, config),
    )
