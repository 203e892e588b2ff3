"""`name:argument,option=value` becomes an object, or a PlanError that says what to change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

import neighbours
from groundtrace.errors import PlanError
from groundtrace.plugins import Plugin, Spec, installed, load, name_of

Install: TypeAlias = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package of tests/plugins for one test."""
    return lambda name: neighbours.install(name, tmp_path, monkeypatch)


def test_every_kind_has_its_built_ins_and_they_come_through_the_door_everyone_uses() -> None:
    """Ours are found the way other people's are."""
    ours = {(p.kind, p.name) for p in installed() if p.distribution == "groundtrace"}
    assert {
        ("source", "otel"),
        ("source", "jsonl"),
        ("sink", "otel"),
        ("sink", "jsonl"),
        ("convention", "genai"),
        ("convention", "openinference"),
        ("convention", "record"),
        ("rubric", "rag_faithfulness"),
        ("rubric", "source_support"),
        ("judge", "offline"),
    } <= ours


def test_every_built_in_keeps_the_promises_of_its_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each can be made by name and has every attribute its port asks for."""
    (tmp_path / "x.jsonl").write_text('{"answer": "x"}\n', encoding="utf-8")
    for provider in ("OPENAI", "ANTHROPIC", "GEMINI"):
        monkeypatch.setenv(f"{provider}_API_KEY", "a-key-of-the-tests")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    arguments = {"source": f":{tmp_path / 'x.jsonl'}", "sink": f":{tmp_path}/out", "judge": ":a-model"}
    backend = ":http://127.0.0.1:4318"
    named = {"offline": "", "otlp": backend, "otlp-metrics": backend, "prometheus": f":{tmp_path / 'x.prom'}"}
    for plugin in installed():
        if plugin.distribution == "groundtrace":
            argument = named.get(plugin.name, arguments.get(plugin.kind, ""))
            assert load(plugin.kind, plugin.name + argument)


def test_a_neighbours_plugins_are_listed_with_their_distribution_and_version(install: Install) -> None:
    """Who brought what can be seen without importing it."""
    install("neighbour")
    found = [p for p in installed("judge") if p.name == "silent"]
    assert found == [Plugin("silent", "judge", "groundtrace-neighbour", "1.2.0", "groundtrace_neighbour:SilentJudge")]


def test_a_neighbours_plugin_is_made_with_its_argument_and_its_options_converted(install: Install) -> None:
    """Numbers and yes or no arrive as the factory declares them."""
    install("neighbour")
    judge = load("judge", "silent:gpt:5,patience=2.5,stern=yes,tries=3")
    assert (judge.model, judge.patience, judge.stern, judge.tries) == ("gpt:5", 2.5, True, 3)


def test_a_table_says_the_same_as_a_string(install: Install) -> None:
    """A plan file may write either."""
    install("neighbour")
    table = {"use": "silent", "argument": "gpt:5", "patience": 2.5, "stern": True, "tries": 3}
    assert vars(load("judge", table)) == vars(load("judge", "silent:gpt:5,patience=2.5,stern=yes,tries=3"))


def test_an_argument_is_converted_too_and_may_be_left_out_where_it_has_a_default(install: Install) -> None:
    """The argument is a parameter like any other."""
    install("neighbour")
    assert load("source", "neighbour:7").count == 7
    assert load("source", "neighbour").count == 3
    assert load("source", "neighbour,fail_after=2").fail_after == 2


def test_a_comma_starts_an_option_only_where_the_factory_declares_it(install: Install) -> None:
    """Everything else with a comma belongs to what stands before it."""
    install("neighbour")
    assert load("judge", "silent:a,b=c,patience=3").model == "a,b=c"
    assert load("judge", r"silent:a\,patience=3").model == "a,patience=3"
    assert load("judge", r"silent:a\,stern=3,stern=no").stern is False


def test_any_argument_survives_once_its_commas_are_escaped(install: Install) -> None:
    """There is a way to write every argument."""
    install("neighbour")

    @given(model=st.text(st.characters(exclude_characters="\\"), min_size=1))
    def survives(model: str) -> None:
        assert load("judge", "silent:" + model.replace(",", "\\,")).model == model

    survives()


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("silnt:m", "judge: 'silnt' is not installed; did you mean 'silent'?"),
        ("silent", "judge: 'silent' needs an argument; write silent:MODEL"),
        ("silent:", "judge: 'silent:' needs an argument; write silent:MODEL"),
        ("offline:gpt", "judge: 'offline:gpt' takes no argument; write offline"),
        ("silent:m,patience=soon", "judge silent, patience: 'soon' does not fit: is no number"),
        ("silent:m,patience=nan", "judge silent, patience: 'nan' does not fit: is no finite number"),
        ("silent:m,patiense=3", "judge silent: 'patiense' is no option of it; did you mean 'patience'?"),
        ("silent:m,tries=1,tries=2", "judge silent: 'tries' is given twice"),
        ("silent,model=m", "judge silent: 'model' is no option of it"),
        ({"use": "silent", "argument": "m", "patence": 3}, "did you mean 'patience'? Valid: patience, stern, tries"),
        ({"name": "silent"}, 'does not say what to use; write { use = "name", ... }'),
    ],
)
def test_a_wrong_spec_says_what_to_change(install: Install, spec: Spec, says: str) -> None:
    """The key, the value, what is wrong with it and what would be right."""
    install("neighbour")
    with pytest.raises(PlanError) as error:
        load("judge", spec)
    assert says in str(error.value)


def test_a_literal_option_takes_its_words_only(install: Install) -> None:
    """A closed set is closed."""
    install("neighbour")
    assert load("source", "neighbour:3,mood=bad").mood == "bad"
    with pytest.raises(PlanError, match="mood: 'sad' does not fit: must be 'good' or 'bad'"):
        load("source", "neighbour:3,mood=sad")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("broken", "of groundtrace-hostile 6.6.6 (groundtrace_hostile.broken:Source) does not import: NotConfigured"),
        ("missing", "of groundtrace-hostile 6.6.6 (groundtrace_hostile:NoSuchName) does not import: AttributeError"),
        ("hollow", "is no source: it lacks doctor, home, labels, notes, platform, traces"),
        ("explosive:x", "could not be made: ZeroDivisionError: made of x"),
        ("untyped,limit=3", "has options whose types cannot be read: NameError"),
    ],
)
def test_a_broken_plugin_is_named_with_what_is_wrong_never_called_unknown(
    install: Install, name: str, says: str
) -> None:
    """Whatever its code raises, the user learns whose it is."""
    install("hostile")
    with pytest.raises(PlanError) as error:
        load("source", name)
    assert says in str(error.value)


def test_two_plugins_of_one_name_are_refused(install: Install) -> None:
    """Nobody is judged by a judge that took another's name."""
    install("impostor")
    with pytest.raises(
        PlanError, match=r"judge: 'offline' is brought by groundtrace \S+ and groundtrace-impostor 0.0.1"
    ):
        load("judge", "offline")


def test_other_peoples_plugins_can_be_left_out(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken neighbour can be switched off."""
    install("impostor")
    install("neighbour")
    monkeypatch.setenv("GROUNDTRACE_PLUGINS", "none")
    assert {plugin.distribution for plugin in installed()} == {"groundtrace"}
    assert load("judge", "offline").kind == "offline"


def test_the_name_of_a_spec_is_known_without_loading_it() -> None:
    """It stands before the first colon or comma."""
    assert name_of("source", "otel:a:b,c") == "otel"
    assert name_of("judge", "offline,x=1:2") == "offline"
