"""Work beside somebody else's program, whose guest we are: it is never held up, and nothing is ever raised into it.

`Beat` does one step after another in a thread of its own, `gathering.Gathering` holds what comes in parts until it is
whole, `apart.Apart` calls a function in a process of its own. All are bounded; what is not done is counted by why.
All outlive a fork: the child begins with nothing, for what was held is its parent's to do.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from groundtrace.model import Trace

_P = ParamSpec("_P")
_R = TypeVar("_R")
_A = TypeVar("_A")
Said = TypeVar("Said")

_LOG = logging.getLogger(__name__)

BROKEN = "broken"
"""Counted where our own code raised: a fault of ours, and nobody else's trouble."""

NOT_IN_SAMPLE = "not_in_sample"
"""Counted for each trace that the share leaves out."""

UNSCORED = "unscored"
"""Counted for each card that has no score: its trace counts as judged."""

_REASONS = 16
"""Reasons for which cards have no score that are told, at most: a rubric of somebody's may have any."""


_AFTER_TROUBLE = 1.0
_PAUSE = 50e-6
_LOOK = 0.05
"""Seconds between two looks at what is waited for."""


class Counts:
    """What was done and what was not, by why; from any thread."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._said: set[str] = set()
        """The reasons for which cards have no score, as far as they were told."""
        self._lock = threading.RLock()
        born_again(self._reset)

    def add(self, what: str, n: int = 1) -> int:
        """Count; how many there are now."""
        with self._lock:
            self._held[what] += n
            return self._held[what]

    def told(self) -> Mapping[str, int]:
        """All of it so far."""
        with self._lock:
            return dict(self._held)

    def broke(self, where: str, error: BaseException) -> None:
        """Count a fault of ours; the first of its kind is told as well."""
        first = self.add(BROKEN) == 1
        _LOG.log(logging.WARNING if first else logging.DEBUG, "%s broke: %r", where, error, exc_info=not first)

    def passed_over(self) -> None:
        """Count a trace that the share leaves out; of the first it is said, or a program that tries it sees nothing."""
        if self.add(NOT_IN_SAMPLE) == 1:
            _LOG.info(
                "a trace is not judged: `sample` picks a share of them by their ids, a tenth where none is given; "
                "sample=1 judges all"
            )

    def without_score(self, cards: Sequence[Unscored]) -> None:
        """Count cards that have no score; of the first by each reason it is said what is to be mended."""
        for card in cards:
            self.add(UNSCORED)
            first = card.reason not in self._said and len(self._said) < _REASONS
            if first:
                self._said.add(card.reason)
            _LOG.log(logging.WARNING if first else logging.DEBUG, "a trace has no score: %s", card.words)

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._held.clear()
        self._said.clear()


def give_way() -> None:
    """Let the host's threads go first: one that wakes up waits for the interpreter until we pause, or for 5 ms."""
    time.sleep(_PAUSE)


class Unscored(NamedTuple):
    """Why a card has no score: the reason by its name, and in words with what is to be mended."""

    reason: str
    words: str


class Judged(NamedTuple, Generic[Said]):
    """What became of a trace: what is to be said of it, or why it came to nothing; neither where nothing was asked.

    `unscored` has those of its cards that have no score.
    """

    trace_id: str
    said: Said | None = None
    why: str = ""
    unscored: tuple[Unscored, ...] = ()


class Judging(Protocol[Said]):
    """Gives each trace back once, as soon as it is done; never raises."""

    def __call__(self, traces: Sequence[Trace]) -> Iterator[Judged[Said]]:
        """The traces with what is to be said of them."""
        ...

    def ready(self) -> None:
        """Have at hand what takes a while to be had; called when the first trace begins, and again."""
        ...

    def close(self) -> None:
        """Let go of what it holds; from any thread."""
        ...


class _Counting(Protocol):
    _counts: Counts


_S = TypeVar("_S", bound=_Counting)


def harmless(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R | None]:
    """A method that a host calls: what it raises is counted, and stays here."""

    def safe(self: _S, *args: _P.args, **named: _P.kwargs) -> _R | None:
        try:
            return method(self, *args, **named)
        except Exception as error:  # noqa: BLE001 - the border to somebody else's program
            self._counts.broke(method.__qualname__, error)
            return None

    return cast("Callable[Concatenate[_S, _P], _R | None]", functools.update_wrapper(safe, method))


def hook(method: Callable[[_S, _A], None]) -> Callable[..., None]:
    """As `harmless`, of a method that is called all the time with one thing and maybe another that is not looked at."""

    def safe(self: _S, what: _A, parent_context: object = None) -> None:  # noqa: ARG001 - the SDK gives it by name
        try:
            method(self, what)
        except Exception as error:  # noqa: BLE001 - the border to somebody else's program
            self._counts.broke(method.__qualname__, error)

    return cast("Callable[..., None]", functools.update_wrapper(safe, method))


def born_again(reset: Callable[[], None]) -> None:
    """Call a bound method in every child this process forks, for as long as its object is alive."""
    if hasattr(os, "register_at_fork"):
        known = weakref.WeakMethod(reset)
        os.register_at_fork(after_in_child=functools.partial(_again, known))


def _again(known: weakref.WeakMethod[Callable[[], None]]) -> None:
    reset = known()
    if reset is not None:
        reset()


class Beat:
    """A thread that takes one step after another; it starts with the first thing there is to do.

    `step` does what is due and says in how many seconds to look again; None, that it need not until it is woken.
    """

    def __init__(self, name: str, step: Callable[[], float | None], counts: Counts) -> None:
        self._name, self._step, self._counts = name, step, counts
        self._begin()
        born_again(self._begin)

    def wake(self) -> None:
        """There is something to do; costs a look where the thread knows already."""
        if self._thread is None:
            self._start()
        if self._asleep:
            self._woken.set()

    def until(self, over: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is over, so many seconds at most; whether it is."""
        end = time.monotonic() + seconds
        while not over():
            self.help()
            left = end - time.monotonic()
            if left <= 0 or threading.current_thread() is self._thread:
                return over()
            self._woken.set()
            with self._turned:
                if not over():
                    self._turned.wait(min(left, _LOOK))
        return True

    def help(self) -> None:
        """Take a step here where no thread can be had to take it, as at the interpreter's end."""
        if self._thread is None:
            self._start()
        if self._alone and not self._closed:
            self._once()

    def close(self) -> None:
        """End, once the step that is being taken is done; who must not wait need not."""
        self._closed = True
        self._woken.set()

    def _begin(self) -> None:
        self._thread: threading.Thread | None = None
        self._alone = self._closed = self._asleep = False
        self._starting = threading.Lock()
        self._woken = threading.Event()
        self._turned = threading.Condition()

    def _start(self) -> None:
        with self._starting:
            if self._thread is not None or self._alone or self._closed:
                return
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread is to be had: the interpreter is going
                self._alone = True
            else:
                self._thread = thread

    def _run(self) -> None:
        while not self._closed:
            self._woken.clear()
            self._asleep = True  # from here on who adds something wakes us; what was added before is seen now
            pause = self._once()
            with self._turned:
                self._turned.notify_all()
            if pause is None or pause > 0:
                self._woken.wait(pause)
            self._asleep = False

    def _once(self) -> float | None:
        try:
            return self._step()
        except Exception as error:  # noqa: BLE001 - the thread goes on
            self._counts.broke(self._name, error)
            return _AFTER_TROUBLE
