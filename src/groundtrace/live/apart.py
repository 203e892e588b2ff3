"""Calls a function in a process of its own: what is done there takes no time of the program it stands in.

The process is a fresh interpreter that has nothing of the host but its module path: no fork of a threaded program, no
second run of its main module, no instrumentation. It ends with the host, and is killed where a call takes too long;
the next call has a new one. Where none can be started, as in an interpreter that is built in, the function is called
here, and that is said once.
"""

from __future__ import annotations

import logging
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import IO, Any, Generic, Literal, TypeAlias, TypeVar, cast

from groundtrace.live import born_again

T = TypeVar("T")
R = TypeVar("R")

Told: TypeAlias = Literal["one", "over", "broke", "note"]
"""What comes back of a call: an answer, that there are no more, why there are none, or what is logged meanwhile."""

_LENGTH = struct.Struct("!Q")
_NICE = 10
"""How much the process gives way to others, the host among them."""

_LEAVING = 1.0
"""Seconds that a call on its way is given to see that it is over."""

_STARTING = 120.0
"""Seconds a process has to begin: it takes one or two, where nothing hangs."""

_ENTRY = "import sys; sys.path[:] = {path!r}; from groundtrace.live.apart import attend; attend()"
_LOG = logging.getLogger(__name__)


class Lost(Exception):
    """A call that came to nothing: it took too long, or its process is gone."""


class Apart(Generic[T, R]):
    """A function of one value, called in a process of its own; `make()` makes it there.

    What it gives is an iterable, of which each answer is given here as soon as it is there. `patience` is the seconds
    an answer may take, None for as long as the process lives; `starting` those the process has to begin, in which it
    loads what is to be called. Called by one thread at a time. What the function raises is raised here as `Lost`; what
    groundtrace warns of there is logged here, also while an answer is waited for.
    """

    def __init__(
        self, make: Callable[[], Callable[[T], Iterable[R]]], *, patience: float | None, starting: float = _STARTING
    ) -> None:
        self._make, self._patience, self._starting = make, patience, starting
        self._process: subprocess.Popen[bytes] | None = None
        self._here: Callable[[T], Iterable[R]] | None = None
        self._closed = False
        self._calling = threading.Lock()
        born_again(self._forget)

    def __call__(self, value: T) -> Iterator[R]:
        """What the function says of this value; who stops listening ends the process."""
        with self._calling:
            process = self._started()
            if process is None:
                self._here = self._here or self._make()
                yield from self._here(value)
                return
            told: Told = "one"
            try:
                _write(_open(process.stdin), value)
                while told == "one":
                    told, said = self._answer(process)
                    if told == "one":
                        yield cast("R", said)
            except (OSError, EOFError):
                raise Lost("closed" if self._closed else "its process ended") from None
            finally:
                if told == "one":  # what is still to come would be taken for the next call's
                    self._end()
            if told == "broke":
                raise Lost(str(said))

    def _answer(self, process: subprocess.Popen[bytes]) -> tuple[Told, object]:
        answer = _heard(process, self._patience)
        if answer is None:
            raise Lost("closed" if self._closed else f"took longer than {self._patience:g} seconds")
        return answer

    def start(self) -> None:
        """Start the process, unless there is one: the first call then takes no longer than others."""
        with self._calling:
            self._started()

    @property
    def pid(self) -> int | None:
        """The process there is now."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """End the process, and have no more; from any thread, also while a call is on its way."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        if self._calling.acquire(timeout=_LEAVING):
            self._end()
            self._calling.release()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _let_go(process)

    def _started(self) -> subprocess.Popen[bytes] | None:
        """The process, started if there is none; None where there can be none."""
        if self._closed:
            raise Lost("closed")
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        if self._here is not None:
            return None
        code = _ENTRY.format(path=[os.fspath(place) for place in sys.path])
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        try:
            make = pickle.dumps(self._make, pickle.HIGHEST_PROTOCOL)
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and code of our own
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=env | {"OTEL_SDK_DISABLED": "true"},
            )
            _send(_open(self._process.stdin), make)
            begun = _heard(self._process, self._starting)
            if begun is None:
                self._end()
                raise Lost(f"its process did not begin within {self._starting:g} seconds")
            told, why = begun
        except (OSError, EOFError, ValueError, TypeError, AttributeError, pickle.PicklingError) as error:
            self._end()
            if self._closed:
                raise Lost("closed") from None
            _LOG.warning("no process to judge in could be started (%s): it is done in a thread", error)
            self._here = self._make()
            return None
        if told == "broke":
            self._end()
            raise Lost(str(why))
        return self._process

    def _forget(self) -> None:
        """In a child that was forked: the process is its parent's, whose pipes are not held open here."""
        self._calling = threading.Lock()
        process, self._process = self._process, None
        if process is not None:
            process.poll()  # it is no child of ours: this makes the object know
            _let_go(process)


