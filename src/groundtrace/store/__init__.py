"""The memory that outlives the run: records, replies, cards, writes, leases, cursors and runs in a database.

    with open_store() as store:                       # a SQLite file in the platform's data directory
    with open_store("runs/today.db") as store:        # a SQLite file
    with open_store("postgresql://me@db/scores"):     # PostgreSQL, with the extra `postgres`

Whatever was told is there after the process is killed at any point: outside `batch` when the call returns, inside at
its end or with the next intent. Threads and processes may share a store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sqlalchemy import bindparam, delete, exists, false, func, or_, select, true, update

from groundtrace.model import Record
from groundtrace.store import rows, tables, textless
from groundtrace.store.address import address_of
from groundtrace.store.database import Database
from groundtrace.store.inbox import Inbox
from groundtrace.store.leases import Leases, ended, owner, run_key
from groundtrace.store.places import Places
from groundtrace.store.prepared import Prepared, adding, replacing
from groundtrace.store.schema import prepare
from groundtrace.store.tables import cards, cursors, outbox, records, replies, runs

if TYPE_CHECKING:
    from types import TracebackType

    from sqlalchemy import Select, Table

    from groundtrace.model import Attempt, Intent, Label, Receipt, Reply, Run, RunState, Scorecard

__all__ = ["Store", "open_store", "owner", "run_key"]

_SAID = [
    *(replies.c.text, replies.c.model, replies.c.attempt, replies.c.fault, replies.c.flags, replies.c.cached),
    *(replies.c.input, replies.c.output, replies.c.cache_read),
    *(replies.c.cost, replies.c.latency, replies.c.temperature),
]
_REPLY = Prepared(
    select(*_SAID)
    .where(replies.c.digest == bindparam("digest"), replies.c.judge == bindparam("judge"), replies.c.usable == true())
    .order_by(replies.c.seq.desc())
    .limit(1)
)
_ATTEMPTS = (
    select(*_SAID, replies.c.slot, replies.c.faults)
    .where(replies.c.card_id == bindparam("card_id"))
    .order_by(replies.c.seq)
)
_HISTORY = select(cards.c.body).where(cards.c.id == bindparam("id")).order_by(cards.c.seq)
_NEWEST = Prepared(select(cards.c.body).where(cards.c.id == bindparam("id")).order_by(cards.c.seq.desc()).limit(1))
_NEWEST_OF = Prepared(
    select(cards.c.body)
    .where(
        cards.c.id == bindparam("id"),
        or_(
            cards.c.basis == "",
            cards.c.basis == bindparam("subject"),
            func.substr(cards.c.basis, 1, bindparam("length")) == bindparam("start"),
        ),
    )
    .order_by(cards.c.seq.desc())
    .limit(1)
)
_RENEW_CARD = Prepared(
    update(cards)
    .where(
        cards.c.seq == select(func.max(cards.c.seq)).where(cards.c.id == bindparam("of")).scalar_subquery(),
        cards.c.content_hash == bindparam("hash"),
        cards.c.basis == bindparam("from_basis"),
    )
    .values(
        body=bindparam("new_body"),
        time=bindparam("at"),
        run=bindparam("in_run"),
        waits=bindparam("now_waits"),
        unit=bindparam("now_unit"),
    )
)


def open_store(where: str | Path | None = None, *, keep_text: bool = True, patience: float = 30.0) -> Store:
    """Open the memory that outlives the run, making it where there is none.

    `where` is a path or a database URL; None is `store.db` in the platform's data directory. With `keep_text=False`
    answers, passages, quotes, rationales and replies are kept out of it: nothing can then be taken from there instead
    of asking a judge. `patience` is how many seconds to wait for others. PlanError where it can't be one.
    """
    database = Database(address_of(where), patience)
    try:
        prepare(database)
    except BaseException:
        database.close()
        raise
    database.opened()
    return Store(database, keep_text=keep_text)


class Store:
    """A Memory in a database; see `open_store`. `clock` is monotonic, in seconds, and times leases."""

    def __init__(self, database: Database, *, keep_text: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._keep_text = keep_text
        self._leases = Leases(database, clock)
        self.inbox = Inbox(database)
        """What platforms' rules named and nobody evaluated yet."""
        self._run = ""

    def __repr__(self) -> str:
        return f"<Store {self._database.where.shown}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def probe(self) -> None:
        """Refuse a store nothing can be written to, before anything is asked or decided: PlanError."""
        self._database.probe(delete(runs).where(false()))

    def close(self) -> None:
        """Let go of the database; what was told is there."""
        self._database.close()

    def batch(self) -> AbstractContextManager[None]:
        """Keep what this thread tells inside as one: quicker, and durable at the end or with the next intent.

        Writers of other threads and processes wait from the first write in it until then: hold nothing slow in it.
        """
        return self._database.batch()

    # --- what was asked and answered ----------------------------------------------------------------------------

    def reply(self, judge: str, digest: str) -> Reply | None:
        """An accepted reply of this judge to an equal question, or None."""
        with self._database.reading() as connection:
            row = _REPLY.first(connection, {"digest": digest, "judge": judge})
        return rows.reply_of(row) if row else None

    def keep_reply(
        self, judge: str, digest: str, reply: Reply, faults: tuple[str, ...], *, card_id: str = "", slot: str = ""
    ) -> None:
        """Keep a reply before it is used, with the faults the gate found in it and the card it is for."""
        row = rows.reply_row(reply, faults, keep_text=self._keep_text) | self._made()
        row |= {"judge": judge, "digest": digest, "card_id": card_id, "slot": slot}
        with self._database.writing() as connection:
            adding(replies).run(connection, row)

    def spent(self, since: str, judge: str | None = None) -> float | None:
        """What the replies kept since then (ISO time, UTC) cost in US dollars; None if the price of one is unknown."""
        came = or_(replies.c.fault.is_(None), replies.c.input.is_not(None), replies.c.cost.is_not(None))
        charged = select(func.sum(replies.c.cost), func.count(), func.count(replies.c.cost)).where(
            replies.c.time >= since, replies.c.cached == false(), came
        )
        if judge is not None:
            charged = charged.where(replies.c.judge == judge)
        with self._database.reading() as connection:
            total, told, priced = connection.execute(charged).one()
        return float(total or 0.0) if told == priced else None

    def attempts(self, card_id: str) -> tuple[Attempt, ...]:
        """Every reply that was kept for a card, in the order they came."""
        with self._database.reading() as connection:
            told = tuple(map(rows.attempt_of, connection.execute(_ATTEMPTS, {"card_id": card_id})))
        return told or tuple(attempt for card in self.history(card_id) for attempt in card.attempts)

    # --- what was read and concluded ----------------------------------------------------------------------------

    def keep_record(self, record: Record) -> None:
        """Keep a record, so that its cards can be looked at with what they were made from; not without texts."""
        if self._keep_text:
            with self._database.writing() as connection:
                self._replacing(records).run(connection, rows.record_row(record) | self._made())

    def record(self, card: Scorecard) -> Record | None:
        """The record a card was made from, as it was last kept, or None."""
        asked = select(records.c.body).where(records.c.key == rows.record_key(card.ref, card.record_id))
        with self._database.reading() as connection:
            text = connection.execute(asked).scalar()
        return None if text is None else rows.value(Record, text)

    def card(self, card_id: str, subject: str = "") -> Scorecard | None:
        """The newest version of a card, or None; with a subject, of those that are of it."""
        asked = {"id": card_id, "subject": subject, "start": f"{subject}-", "length": len(subject) + 1}
        with self._database.reading() as connection:
            found = _NEWEST_OF.first(connection, asked) if subject else _NEWEST.first(connection, {"id": card_id})
        return None if found is None else rows.card_of(found.body)

    def keep_card(self, card: Scorecard) -> None:
        """Keep a card as its newest version; one of equal content and basis takes its place, others stay."""
        row = rows.card_row(card, keep_text=self._keep_text) | self._made(card.batch_id)
        same = {"of": row["id"], "hash": row["content_hash"], "from_basis": row["basis"]}
        same |= {"new_body": row["body"], "at": row["time"], "in_run": row["run"]}
        same |= {"now_waits": row["waits"], "now_unit": row["unit"]}
        with self._database.writing() as connection:
            if _RENEW_CARD.run(connection, same) == 0:
                adding(cards).run(connection, row)

    def card_ids(self, start: str, most: int = 10) -> tuple[str, ...]:
        """The ids of cards that start so, a few at most."""
        asked = select(cards.c.id).distinct().where(cards.c.id.startswith(start, autoescape=True)).limit(most)
        with self._database.reading() as connection:
            return tuple(connection.execute(asked).scalars())

    def history(self, card_id: str) -> tuple[Scorecard, ...]:
        """Every version of a card, oldest first."""
        with self._database.reading() as connection:
            told = connection.execute(_HISTORY, {"id": card_id}).scalars().all()
        return tuple(map(rows.card_of, told))

    # --- what people must see and said --------------------------------------------------------------------------

    def waiting(self, rubric: str | None = None, limit: int | None = None) -> Iterable[Scorecard]:
        """The cards a person must see and nobody decided, by their newest version; of one rubric if it is named.

        What is looked at now comes first, then the card with the lowest score on its own range, then the oldest.
        """
        first = (cards.c.waits != "now", cards.c.unit.nulls_last(), cards.c.seq)
        asked = _waiting(rubric).order_by(*first).limit(limit)
        with self._database.reading() as connection:
            return tuple(map(rows.card_of, connection.execute(asked).scalars()))

    def count_waiting(self, rubric: str | None = None) -> int:
        """How many cards `waiting` gives without a limit."""
        asked = select(func.count()).select_from(_waiting(rubric).subquery())
        with self._database.reading() as connection:
            return connection.execute(asked).scalar_one()

    def rubrics(self) -> tuple[str, ...]:
        """The rubrics of all cards."""
        with self._database.reading() as connection:
            return tuple(connection.execute(select(cards.c.rubric).distinct()).scalars())

    def keep_labels(self, labels: Iterable[Label], *, instead_of: tuple[str, str] | None = None) -> None:
        """Keep what a person said of scores; what the same person said of the same score before is over.

        With a card's id and a person in `instead_of`, all that person said of the card before is over.
        """
        told = [rows.label_row(label, keep_text=self._keep_text) | self._made() for label in labels]
        with self._database.writing() as connection:
            if instead_of is not None:
                said = tables.labels.c
                connection.execute(
                    delete(tables.labels).where(said.card_id == instead_of[0], said.who == instead_of[1])
                )
            for row in told:
                self._replacing(tables.labels).run(connection, row)

    def labels(self, rubric: str | None = None) -> tuple[Label, ...]:
        """What people said of scores, by card, score and person; of one rubric's if it is named."""
        asked = select(tables.labels)
        if rubric is not None:
            asked = asked.where(tables.labels.c.rubric == rubric)
        with self._database.reading() as connection:
            told = [rows.label_of(row) for row in connection.execute(asked)]
        return tuple(sorted(told, key=lambda label: (label.card_id, label.score, label.who)))

    # --- what was written ---------------------------------------------------------------------------------------

    def intend(self, intent: Intent) -> Receipt | None:
        """Note a write before it goes out; the receipt of an equal earlier one that still stands, or None."""
        return self.intend_all((intent,))[0]

    def intend_all(self, intents: Sequence[Intent]) -> list[Receipt | None]:
        """As `intend`, of many in their order: durable together, and a good deal quicker."""
        if not self._database.begun:
            with self._database.reading() as connection:  # most are known: they wait for no writer
                places = Places.of(connection, intents, hold=False)
            known = list(map(places.known, intents))
            if all(known):
                return known
        with self._database.writing(at_once=True) as connection:
            places = Places.of(connection, intents, hold=True)
            told = list(map(places.note, intents))
            places.save(connection, self._made(), sqlite=self._database.sqlite)
        return told

    def keep_receipt(self, receipt: Receipt) -> None:
        """Note what became of a write; one that is unconfirmed or failed stays in the outbox.

        What is written now stands alone: earlier receipts of the place, and older writes to it, are over.
        """
        self.keep_receipts((receipt,))

    def keep_receipts(self, told: Sequence[Receipt]) -> None:
        """As `keep_receipt`, of many; those of one place in their order."""
        told = [receipt for receipt in told if receipt.feedback_id is not None and receipt.content_hash is not None]
        if not told:
            return
        with self._database.writing() as connection:
            places = Places.of(connection, told, hold=True)
            for receipt in told:
                why = receipt.reason
                places.keep(receipt, why if self._keep_text or why is None else textless.masked(why))
            places.save(connection, self._made(), sqlite=self._database.sqlite)

    def outbox(self) -> Iterable[Intent]:
        """The writes that were noted and never confirmed, oldest first."""
        with self._database.reading() as connection:
            told = connection.execute(select(outbox).order_by(outbox.c.seq)).all()
        return tuple(intent for row in told for intent in rows.intents_of(row))

    def forget(self, intent: Intent) -> None:
        """Take a write out of the outbox that nobody wants any more."""
        with self._database.writing() as connection:
            places = Places.of(connection, [intent], hold=True)
            places.forget(intent)
            places.save(connection, self._made(), sqlite=self._database.sqlite)

    # --- who works on what, and how far -------------------------------------------------------------------------

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Take a piece of work for a while, or for longer; False where another owner holds it.

        Where the owner is what `groundtrace.store.owner` gives, its death on this machine ends the lease at once.
        """
        return self._leases.take(key, owner, seconds)

    def release(self, key: str, owner: str) -> None:
        """Give a piece of work back; only its owner can."""
        self._leases.release(key, owner)

    def cursor(self, source: str) -> str | None:
        """How far a source was read."""
        with self._database.reading() as connection:
            return connection.execute(select(cursors.c.value).where(cursors.c.source == source)).scalar()

    def move_cursor(self, source: str, value: str) -> None:
        """Note how far a source was read."""
        with self._database.writing() as connection:
            self._replacing(cursors).run(connection, {"source": source, "value": value, "time": rows.now()})

    # --- runs ---------------------------------------------------------------------------------------------------

    def start_run(self, run_id: str, plan_json: str) -> None:
        """Note that a run begins, or goes on; what is kept from now on is its work."""
        self._run = run_id
        with self._database.writing() as connection:
            known = connection.execute(select(runs.c.started).where(runs.c.id == run_id).with_for_update()).scalar()
            connection.execute(delete(runs).where(runs.c.id == run_id))
            row = {"id": run_id, "owner": owner(run_id), "state": "running", "started": known or rows.now()}
            row |= {"ended": "", "plan": self._database.where.scrub(plan_json), "report": ""}
            adding(runs).run(connection, row)

    def end_run(self, run_id: str, state: RunState, report_json: str = "") -> None:
        """Note how a run ended."""
        report = self._database.where.scrub(report_json if self._keep_text else textless.report(report_json))
        ended = update(runs).where(runs.c.id == run_id).values(state=state, ended=rows.now(), report=report)
        with self._database.writing() as connection:
            connection.execute(ended)

    def last_run(self, state: RunState | None = None) -> Run | None:
        """The run that began or went on last, of those in this state if one is named; see `runs`."""
        with closing(self._runs([state] if state else [])) as told:
            return next(told, None)

    def runs(self, *states: RunState) -> tuple[Run, ...]:
        """The runs, the one that began or went on last first; those in one of these states if any is named.

        One that says it is running is told as interrupted where its process is gone: seen to be dead on this machine,
        or silent for longer than a run that lives can be.
        """
        return tuple(self._runs(states))

    def _runs(self, states: Iterable[RunState]) -> Generator[Run]:
        wanted = set(states)
        asked = select(runs).order_by(runs.c.seq.desc())
        if wanted:
            asked = asked.where(runs.c.state.in_(wanted | ({"running"} if "interrupted" in wanted else set())))
        with self._database.reading() as connection:
            for row in connection.execute(asked).all():
                state = "interrupted" if row.state == "running" and self._is_cut(row.id, row.owner) else row.state
                if not wanted or state in wanted:
                    yield rows.run_of(row, state)

    def _is_cut(self, run_id: str, owned_by: str) -> bool:
        """Whether a run that says it is running is over: its process is gone, or what it held of itself is."""
        return ended(owned_by, one_machine=self._database.sqlite) or self._leases.over(run_key(run_id), owned_by)

    # --- how ----------------------------------------------------------------------------------------------------

    def _made(self, run: str = "") -> dict[str, str]:
        return {"time": rows.now(), "run": self._run or run}

    def _replacing(self, table: Table) -> Prepared:
        return replacing(table, sqlite=self._database.sqlite)


def _waiting(rubric: str | None) -> Select[str]:
    """The cards that wait, by their newest version."""
    newer = cards.alias()
    none = exists().where(newer.c.id == cards.c.id, newer.c.seq > cards.c.seq)
    asked = select(cards.c.body).where(cards.c.waits != "", ~none)
    return asked if rubric is None else asked.where(cards.c.rubric == rubric)
