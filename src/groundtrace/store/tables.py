"""The tables of the store, the same on SQLite and PostgreSQL; all named `groundtrace_...`, so a database may be shared.

Rows are ordered by `seq`, which only grows, never by a clock; `time` is there for people.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Table, Text, TypeDecorator, true

if TYPE_CHECKING:
    from sqlalchemy import Dialect

ESCAPED = "\x01"
"""Begins a text that a database would refuse as it is (a lone surrogate, a NUL) and that is kept as JSON."""


def plain(text: str) -> str:
    r"""The text as any database takes it; `said` gives it back.

    >>> plain("21:40"), plain("a\0b"), said(plain("a\0b")) == "a\0b"
    ('21:40', '\x01"a\\u0000b"', True)
    """
    if "\0" not in text and not text.startswith(ESCAPED):
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            return ESCAPED + json.dumps(text)
        return text
    return ESCAPED + json.dumps(text)


def is_plain(text: str) -> bool:
    """Whether `plain` leaves a text, and each piece of it, as it is: of many texts at once, almost all of which are."""
    return text.isascii() and "\0" not in text and ESCAPED not in text


def said(text: str) -> str:
    """The text as it was before `plain`."""
    return str(json.loads(text[1:])) if text.startswith(ESCAPED) else text


class Said(TypeDecorator[str]):
    """Other people's text, whatever it holds."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - the same on all
        """On the way in."""
        return None if value is None else plain(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - same
        """On the way out."""
        return None if value is None else said(value)


metadata = MetaData()


def _seq() -> Column[int]:
    """Grows with every row and is never given twice."""
    return Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


def _text(name: str, *, key: bool = False) -> Column[str]:
    return Column(name, Said, nullable=False, primary_key=key)


def _made() -> tuple[Column[str], Column[str]]:
    """When, and in which run."""
    return _text("time"), _text("run")


meta = Table("groundtrace_meta", metadata, _text("key", key=True), _text("value"))

records = Table(
    "groundtrace_records",
    metadata,
    _text("key", key=True),
    _text("id"),
    _text("platform"),
    _text("trace_id"),
    *_made(),
    _text("body"),
)

replies = Table(
    "groundtrace_replies",
    metadata,
    _seq(),
    _text("judge"),
    _text("digest"),
    _text("card_id"),
    _text("slot"),
    Column("attempt", Integer, nullable=False),
    _text("model"),
    _text("text"),
    _text("faults"),
    Column("fault", Said),
    _text("flags"),
    Column("input", BigInteger),
    Column("output", BigInteger),
    Column("cache_read", BigInteger),
    Column("cost", Float),
    Column("latency", Float),
    Column("temperature", Float),
    Column("cached", Boolean, nullable=False),
    Column("usable", Boolean, nullable=False),
    *_made(),
    sqlite_autoincrement=True,
)
Index(
    "groundtrace_replies_known",
    replies.c.digest,
    replies.c.judge,
    sqlite_where=replies.c.usable == true(),
    postgresql_where=replies.c.usable == true(),
)
Index("groundtrace_replies_card", replies.c.card_id)
Index("groundtrace_replies_time", replies.c.time)

cards = Table(
    "groundtrace_cards",
    metadata,
    _seq(),
    _text("id"),
    _text("record_id"),
    _text("rubric"),
    _text("version"),
    _text("judge"),
    _text("judge_kind"),
    _text("status"),
    _text("content_hash"),
    _text("basis"),
    *_made(),
    _text("body"),
    _text("waits"),
    Column("unit", Float),
    sqlite_autoincrement=True,
)
Index("groundtrace_cards_newest", cards.c.id, cards.c.seq)
Index("groundtrace_cards_run", cards.c.run)
Index(
    "groundtrace_cards_waiting",
    cards.c.waits,
    cards.c.unit,
    cards.c.seq,
    sqlite_where=cards.c.waits != "",
    postgresql_where=cards.c.waits != "",
)

labels = Table(
    "groundtrace_labels",
    metadata,
    _text("card_id", key=True),
    _text("score", key=True),
    _text("who", key=True),
    _text("rubric"),
    Column("value", Float),
    Column("label", Said),
    _text("decided"),
    _text("why"),
    Column("weight", Float, nullable=False),
    *_made(),
)

outbox = Table(
    "groundtrace_writes",
    metadata,
    _seq(),
    _text("sink"),
    _text("card_id"),
    _text("content_hash"),
    _text("scores"),
    *_made(),
    sqlite_autoincrement=True,
)
"""Writes that were noted and not confirmed: scores of a card that have one content, together."""
Index("groundtrace_writes_card", outbox.c.card_id, outbox.c.sink)

standing = Table(
    "groundtrace_standing",
    metadata,
    _text("card_id", key=True),
    _text("sink", key=True),
    _text("content_hash", key=True),
    _text("scores"),
    *_made(),
    sqlite_with_rowid=False,
)
"""What stands there since it was confirmed, in the same way."""

inbox = Table(
    "groundtrace_inbox",
    metadata,
    _seq(),
    _text("platform"),
    _text("project"),
    _text("trace_id"),
    Column("turn", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    _text("time"),
    sqlite_autoincrement=True,
)
Index("groundtrace_inbox_trace", inbox.c.platform, inbox.c.project, inbox.c.trace_id, unique=True)
Index("groundtrace_inbox_due", inbox.c.platform, inbox.c.attempts, inbox.c.seq)

leases = Table(
    "groundtrace_leases",
    metadata,
    _text("key", key=True),
    _text("owner"),
    Column("turn", BigInteger, nullable=False),
    Column("seconds", Float(53), nullable=False),
    Column("until", Float(53), nullable=False),
)

cursors = Table("groundtrace_cursors", metadata, _text("source", key=True), _text("value"), _text("time"))

runs = Table(
    "groundtrace_runs",
    metadata,
    _seq(),
    _text("id"),
    _text("owner"),
    _text("state"),
    _text("started"),
    _text("ended"),
    _text("plan"),
    _text("report"),
    sqlite_autoincrement=True,
)
Index("groundtrace_runs_id", runs.c.id, unique=True)