def _let_go(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def attend() -> None:
    """What the process does: make the function, then answer call after call until the host is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    calls, answers = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a plugin prints is no answer
    threading.Thread(target=_leave_with_host, args=(calls.fileno(),), name="host", daemon=True).start()
    with suppress(EOFError, OSError), calls, answers:
        say = _noting(answers)
        try:
            made = pickle.loads(_told(calls))()  # noqa: S301 - of the process that started this one
        except Exception as error:  # noqa: BLE001 - told to the host
            say(_why(error))
            return
        say(("over", None))
        while True:
            value = _read(calls)
            try:
                for said in made(value):
                    say(("one", said))
            except Exception as error:  # noqa: BLE001 - told to the host, which may be gone
                say(_why(error))
            else:
                say(("over", None))


def _leave_with_host(calls: int) -> None:
    """End this process once nobody holds the other end: a judge that is being asked would go on, and cost money."""
    if hasattr(select, "poll"):
        waiting = select.poll()
        waiting.register(calls, 0)
        waiting.poll()
        os._exit(0)


def _noting(answers: IO[bytes]) -> Callable[[tuple[Told, object]], None]:
    """What writes answers, one at a time; what groundtrace warns of from now on is written among them."""
    turn = threading.RLock()

    def say(what: tuple[Told, object]) -> None:
        with turn:
            _write(answers, what)

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with suppress(OSError, ValueError):  # the host is gone
                say(("note", (record.name, record.levelno, record.getMessage())))

    logging.getLogger("groundtrace").addHandler(Notes(logging.WARNING))
    return say


def _heard(process: subprocess.Popen[bytes], seconds: float | None) -> tuple[Told, object] | None:
    """The next answer, None where it takes longer; what is logged there until then is logged here."""
    answers, end = _open(process.stdout), None if seconds is None else time.monotonic() + seconds
    while _comes(answers, None if end is None else max(end - time.monotonic(), 0.0)):
        told, said = cast("tuple[Told, Any]", _read(answers))
        if told != "note":
            return told, said
        name, level, words = said
        logging.getLogger(name).log(level, "%s", words)
    return None


def _why(error: Exception) -> tuple[Told, str]:
    return "broke", f"{type(error).__name__}: {error}"[:500]


def _comes(pipe: IO[bytes], seconds: float | None) -> bool:
    """Whether an answer comes in time; where that can't be told it does."""
    if seconds is None or not hasattr(select, "poll"):
        return True
    waiting = select.poll()
    waiting.register(pipe.fileno(), select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def _write(pipe: IO[bytes], value: object) -> None:
    _send(pipe, pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def _send(pipe: IO[bytes], told: bytes) -> None:
    left = memoryview(_LENGTH.pack(len(told)) + told)
    while left:
        left = left[pipe.write(left) :]


def _read(pipe: IO[bytes]) -> Any:
    return pickle.loads(_told(pipe))  # noqa: S301 - of a process of our own


def _told(pipe: IO[bytes]) -> bytearray:
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return _exactly(pipe, length)


def _exactly(pipe: IO[bytes], size: int) -> bytearray:
    held = bytearray()
    while len(held) < size:
        piece = pipe.read(min(size - len(held), 1 << 20))
        if not piece:
            raise EOFError
        held += piece
    return held


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise EOFError
    return pipe
