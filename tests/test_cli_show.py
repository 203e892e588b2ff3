"""`groundtrace show`: a page a record, what is missing at the end, and why a trace was read as it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from terminal import groundtrace

TRACES = Path(__file__).parent / "fixtures" / "traces"
ARTICLE = "The harbour council met on Monday to decide on the new ferry. " * 6
BASIC = "6e612d7343726ea7c819cfeb7f8b3f5d"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with captured traces, whole and masked."""
    for name in ("langchain-openinference.jsonl", "langchain-openinference-masked.jsonl"):
        shutil.copy(TRACES / name, tmp_path / name)
    return tmp_path


def call(prompt: str, told: str, trace_id: str = "0af7651916cd43dd8448eb211c80319c") -> str:
    """One call to a model as a line of OTLP JSON."""
    held = {"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user"}
    held |= {"llm.input_messages.0.message.content": prompt, "llm.output_messages.0.message.content": told}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in held.items()]
    span = {"traceId": trace_id, "spanId": "00f067aa0ba902b7", "name": "chat", "attributes": attributes}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n"


def test_show_ends_with_a_count_by_gap(folder: Path) -> None:
    """How often each thing is missing, and what to change."""
    done = groundtrace("show langchain-openinference-masked.jsonl", folder)
    assert done.returncode == 0
    end = done.stdout[done.stdout.index("6 traces read") :]
    assert "Not read whole" in end
    assert "6 x        query: masked" in end
    assert "unset OPENINFERENCE_HIDE_INPUTS" in end
    whole = groundtrace("show langchain-openinference.jsonl", folder)
    assert "1 x        answer: error" in whole.stdout


def test_explain_walks_the_precedence_of_one_trace(folder: Path) -> None:
    """What each span says; for every field the places in order, and why each was taken or not."""
    done = groundtrace(f"show langchain-openinference.jsonl --explain {BASIC[:12]}", folder)
    assert done.returncode == 0
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0] == f"trace {BASIC}"
    assert any(line.startswith("VectorStoreRetriever  retrieval") for line in lines)
    assert lines.count("taken") == 3
    assert "the call's own words are the same" in lines
    assert "an earlier place holds the query" in lines
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert done.stdout.count("trace ") == 1


def test_explain_of_a_trace_that_is_not_there_says_what_to_write(folder: Path) -> None:
    """Nothing is shown."""
    done = groundtrace("show langchain-openinference.jsonl --explain ffff", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "explain: 'ffff' is the id of no trace there; write its id, or the start of it" in done.stderr


def test_kind_says_what_requests_are_read_as(folder: Path) -> None:
    """A summary where the prompt asks for one, unless the user says otherwise."""
    prompt = f"Summarize the following article:\n\n{ARTICLE}"
    (folder / "calls.jsonl").write_text(call(prompt, "A new ferry is decided on."), encoding="utf-8")

    def kinds(option: str) -> list[str]:
        done = groundtrace(f"show calls.jsonl --json {option}", folder)
        return [json.loads(line)["kind"] for line in done.stdout.splitlines()]

    assert kinds("") == ["summary"]
    assert kinds("--kind answer") == ["answer"]
    assert kinds("--kind summary") == ["summary"]
    wrong = groundtrace("show calls.jsonl --kind sumary", folder)
    assert wrong.returncode == 2
    assert "kind: 'sumary'" in wrong.stderr
    done = groundtrace("run calls.jsonl --store none --to jsonl:cards.jsonl --quiet", folder)
    assert done.returncode == 0
    cards = [json.loads(line) for line in (folder / "cards.jsonl").read_text("utf-8").splitlines()]
    assert {card["rubric"] for card in cards} == {"factual_accuracy", "summary_groundedness"}


def test_a_function_of_the_plan_gives_texts_by_their_ids(folder: Path) -> None:
    """The trace holds ids; what the function breaks on is told and stays a gap."""
    source = folder / "ids.jsonl"
    held = {
        "s0": {"openinference.span.kind": "CHAIN", "input.value": "How far is it?", "output.value": "Far [1]."},
        "s1": {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.id": "doc-1"},
    }
    spans = [
        {
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": f"00f067aa0ba902b{at}",
            **({"parentSpanId": "00f067aa0ba902b0"} if at else {}),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        for at, attributes in enumerate(held.values())
    ]
    source.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + "\n", encoding="utf-8")
    (folder / "kept.py").write_text(
        "def passage(id, metadata):\n    return {'doc-1': 'It is far.'}[id]\n\n\n"
        "def broken(id, metadata):\n    raise KeyError(id)\n",
        encoding="utf-8",
    )
    (folder / "plan.toml").write_text('sources = ["ids.jsonl"]\npassages = "kept:passage"\n', encoding="utf-8")

    def shown(plan: str) -> tuple[dict[str, object], str]:
        done = groundtrace(f"show {plan} --json", folder, env={"PYTHONPATH": str(folder)})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    whole, _ = shown("plan.toml")
    assert whole["context"] == [{"id": "doc-1", "text": "It is far."}]
    (folder / "broken.toml").write_text('sources = ["ids.jsonl"]\npassages = "kept:broken"\n', encoding="utf-8")
    lacking, said = shown("broken.toml")
    assert [gap["field"] for gap in lacking["gaps"]] == ["context"]  # type: ignore[attr-defined]
    assert "passages: kept:broken broke on doc-1: KeyError: 'doc-1'" in said
    (folder / "none.toml").write_text('sources = ["ids.jsonl"]\npassages = "kept:nothing"\n', encoding="utf-8")
    refused = groundtrace("show none.toml", folder, env={"PYTHONPATH": str(folder)})
    assert refused.returncode == 2
    assert "nothing" in refused.stderr
