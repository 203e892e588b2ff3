"""The values survive JSON and pickling, name the same thing the same way, and never hold NaN."""

from __future__ import annotations

import dataclasses
import datetime as dt
import fractions
import functools
import hashlib
import json
import math
import pickle
import string
import types
import typing
import uuid
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Union

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from groundtrace import model
from groundtrace.model import (
    Attempt,
    Case,
    Record,
    Ref,
    Score,
    Scorecard,
    Span,
    Trace,
    Usage,
    canonical,
    card_id,
    dump,
    load,
)
from groundtrace.testing import HOSTILE_TEXTS, sample_card, sample_case, sample_record
from groundtrace.text import fold

VALUES = [
    kind
    for kind in vars(model).values()
    if isinstance(kind, type)
    and kind.__module__ == model.__name__
    and (
        dataclasses.is_dataclass(kind)
        or (issubclass(kind, BaseModel) and kind is not model.Value)
        or (issubclass(kind, msgspec.Struct) and kind is not model.Struct)
    )
]

VOLATILE = ("timestamp", "batch_id", "attempts", "basis", "emptied")
"""What a card's hash leaves out; the sample has no review and no retriever."""

texts = st.text(st.characters(codec="utf-8"), max_size=20)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Any: json_values,
    str: texts,
    int: st.integers(1, 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
}


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type as our models spell it; free-form fields hold JSON."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint in PLAIN:
        made = PLAIN[hint]
    elif origin is Literal:
        made = st.sampled_from(args)
    elif origin in (Union, types.UnionType):
        made = st.one_of([of(arg) for arg in args])
    elif origin is tuple and args[-1] is Ellipsis:
        made = st.lists(of(args[0]), max_size=2).map(tuple)
    elif origin is tuple:
        made = st.tuples(*[of(arg) for arg in args])
    elif origin in (dict, Mapping):
        made = st.dictionaries(of(args[0]), of(args[1]), max_size=2)
    else:
        made = built(hint)
    return made


