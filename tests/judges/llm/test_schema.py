"""A rubric's schema as providers take it, and the ones that can't be said that way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import groundtrace
from groundtrace.judges.llm.client import Question
from groundtrace.judges.llm.schema import Kept, label, strict

RUBRICS = ("source_support", "factual_accuracy", "rag_faithfulness", "summary_groundedness")
KNOWN = {"type", "properties", "required", "items", "enum", "anyOf", "$ref", "$defs", "description"}


def walk(schema: Any) -> list[dict[str, Any]]:
    """Every schema in a schema."""
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", [])]
    inner += [schema["items"]] if "items" in schema else []
    return [schema, *(deeper for one in inner for deeper in walk(one))]


@pytest.mark.parametrize("name", RUBRICS)
def test_every_rubric_can_be_held_to(name: str) -> None:
    """All four are closed, in the shared words, with their fields in the rubric's own order."""
    told = groundtrace.rubric(name).schema(frozenset()).model_json_schema()
    made = strict(told)
    assert made is not None
    for one in walk(made):
        assert not one.keys() - KNOWN - {"additionalProperties"}
        assert one.keys() == {"$ref"} or "type" in one or "anyOf" in one
        if one.get("type") == "object":
            assert one["additionalProperties"] is False
            assert one["required"] == list(one["properties"])
    assert list(made["properties"]) == list(told["properties"])
    assert "minimum" in str(told) or "'ge'" in str(told)  # there was something to leave out


def test_what_may_be_left_out_may_be_null() -> None:
    """An optional field is asked for and may be null; one that may be null already stays as it is."""
    text, note = {"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    listed = {"type": ["integer", "null"]}
    made = strict({"type": "object", "properties": {"a": text, "b": note, "c": listed, "d": {"enum": ["x"]}}})
    assert made is not None
    nullable = {"anyOf": [text, {"type": "null"}]}
    choice = {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}]}
    assert made["properties"] == {"a": nullable, "b": nullable, "c": listed, "d": choice}
    assert made["required"] == ["a", "b", "c", "d"]


def test_enums_say_their_type() -> None:
    """Whole numbers beside others are numbers, a constant is an enum of one."""
    fields = {"score": {"enum": [1, 0.5, 0, None]}, "kind": {"const": "x"}, "yes": {"enum": [True]}}
    made = strict({"type": "object", "properties": fields, "required": list(fields)})
    assert made is not None
    assert made["properties"]["score"] == {"type": ["number", "null"], "enum": [1, 0.5, 0, None]}
    assert made["properties"]["kind"] == {"type": "string", "enum": ["x"]}
    assert made["properties"]["yes"] == {"type": "boolean", "enum": [True]}


@pytest.mark.parametrize(
    "field",
    [
        {}, True, {"type": "object"}, {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array"}, {"type": "array", "prefixItems": [{"type": "string"}]}, {"enum": [{}]}, {"enum": []},
        {"allOf": [{"type": "string"}, {"type": "string"}]}, {"type": "string", "not": {"enum": ["x"]}},
    ],
)  # fmt: skip
def test_what_cannot_be_said(field: Any) -> None:
    """A free object, anything at all, a tuple: the schema is then sent as it is, not held to."""
    assert strict({"type": "object", "properties": {"field": field}, "required": ["field"]}) is None


def test_what_is_no_object() -> None:
    """Providers want an object at the top."""
    assert strict({"type": "string"}) is None
    assert strict({"anyOf": [{"type": "string"}]}) is None


def test_names() -> None:
    """Never empty, never too long."""
    assert label("a b") == "a_b"
    assert label("") == "verdict"
    assert len(label("x" * 200)) == 64


def test_what_is_equal_is_made_once() -> None:
    """Also where a rubric makes an equal schema anew; another schema, mode or temperature is another."""
    made: list[Question] = []

    def make(question: Question) -> int:
        made.append(question)
        return len(made)

    kept = Kept(make)
    schemas = [{"type": "object"}, {"type": "object"}, {"type": "string"}]
    asked = [Question("p", str(n), schema, "v") for n, schema in enumerate(schemas)]
    assert [kept.of(one) for one in [*asked, *asked]] == [1, 1, 2, 1, 1, 2]
    assert kept.of(Question("p", "", schemas[0], "v", "json")) == 3
    assert kept.of(Question("p", "", schemas[0], "v", temperature=0.0)) == 4
    kept.forget()
    assert kept.of(asked[0]) == 5
    for n in range(200):
        kept.of(Question("p", "", {"n": n}, "v"))
    assert sum(map(len, kept._made.values())) <= 66  # it stays small


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(sorted(KNOWN | {"allOf"})), inner, max_size=4
    ),
    max_leaves=12,
)  # fmt: skip


@given(json)
def test_nothing_breaks_it(field: Any) -> None:
    """Whatever a user's schema holds, it is closed or declined."""
    made = strict({"type": "object", "properties": {"field": field}})
    assert made is None or made["required"] == ["field"]
