"""`groundtrace review`: the cards a person must see, one of them in full, and what the person decides."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from groundtrace.cli import _border, app, figure, plain
from groundtrace.cli.options import Store as Where
from groundtrace.errors import PlanError, PlatformError

if TYPE_CHECKING:
    from groundtrace.model import Decision, Label, Score, Scorecard
    from groundtrace.store import Store

_SHORT = 13
"""Characters of a card's id that are shown: enough for any store, and more than have to be typed."""

_PATIENCE = 10.0
"""Seconds to wait for a run that has the card's trace in hand."""

State: TypeAlias = Literal["accepted", "corrected", "rejected"]

_NULL = {"null", "none", "n/a"}


@app.command()
def review(
    card: Annotated[
        str | None,
        typer.Argument(
            metavar="CARD",
            help="A card by its id or the start of it; left out: list those that wait.",
            show_default=False,
        ),
    ] = None,
    *,
    store: Where = None,
    rubric: Annotated[str | None, typer.Option(help="List the cards of this rubric alone.", metavar="NAME")] = None,
    limit: Annotated[int, typer.Option(help="List so many cards at most.", metavar="N", min=1)] = 20,
    accept: Annotated[bool, typer.Option("--accept", help="The card is right as it is.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="The card is of no use: take its scores back.")] = False,
    correct: Annotated[
        list[str] | None,
        typer.Option(
            help="What a score should be: a number, or null where it does not apply, and after a colon its label if it "
            "has one, as in rag_faithfulness=3.5:minor; repeat for more.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    who: Annotated[str | None, typer.Option(help="Whose decision it is. (left out: you)", metavar="NAME")] = None,
    why: Annotated[str, typer.Option(help="Why, for whoever reads the card.", metavar="TEXT")] = "",
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="First take what people said of the cards there, as langsmith:PROJECT; braintrust:, phoenix: and "
            "mlflow: are taken too.",
            metavar="SOURCE",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a card.")] = False,
) -> None:
    """List the cards that wait for a person, most urgent first; show one; accept, correct or reject it."""
    from groundtrace.cli.life import opened

    with _border():
        state = _state(accept=accept, reject=reject, corrections=correct or ())
        if source is not None:
            from groundtrace.cli.answers import take

            if card is not None or state is not None:
                hint = "write groundtrace review --from SOURCE alone"
                raise PlanError("from", source, "stands beside a card of your own", hint=hint)
            take(store, source)
        if card is None:
            if state is not None:
                raise PlanError("card", "", "is not named", hint="name one of those that `groundtrace review` lists")
            with opened(store) as kept:
                if rubric is not None:
                    _known(rubric, kept)
                more = 0 if kept is None else max(0, kept.count_waiting(rubric) - limit)
                _list(() if kept is None else kept.waiting(rubric, limit), more, as_json=as_json)
            return
        with opened(store) as kept:
            found = _find(kept, card)
            if state is None:
                _show(kept, found, as_json=as_json)
        if state is not None:
            _decide(store, found, state, correct or (), who=who, why=why, as_json=as_json)


def _decide(
    where: str | None,
    found: Scorecard,
    state: State,
    corrections: Sequence[str],
    *,
    who: str | None,
    why: str,
    as_json: bool,
) -> None:
    """Decide a card; a store that was kept without texts stays without."""
    from groundtrace.cli.life import opened

    with opened(where, keep_text=found.emptied is None) as store:
        if store is None:
            raise PlanError("card", found.id, "is gone with its store")
        store.probe()
        with _held(store, found):
            before = _undecided(store, found)
            decision = _decision(before, state, corrections, who=who, why=why)
            after = _keep(store, before, decision)
    _tell(before, after, decision, as_json=as_json)


# --- what was asked for ---------------------------------------------------------------------------------------------


def _state(*, accept: bool, reject: bool, corrections: Sequence[str]) -> State | None:
    said = [name for name, asked in (("--accept", accept), ("--reject", reject), ("--correct", corrections)) if asked]
    if len(said) > 1:
        raise PlanError("review", " ".join(said), "are two decisions", hint="a card is decided in one way")
    return "accepted" if accept else "rejected" if reject else "corrected" if corrections else None


def _decision(card: Scorecard, state: State, corrections: Sequence[str], **said: Any) -> Decision:
    import datetime as dt

    from groundtrace.model import Decision

    return Decision(
        card_id=card.id,
        state=state,
        who=_somebody() if said["who"] is None else said["who"],
        when=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        why=said["why"],
        labels=tuple(_label(card, text) for text in corrections),
    )


def _label(card: Scorecard, text: str) -> Label:
    """A correction as it was typed; with a label alone the value stays."""
    from groundtrace.model import Label

    name, given, told = text.partition("=")
    figure, _, label = told.partition(":")
    score = next((score for score in card.scores if score.name == name.strip()), None)
    try:
        value = None if figure.strip().lower() in _NULL else float(figure) if figure.strip() or not label else None
        finite = value is None or abs(value) < float("inf")
    except ValueError:
        finite = False
    if not (given and finite and (figure.strip() or score is not None)):
        hint = "write NAME=VALUE, the value a number, or null where the score does not apply"
        raise PlanError("correct", text, "is no correction", hint=hint)
    if score is not None and not figure.strip():
        value = score.value
    return Label(card_id=card.id, score=name.strip(), value=value, label=_chosen(name.strip(), label.strip(), value))


_EMPTY = ("not_applicable", "not_assessed")
"""What a score of any rubric without a value may be labelled."""


def _chosen(name: str, label: str, value: float | None) -> str | None:
    """The label as its score spells it; PlanError where a score of ours has no such label."""
    from groundtrace.rubrics.catalogue import CATALOGUE

    told = next((told for told in CATALOGUE if told.name == name), None)
    if not label or told is None:
        return label or None
    choices: tuple[str, ...] = (*told.choices, *(_EMPTY if value is None else ()))
    for choice in choices:
        if choice.casefold() == label.casefold():
            return choice
    problem = f"is no label of {name}" + ("" if choices else ", which has none")
    raise PlanError("correct", label, problem, valid=choices)


def _somebody() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise PlanError("who", "", "is not known here", hint="say whose decision it is with --who NAME") from None


# --- the store ------------------------------------------------------------------------------------------------------


def _find(store: Store | None, start: str) -> Scorecard:
    """The card whose id begins so."""
    from groundtrace.cli.kept import full_id

    card = store.card(full_id(store, start.lower())) if store else None
    if card is None:
        raise PlanError("card", start, "is not in this store", hint="`groundtrace review` lists the cards that wait")
    return card


@contextmanager
def _held(store: Store, card: Scorecard, patience: float = _PATIENCE) -> Iterator[None]:
    """Have the card's trace to ourselves: a run that judges it now would not hear of the decision."""
    from groundtrace.run.holds import key_of
    from groundtrace.store import owner

    key, mine = key_of(card.ref), owner("review")
    until = time.monotonic() + patience
    while not store.lease(key, mine, 60):
        if time.monotonic() > until:
            raise PlatformError(f"a run works on trace {card.ref.trace_id} now; decide when it is done")
        time.sleep(0.2)
    try:
        yield
    finally:
        store.release(key, mine)


def _undecided(store: Store, found: Scorecard) -> Scorecard:
    """The newest version no person decided: who decides again starts from there, not from the decision before.

    Versions that are of another record with the same id are none.
    """
    from groundtrace.review import is_of

    versions = [card for card in store.history(found.id) if is_of(card, found.basis)]
    return next((card for card in reversed(versions) if card.decided_by != "human"), versions[-1])


def _known(rubric: str, store: Store | None) -> None:
    """Refuse a rubric that is none: neither installed nor with a card in this store."""
    from groundtrace.plugins import installed

    names = {plugin.name for plugin in installed("rubric")} | set(store.rubrics() if store else ())
    if rubric not in names:
        raise PlanError("rubric", rubric, "is not installed and has no card in this store", valid=sorted(names))


def _ranges(card: Scorecard) -> dict[str, tuple[float, float]]:
    """The scores a card of this rubric may have, where the rubric is one of ours."""
    from groundtrace.rubrics.catalogue import CATALOGUE

    mine = (told for told in CATALOGUE if told.name.partition(".")[0] == card.rubric and not told.on_request)
    return {told.name: (told.low, told.high) for told in mine if not told.name.endswith(".assessed")}


def _keep(store: Store, card: Scorecard, decision: Decision) -> Scorecard:
    """Keep the decision and what it says about the judge, both or neither."""
    from groundtrace.review import decide, labels

    ranges = _ranges(card)
    after, told = decide(card, decision, ranges), labels(card, decision, ranges)
    with store.batch():
        store.keep_card(after)
        store.keep_labels(told, instead_of=(card.id, decision.who))
    return after


# --- what a person sees ---------------------------------------------------------------------------------------------


def _list(cards: Iterable[Scorecard], more: int, *, as_json: bool) -> None:
    from groundtrace.cli import printed

    listed = list(cards)
    if as_json:
        for card in listed:
            typer.echo(json.dumps(_flat(card)))
        return
    out = printed.console()
    if not listed:
        out.print("No card waits for a person.")
        return
    out.print(printed.grid(row for card in listed for row in (*_heading(card), *_causes(card))))
    if more:
        out.print(f"and {more:,} more; --limit shows more", style="dim")
    out.print(_how("CARD"), style="dim")


def _show(store: Store | None, card: Scorecard, *, as_json: bool) -> None:
    from groundtrace.cli import printed

    if as_json:
        typer.echo(json.dumps(_flat(card)))
        return
    record = store.record(card) if store else None
    out = printed.console()
    out.print(printed.grid(_heading(card)))
    out.print(printed.grid(("", plain(f"{_said(score)}: {score.rationale}", 300), "") for score in card.scores))
    if record is not None:
        out.print(printed.record(record))
    if decision := card.details.get("decision"):
        told = {key: plain(str(decision.get(key) or ""), 300) for key in ("state", "who", "when", "why")}
        why = f": {told['why']}" if told["why"] else ""
        out.print(f"{told['state']} by {told['who']}, {told['when']}{why}", style="bold")
    else:
        out.print(_how(plain(card.id[:_SHORT])), style="dim")


def _tell(before: Scorecard, after: Scorecard, decision: Decision, *, as_json: bool) -> None:
    """What was decided, what was left as it was, and how it comes to the platform."""
    if as_json:
        typer.echo(json.dumps(_flat(after)))
        return
    corrected = {label.score for label in decision.labels}
    rest = [plain(_said(score)) for score in after.scores if score.name not in corrected and score.value is not None]
    now = ", ".join(plain(_said(score)) for score in after.scores if score.name in corrected)
    typer.echo(f"{decision.state} by {plain(decision.who)}: {now or _outcome(after)}")
    if decision.state == "corrected" and rest:
        typer.echo(f"not corrected, so as the judge had it: {', '.join(rest)}")
    if before.status == "pending_review" and after.status == "scored":
        typer.echo("the card was held; its scores count from now on")
    typer.echo("the next run over this trace with this store puts it on the platform")


def _outcome(card: Scorecard) -> str:
    if card.status == "unscored":
        why = "has no score any more" if card.reason == "rejected" else f"stays unscored ({plain(card.reason or '-')})"
        return f"{plain(card.rubric)} {why}"
    return ", ".join(plain(_said(score)) for score in card.scores if score.value is not None) or plain(card.rubric)


def _how(card: str) -> str:
    return f"groundtrace review {card} --accept | --reject | --correct NAME=VALUE, with --why TEXT"


def _heading(card: Scorecard) -> Iterator[tuple[str, str, str]]:
    """Which card it is, how urgent, how low, and why it waits."""
    low = card.weakest
    told = _said(low) if low else f"{card.rubric} not judged: {card.reason or '-'}"
    held = ", held until a person decides" if card.status == "pending_review" else ""
    word = "decided" if card.decided_by == "human" else card.waits or ""
    yield word, f"{plain(told)}{held}", "bold"
    yield "", f"card {plain(card.id[:_SHORT])} · trace {plain(card.ref.trace_id, 40)} · {plain(card.judge, 60)}", "dim"
    for review in card.review:
        yield "", plain(f"{review.reason}: {review.note}" if review.note else review.reason, 200), "yellow"


def _causes(card: Scorecard) -> Iterator[tuple[str, str, str]]:
    """What pulls it down."""
    claim, why = _lowest(card)
    if claim and claim.rstrip(".") not in why:
        yield "", f'"{plain(claim, 240)}"', ""
    if why:
        yield "", plain(why, 240), "dim"


def _lowest(card: Scorecard) -> tuple[str, str]:
    """The claim that pulls a card down and why; of one with nothing low, what was said of its weakest score."""
    from groundtrace.tally import Report

    for low in Report.of_card(card).lowest:
        return low.claim, low.why
    said = [finding.rationale for finding in card.findings if finding.status == "unscored"]
    return "", card.weakest.rationale if card.weakest else next(filter(None, said), "")


def _said(score: Score) -> str:
    """A score in words.

    >>> from groundtrace.model import Score
    >>> _said(Score(name="source_support", value=4, low=1, high=5, label="Strongly Implies"))
    'source_support 4 of 5 (Strongly Implies)'
    """
    label = f" ({score.label})" if score.label else ""
    return f"{score.name} " + ("null" if score.value is None else f"{figure(score.value)} of {score.high:g}") + label


def _flat(card: Scorecard) -> dict[str, Any]:
    """A card in the queue as one JSON object."""
    claim, why = _lowest(card)
    return {
        "id": card.id,
        "priority": card.waits,
        "rubric": card.rubric,
        "status": card.status,
        "reason": card.reason,
        "trace_id": card.ref.trace_id,
        "span_id": card.ref.span_id,
        "record_id": card.record_id,
        "judge": card.judge,
        "review": [review.model_dump() for review in card.review],
        "scores": [score.model_dump(include={"name", "value", "low", "high", "label"}) for score in card.scores],
        "claim": claim,
        "why": why,
        "decision": card.details.get("decision"),
    }