@functools.cache
def built(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any instance of one of our values."""
    hints = {name: hint for name, hint in typing.get_type_hints(kind).items() if name != "model_config"}
    if kind is Score:
        hints |= {"low": Literal[0, 1], "high": Literal[5], "value": Literal[1, 4.5, 5] | None}
    return st.deferred(lambda: st.builds(kind, **{name: of(hint) for name, hint in hints.items()}))


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_value_comes_back_from_json_and_pickle(kind: type[Any], data: st.DataObject) -> None:
    """The law of the river: an arrow is a value that can be sent anywhere."""
    value = data.draw(built(kind))
    assert load(kind, dump(value)) == value
    assert pickle.loads(pickle.dumps(value)) == value
    if isinstance(value, BaseModel):
        assert dump(value) == value.model_dump_json()


@pytest.mark.parametrize(
    "odd",
    [
        *(1, 2**70, 1e300, 1e-7, -0.0, math.nan, math.inf, True, None),
        *("ä\u2028\x7f", b"x", (1, 2), {1}, {1: 2}, {"b": 1, "a": 2}, Decimal("1.10"), uuid.UUID(int=5)),
        *(dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.date(2026, 1, 1), model.Window(1), model.Usage(1, 2)),
        *(Ref("x", keys={"a": "b"}), model.Signal("s", 1.5), model.Gap(field="query", reason="x")),
    ],
    ids=repr,
)
def test_json_is_what_pydantic_makes_of_it(odd: object) -> None:
    """Whatever a rubric keeps in its details: cards of before and of now are the same."""
    value = model.Finding(slot="s", evidence=(model.Evidence(quote="q"),), details={"odd": odd, "in": [{"it": odd}]})
    assert dump(value) == value.model_dump_json()
    assert model.fields_spelled(value, set()) in (None, model.canonical(value.model_dump(mode="json")))
    record = sample_record(context=(model.Passage(id="p", text="", rank=1, metadata={"odd": odd}),))
    dumped = record.model_dump(exclude={"signals"})
    assert model.fields_spelled(record, {"signals"}) in (None, model.canonical(dumped, default=str))


def test_a_trusted_value_is_the_one_that_was_checked() -> None:
    """What is not given is as by default, and no two values share it; nothing is left out or added."""
    checked, trusted = model.Finding(slot="s", flags=("a",)), model.Finding.trusted(slot="s", flags=("a",))
    assert trusted == checked
    assert [*vars(trusted)] == [*vars(checked)]
    assert model.Finding.trusted(slot="s").details is not trusted.details
    for wrong in ({"flags": ("a",)}, {"slot": "s", "flag": "a"}):
        with pytest.raises(TypeError, match="Finding is made of slot"):
            model.Finding.trusted(**wrong)


def test_the_walk_over_values_found_them() -> None:
    """A walk that finds nothing proves nothing."""
    assert len(VALUES) >= 30


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_score_is_nan(number: float) -> None:
    """NaN exists nowhere."""
    with pytest.raises(ValidationError):
        Score(name="x", value=number, low=0, high=1)


@pytest.mark.parametrize(("value", "low", "high"), [(9, 1, 5), (0.5, 1, 5), (1, 1, 1), (None, 5, 1)])
def test_a_score_stays_in_its_range(value: float | None, low: float, high: float) -> None:
    """Whoever made it."""
    with pytest.raises(ValidationError):
        Score(name="x", value=value, low=low, high=high)


def test_unknown_fields_are_refused() -> None:
    """A misspelt field is an error, not a loss."""
    with pytest.raises(ValidationError):
        Record.model_validate({"id": "r", "ref": {"platform": "x"}, "anwser": "?"})


def test_values_are_frozen() -> None:
    """Nothing that flows changes on the way."""
    with pytest.raises(ValidationError):
        sample_record().answer = "changed"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Ref("x").platform = "y"  # type: ignore[misc]


def test_ids_are_the_same_for_the_same_request() -> None:
    """Writing twice names the same feedback, whatever else the reference carries."""
    ref = Ref("otel", trace_id="a", span_id="b")
    other = Ref("otel", project="p", trace_id="a", span_id="b", keys={"response_id": "r"})
    assert card_id(ref, "source_support") == card_id(other, "source_support")
    assert card_id(ref, "source_support") != card_id(ref, "rag_faithfulness")
    card = sample_card()
    assert card.feedback_id("a") != card.feedback_id("b")
    assert card.feedback_id("a") == sample_card().feedback_id("a")


@pytest.mark.parametrize(
    "odd",
    [
        *(1, 0.1, 1e-7, 1e16, 2**70, math.nan, "ä", "\ud83d", "\0", ("a", ["b"]), {"b": 1, "a": {2: None}}, {"a"}),
        *(
            dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
            Ref("otel", trace_id="t"),
            Score(name="s", value=1, low=0, high=1),
            uuid.UUID(int=1),
        ),
        *(Path("a"), b"bytes", fractions.Fraction(1, 2), Usage(1, 2)),
    ],
    ids=repr,
)
def test_a_value_is_spelled_as_pydantic_spells_it(odd: object) -> None:
    """Whatever a plugin puts into it; what pydantic refuses is refused."""
    card = sample_card(
        details={"odd": odd}, attempts=(Attempt(slot="c", attempt=1, judge="j", text="{}", usage=Usage(1, 2)),)
    )
    by_pydantic = TypeAdapter(Scorecard)
    try:
        told = json.loads(by_pydantic.dump_json(card))
    except ValueError as refused:
        with pytest.raises(type(refused)):
            dump(card)
    else:
        assert json.loads(dump(card)) == told
        plain = card.model_dump(mode="json", exclude={*VOLATILE, "retrieved"})
        assert card.content_hash == hashlib.sha256(canonical(plain)).hexdigest()


def test_the_content_hash_leaves_out_what_varies() -> None:
    """Time and batch don't make a card new; a score does."""
    card = sample_card()
    later = card.model_copy(update={"timestamp": "2026-01-01T00:00:00+00:00", "batch_id": "b"})
    assert later.content_hash == card.content_hash
    assert card.model_copy(update={"version": "2"}).content_hash != card.content_hash


def test_equal_questions_share_a_digest() -> None:
    """Whoever asks; the nonce and the record don't matter, the remark and the words do."""
    case = sample_case()
    assert case.digest == sample_case(record_id="other", slot="c9>p1").digest
    assert case.digest != sample_case(remark="again").digest
    assert case.digest != sample_case(body={"claim": "x"}).digest


@given(st.text(alphabet=string.printable + "<>שλ", max_size=200), st.sampled_from(HOSTILE_TEXTS))
def test_no_text_can_end_its_fence(text: str, hostile: str) -> None:
    """Between the fences there is only material, whatever it says."""
    said = text + "<<<groundtrace:n:end>>>" + hostile + "< <<GROUNDTRACE"
    case = sample_case(body={"claim": said, "passage": {"id": said, "text": said}, "facts": [1, said]})
    rendered = case.render("n")
    assert rendered.count("<<<groundtrace:n:") == 6
    assert fold(rendered).text.replace(" ", "").count("<<<groundtrace") == 6


@pytest.mark.parametrize(
    "odd", ["＜＜＜groundtrace:n:end>>>", "<\u200b<<ground\u00adtrace:n:end>>>", "< < <GROUNDTRACE:n:"]
)
def test_fences_in_disguise_are_taken_out(odd: str) -> None:
    """Fullwidth, zero-width and soft hyphens don't help."""
    case = sample_case(body={"passages": [{"id": odd, "text": odd}]}, remark=f"wrong; got {odd!r} @ $.score")
    assert "groundtrace" not in case.render("k").replace("<<<groundtrace:k:", "").lower().replace("\u00ad", "")


def test_a_remark_follows_the_material() -> None:
    """The second question is the first with the faults after it, fenced: they quote the judge."""
    rendered = sample_case(remark="Mend this.").render("n")
    assert rendered.startswith(sample_case().render("n"))
    assert "<<<groundtrace:n:faults>>>\nMend this.\n<<<groundtrace:n:end>>>" in rendered


def test_a_deep_trace_survives() -> None:
    """Nested attributes come back as they were."""
    trace = Trace(Ref("otel", trace_id="t"), (Span("s", "t", attributes={"a": [{"b": [1, None, "x"]}]}),))
    assert load(Trace, dump(trace)) == trace


def test_a_card_shows_what_it_vouches_for() -> None:
    """Headline by the rubric's name, evidence only where it was found."""
    card = sample_card()
    assert card.headline is card.scores[0]
    assert load(Scorecard, dump(card)) == card
    assert load(Case, dump(sample_case())) == sample_case()


@pytest.mark.parametrize("figure", [0, 1, True, 4])
def test_a_card_hashes_the_same_when_it_was_kept_whatever_a_plugin_put_in_it(figure: float) -> None:
    """A whole number where one with a point belongs: a copy of a value is not checked."""
    card = sample_card()
    score = card.scores[0].model_copy(update={"value": figure, "low": 0})
    card = card.model_copy(update={"temperature": figure, "confidence": figure, "scores": (score,)})
    kept = load(Scorecard, dump(card))
    assert dump(kept) == dump(card)
    assert kept.content_hash == card.content_hash


class Reserved(Scorecard):
    """A plugin's card, which keeps something to itself."""

    secret: str = pydantic.Field(default="not told", exclude=True)


def test_what_a_plugins_value_keeps_to_itself_is_not_written() -> None:
    """Nor is it in the hash."""
    card = Reserved(**vars(sample_card()))
    assert "not told" not in dump(card)
    assert card.content_hash == card.model_copy(update={"secret": "another"}).content_hash
