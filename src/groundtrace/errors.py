"""Everything groundtrace raises, grouped by what to do next.

    GroundtraceError
    ├── PlanError        fix the plan, the command line or the path, then run again
    ├── PlatformError    wait, or get access; the data is fine
    └── InvalidVerdict   ask the judge again; the message is written for the judge

Per-item trouble is data (a gap, an unscored card, a counted line), never one of these.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundtrace.model import Finding


_ALIKE = 0.6
"""From which similarity on a word may be meant by another: a letter or two apart, not merely some in common."""


class GroundtraceError(Exception):
    """The root: catch this to catch everything groundtrace raises on purpose.

    `of` is what it is about, where that is known: a key of the plan, or the store.
    """

    of: str = ""


class PlanError(GroundtraceError):
    """Something asked for does not exist or makes no sense; says the key, the value and what would be valid.

    >>> print(PlanError("judge", "ofline", "is not installed", valid=["offline", "openai"]))
    judge: 'ofline' is not installed; did you mean 'offline'? Valid: offline, openai
    """

    def __init__(self, key: str, value: object, problem: str, *, valid: Iterable[str] = (), hint: str = "") -> None:
        self.key = key
        self.value = value
        self.problem = problem
        self.valid = tuple(valid)
        self.hint = hint
        self.of = key
        self.others: tuple[PlanError, ...] = ()
        """What else is wrong with the same plan."""
        super().__init__(key, value, problem)

    @property
    def nearest(self) -> str | None:
        """The valid value that looks most like the one given, or None."""
        return next(iter(difflib.get_close_matches(str(self.value), self.valid, n=1, cutoff=_ALIKE)), None)

    def __str__(self) -> str:
        near = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        # What is meant is all that is valid: then it is said once.
        listed = self.valid and not (near and len(self.valid) == 1)
        choice = f"{'' if near else ';'} Valid: {', '.join(self.valid)}" if listed else ""
        hint = f"{' ' if near and not listed else '; '}{self.hint}" if self.hint else ""
        this = f"{self.key}: {self.value!r} {self.problem}{near}{choice}{hint}"
        return "\n".join([this, *map(str, self.others)])

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def joined(faults: Sequence[PlanError]) -> PlanError:
    """All that is wrong as one error, of at least one.

    >>> print(joined([PlanError("since", 1, "is no time"), PlanError("risk", 2, "is none")]))
    since: 1 is no time
    risk: 2 is none
    """
    first, *others = faults
    first.others = tuple(others)
    return first


class PlatformError(GroundtraceError):
    """A platform refused or did not answer; `retry_after` is in seconds when it said so.

    `denied` says that it is we who were refused: to ask again is in vain until somebody lets us in.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, denied: bool = False) -> None:
        self.retry_after = retry_after
        self.denied = denied
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class InvalidVerdict(GroundtraceError):
    """A judge's reply breaks the contract; each fault is one line, `description @ $.path[0].field`.

    `standing` is the finding that may stand if a second reply shows the same kind of fault: set only where
    the law lets our own figure replace the judge's (a wrong mean, total or label alone).
    """

    def __init__(self, faults: Iterable[str], *, standing: Finding | None = None) -> None:
        self.faults = tuple(faults)
        self.standing = standing
        super().__init__("\n".join(self.faults))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[GroundtraceError], args: tuple[Any, ...], state: dict[str, Any]) -> GroundtraceError:
    """Make an error again on the other side of a pickle, whatever its constructor takes."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
