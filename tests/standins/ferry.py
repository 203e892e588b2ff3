"""One question as the judge's door will have it, which the tests of the stand-in put to every provider."""

from __future__ import annotations

import secrets
from typing import Any

import groundtrace
from groundtrace.evaluate import parse
from groundtrace.model import Case
from groundtrace.rubrics.rag_faithfulness import FaithfulnessVerdict

RUBRIC = groundtrace.rubric("rag_faithfulness")
RECORD = groundtrace.record(
    query="When does the night ferry leave?",
    context=["The night ferry leaves at 21:40 every day except Sunday.", "Bicycles travel free of charge."],
    answer="The night ferry leaves at 21:40 except on Sundays [1].",
)


def case() -> Case:
    """A question, as the judge's door will have it."""
    (made,) = RUBRIC.cases(RECORD, frozenset())
    assert isinstance(made, Case)
    return made


def turns() -> list[dict[str, str]]:
    """The question as chat messages."""
    asked = case()
    user = asked.render(secrets.token_hex(8))
    return [{"role": "system", "content": asked.prefix}, {"role": "user", "content": user}]


def closed(schema: Any) -> Any:
    """A schema as structured outputs want it: objects closed, every field required, no bounds."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    bounds = ("title", "default", "minimum", "maximum", "minLength")
    made = {name: closed(value) for name, value in schema.items() if name not in bounds}
    if "properties" in made:
        made |= {"additionalProperties": False, "required": list(made["properties"])}
    return made


def stands(text: str | None) -> None:
    """A reply the gate takes whole."""
    assert text is not None
    told, _ = parse(text)
    verdict = FaithfulnessVerdict.model_validate(told)
    finding = RUBRIC.finding(RECORD, case(), verdict, frozenset())
    assert finding.value is not None
