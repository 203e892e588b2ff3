"""Complaints that came after a trace was passed over: rows with scores that were changed since the last time.

A row that is changed keeps its place and gets a new transaction, so rows are asked for by those. How far that was is
kept with what was heard then: rows of the time before are asked for once more, and always some minutes of them, for a
transaction may be to be found only after a later one, and one that we changed ourselves says nothing new.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from groundtrace.adapters.braintrust import btql, rows
from groundtrace.adapters.braintrust.api import Api, Place, Row
from groundtrace.adapters.braintrust.said import Scale, scored, together
from groundtrace.adapters.times import written
from groundtrace.model import Signal

_PURPOSE = ("span_attributes", "purpose")
UNSCORED = btql.some(btql.missing(*_PURPOSE), btql.compared("ne", _PURPOSE, "scorer"))
"""Rows that are no scorer's; to be unlike something, a thing must be there."""

_BEGINNING = 1_577_836_800 * 1_000_000_000
"""2020, before which there were no rows: a bound all the same."""

_BEHIND = 600 << 16
"""How much later than others a transaction may come to be found: ten minutes, where transactions tell the time."""

_MOST = 5_000
"""Complaints that are remembered."""


@dataclass(frozen=True)
class Heard:
    """How far was heard: what is asked for next begins behind `after`, and `upto` was the last that was seen.

    `told` is what each row complained of.
    """

    after: int
    upto: int
    told: Mapping[str, str]

    @classmethod
    def of(cls, kept: str) -> Heard | None:
        """As it was kept; None where it is not that.

        >>> Heard.of(str(Heard(1, 2, {"a": "thumb 0"})))
        Heard(after=1, upto=2, told={'a': 'thumb 0'})
        """
        try:
            held = json.loads(kept)
            told = {str(ident): str(what) for ident, what in dict(held["told"]).items()}
            return cls(int(held["after"]), int(held["upto"]), told)
        except (ValueError, TypeError, KeyError):
            return None

    def __str__(self) -> str:
        return json.dumps({"after": self.after, "upto": self.upto, "told": self.told}, separators=(",", ":"))


class Hearing:
    """Asks for the complaints that came since the last time."""

    def __init__(self, api: Api, place: Place, scale: Scale) -> None:
        self._api, self._place, self._scale = api, place, scale
        self._then: Heard | None = None
        self.watermark: str | None = None
        """How far was heard, once all of it was taken."""

    def complaints(self, since: str | None, began: int) -> dict[str, tuple[Row, tuple[Signal, ...]]]:
        """What users complained of after `since` (else after `began`): by trace, with one of the rows they spoke of."""
        heard = Heard.of(since) if since else None
        if heard is None:
            floor = self._floor(began)
            if floor is None:
                return {}
            heard = Heard(floor, floor, {})
        where = btql.every(btql.compared("gt", "_xact_id", str(heard.after)), btql.given("scores"), UNSCORED)
        held: dict[str, Row] = {}
        for page in self._api.pages(self._place, where, fields=rows.SEEN):
            rows.newest(page, held)
        found: dict[str, tuple[Row, tuple[Signal, ...]]] = {}
        told: dict[str, str] = {}
        for ident, row in held.items():
            said = tuple(one for one in scored(row, self._scale) if one.negative)
            what = ", ".join(sorted(f"{one.name} {one.value:g}" for one in said))
            if not what:
                continue
            told[ident] = what
            if heard.told.get(ident) != what:
                before = found.get(rows.trace_of(row), (row, ()))
                found[rows.trace_of(row)] = (row, together((*before[1], *said)))
        kept = {**told, **{ident: what for ident, what in heard.told.items() if ident not in told}}
        last = max(held.values(), key=rows.transaction, default=None)
        upto = max(heard.upto, rows.transaction(last) if last else 0)
        tells = last is not None and rows.changed(last) is not None
        after = min(heard.upto, upto - _BEHIND) if tells else heard.upto
        self._then = Heard(max(heard.after, after), upto, dict(islice(kept.items(), _MOST)))
        return found

    def end(self) -> None:
        """Note that all of it was taken."""
        self.watermark = str(self._then) if self._then else None

    def _floor(self, began: int) -> int | None:
        """A transaction of about that time; None where there is nothing yet.

        By the time in transactions, where it can be believed; else below those of rows made since, or, where there are
        none, at the last there is.
        """
        fields = (("_xact_id",), ("created",))
        made = btql.compared("ge", "created", written(began))
        row = self._api.first(self._place, made, sort="_xact_id", descending=False, fields=fields)
        if row is not None:
            return rows.at_transaction(began) if rows.changed(row) is not None else rows.transaction(row) - 1
        ever = btql.compared("ge", "created", written(_BEGINNING))
        row = self._api.first(self._place, ever, sort="_xact_id", descending=True, fields=fields)
        if row is None:
            return None
        return rows.at_transaction(began) if rows.changed(row) is not None else rows.transaction(row)
