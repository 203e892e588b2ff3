"""A small RAG app traced with LangSmith's SDK; run it, and each of its answers is a trace of your project.

    LANGSMITH_TRACING=true LANGSMITH_API_KEY=... LANGSMITH_PROJECT=tent-desk python my_app.py

Then `groundtrace run langsmith:tent-desk --sample 1` puts scores on all of them.
"""

from __future__ import annotations

from langsmith import traceable

HANDBOOK = {
    "drying": "Dry the tent for at least 24 hours before packing it. Mould forms within three days in a damp bag.",
    "poles": "The poles are made of aluminium 7001. A bent pole can be sent in for repair; this costs 18 euros.",
    "warranty": "The warranty covers faults in material for two years. Damage by storms is not covered.",
}
QUESTIONS = {
    "How long should I dry the tent?": (
        ("drying", "poles"),
        "Dry it for at least 24 hours before packing it [1].",
    ),
    "What does a bent pole cost?": (("poles", "warranty"), "A repair costs 18 euros [1]. It takes five working days."),
    "Are storms covered?": (("warranty", "drying"), "No, damage by storms is not covered by the warranty [2]."),
}
"""What is asked, what is retrieved, what is answered: the second answer makes something up, the third cites wrongly."""


@traceable(run_type="retriever")
def search(question: str) -> list[dict[str, str]]:
    """Passages as they were retrieved. The run type is what tells a reader of the trace that they are passages."""
    return [{"id": name, "page_content": HANDBOOK[name]} for name in QUESTIONS[question][0]]


@traceable(run_type="llm")
def generate(messages: list[dict[str, str]], question: str) -> dict[str, str]:
    """What a model would say; of a wrapped client (`wrap_openai`) the SDK traces the same by itself."""
    return {"role": "assistant", "content": QUESTIONS[question][1] if messages else ""}


@traceable(name="tent desk")
def answer(question: str) -> dict[str, str]:
    """Retrieve, then generate."""
    numbered = "\n".join(f"[{n}] {found['page_content']}" for n, found in enumerate(search(question), start=1))
    prompt = f"Answer from these documents.\n\nDocuments:\n{numbered}\n\nQuestion: {question}"
    return {"answer": generate([{"role": "user", "content": prompt}], question)["content"]}


if __name__ == "__main__":
    for asked in QUESTIONS:
        print(answer(asked)["answer"])
