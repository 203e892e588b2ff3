"""A small RAG app traced with Braintrust's SDK; run it, and each of its answers is a trace of your project.

    BRAINTRUST_API_KEY=... python my_app.py

Then `groundtrace run braintrust:bike-desk --sample 1` puts scores on all of them. The project is made with the first
trace, and is called what BRAINTRUST_PROJECT says.
"""

from __future__ import annotations

import os
from typing import Any

from braintrust import current_span, init_logger, traced

RULES = {
    "returns": "Bikes come back by 7 p.m. Every hour after that costs 4 euros.",
    "damage": "A flat tyre is mended on the spot and costs 9 euros. A lost key costs 25 euros.",
    "deposit": "The deposit is 50 euros. It is given back within two days, less what is owed.",
}
QUESTIONS = {
    "What does it cost to bring a bike back late?": (
        ("returns", "damage"),
        "Every hour after 7 p.m. costs 4 euros [1].",
    ),
    "What happens if I lose the key?": (
        ("damage", "deposit"),
        "A lost key costs 25 euros [1]. You can have another bike free of charge.",
    ),
    "When is my deposit given back?": (("returns", "deposit"), "Within two days, less what is owed [1]."),
}
"""What is asked, what is retrieved, what is answered: the second answer makes something up, the third cites wrongly."""


@traced(type="tool")
def search(question: str) -> list[dict[str, str]]:
    """Passages as they were retrieved: a list of objects with a text is what tells a reader that they are passages."""
    return [{"id": name, "text": RULES[name]} for name in QUESTIONS[question][0]]


@traced(type="llm", notrace_io=True)
def generate(messages: list[dict[str, str]], question: str) -> str:
    """What a model would say; of a wrapped client (`wrap_openai`) the SDK traces the same by itself."""
    said = QUESTIONS[question][1]
    message = {"role": "assistant", "content": said}
    current_span().log(input=messages, output=[{"index": 0, "message": message}], metadata={"model": "scripted"})
    return said


@traced(name="bike desk")
def answer(question: str) -> str:
    """Retrieve, then generate; what stands in the metadata of the first span can be a chart's groups."""
    current_span().log(metadata={"prompt_version": "7"})
    numbered = "\n".join(f"[{n}] {found['text']}" for n, found in enumerate(search(question), start=1))
    prompt = f"Answer from these documents.\n\nDocuments:\n{numbered}\n\nQuestion: {question}"
    return generate([{"role": "user", "content": prompt}], question)


def main() -> None:
    """Ask each question once, and send the traces."""
    logger: Any = init_logger(project=os.environ.get("BRAINTRUST_PROJECT") or "bike-desk")
    for asked in QUESTIONS:
        print(answer(asked))
    logger.flush()


if __name__ == "__main__":
    main()
