"""The border around one item: what a trace, a plugin or a platform raises is told, and the run goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from groundtrace.errors import GroundtraceError, InvalidVerdict, PlanError, PlatformError
from groundtrace.model import Case, Finding, Record, Review, Scorecard
from groundtrace.rubrics.law import unscored, unscored_card

if TYPE_CHECKING:
    from types import TracebackType

    from groundtrace.ports import Rubric

_BROKE = "rubric_failed"


class Isolated:
    """The one border where anything may be raised: it is told, and the run goes on with the next item.

    Only what `lets` names goes through. The stack trace goes to the log, at level debug.
    """

    def __init__(self, what: str, tell: Callable[[str], None], *, lets: tuple[type[Exception], ...] = ()) -> None:
        self.what, self.tell, self.lets = what, tell, lets
        self.raised: Exception | None = None
        """What was told, for who has to know its kind."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> bool:
        if not isinstance(error, Exception) or isinstance(error, self.lets):
            return False
        self.raised = error
        self.tell(_told(self.what, error))
        return True


def _told(what: str, error: Exception) -> str:
    """What was raised, in a line; its stack trace goes to the log."""
    named = "" if isinstance(error, PlatformError | PlanError) else f"{type(error).__name__}: "
    logging.getLogger(__name__).debug("%s", what or named, exc_info=error)
    what = "" if isinstance(error, GroundtraceError) and error.of == "store" else what
    return f"{what}{': ' if what else ''}{named}{error}"[:500]


class Careful:
    """A rubric whose trouble with one record becomes that card's reason and not the end of the run.

    It is asked three times a record, so it has no `Isolated` made for it each time.
    """

    def __init__(self, rubric: Rubric) -> None:
        self._rubric = rubric
        self.name, self.version, self.prompt_hash = rubric.name, rubric.version, rubric.prompt_hash
        self.kinds = rubric.kinds
        self.schema = rubric.schema
        self.notes: Callable[[], Iterable[str]] = getattr(rubric, "notes", tuple)
        """What a user should know of the rubric itself, as of a copy that was never tested."""

    def cases(self, record: Record, unassessed: frozenset[str]) -> Iterable[Case | Finding]:
        """The rubric's cases, or a finding that says why there are none."""
        try:
            return list(self._rubric.cases(record, unassessed))
        except Exception as error:  # noqa: BLE001 - whatever a rubric raises
            return [unscored(_BROKE, self._told(error))]

    def finding(self, record: Record, case: Case, verdict: Any, unassessed: frozenset[str]) -> Finding:
        """The rubric's finding; what it raises beside InvalidVerdict becomes one."""
        try:
            return self._rubric.finding(record, case, verdict, unassessed)
        except InvalidVerdict:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            raise InvalidVerdict([f"{self._told(error)} @ $"]) from None

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        """The rubric's card, or an unscored one that says what the rubric raised."""
        said = [finding.rationale for finding in findings if finding.reason == _BROKE]
        if not said:
            try:
                return self._rubric.conclude(record, findings)
            except Exception as error:  # noqa: BLE001 - as above
                said.append(self._told(error))
        card = unscored_card(self, record, [unscored(_BROKE, said[0])])
        return card.model_copy(update={"review": (Review(reason=_BROKE, note=said[0]),)})

    def _told(self, error: Exception) -> str:
        return _told(f"rubric {self.name}", error)
