"""Judges made of judges: `Cached` asks an equal question once, `Recorded` keeps what was said and says it again.

Both are judges like the one they are made of: the same id, the same cards. `Voting`, which asks several times, is
another judge, and stands in a module of its own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundtrace.errors import PlanError
from groundtrace.judges import aside
from groundtrace.judges.around import Around
from groundtrace.judges.voting import Voting
from groundtrace.model import Reply, Usage

if TYPE_CHECKING:
    from groundtrace.model import Case, JudgeKind
    from groundtrace.ports import Again, Judge

__all__ = ["Cached", "Recorded", "Voting"]

_log = logging.getLogger(__name__)


class Cached(Around):
    """A judge that is asked an equal question once: what it said and the gate took is kept in a folder or a mapping.

    Equal are questions of the same digest to a judge of the same id. Kept are first replies that the gate had nothing
    against; of a second one, asked with the faults of the first, no judge is told what the gate made of it. A reply
    that was kept and is refused now, because the rubric's rules changed, is asked again with the faults.
    """

    def __init__(self, judge: Judge, kept: Path | str | MutableMapping[str, str]) -> None:
        super().__init__(judge)
        self._kept = _Folder(Path(kept)) if isinstance(kept, (str, Path)) else kept

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with its reply: the one that was kept, or the judge's."""

        def settle(case: Case) -> tuple[Case, Reply | None]:
            known = self._known(case)
            if known is None:
                return case, None
            repeat = again(case, known)
            return (case, known) if repeat is None else (repeat, None)

        def keep(case: Case, reply: Reply) -> Case | None:
            repeat = again(case, reply)
            if repeat is None and case.remark is None and reply.fault is None:
                self._kept[self._key(case)] = _told(reply)
            return repeat

        return aside.hear(self._judge, cases, keep, settle)

    def _key(self, case: Case) -> str:
        return hashlib.sha256(f"{case.digest} {self.id}".encode("utf-8", "surrogatepass")).hexdigest()

    def _known(self, case: Case) -> Reply | None:
        told = self._kept.get(self._key(case)) if case.remark is None else None
        try:
            return None if told is None else replace(_retold(json.loads(told)), cached=True)
        except (ValueError, TypeError, KeyError, AttributeError):  # half a file, or another program's
            return None


class _Folder(MutableMapping[str, str]):
    """Texts by key, each in a file of its own; a file is there whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path, self._full = path, False
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PlanError("cache", str(path), f"is no folder to keep replies in: {error.strerror}") from None

    def __getitem__(self, key: str) -> str:
        try:
            return self._file(key).read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise KeyError(key) from None

    def __setitem__(self, key: str, text: str) -> None:
        if self._full:
            return
        try:
            self._write(self._file(key), text)
        except OSError as error:  # what can't be kept is asked again; it stops no run
            self._full = True
            _log.warning("replies are not kept any more in %s: %s", self._path, error.strerror)

    def _write(self, file: Path, text: str) -> None:
        file.parent.mkdir(exist_ok=True)
        handle, written = tempfile.mkstemp(dir=file.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as part:
                part.write(text)
            Path(written).replace(file)
        except BaseException:
            Path(written).unlink(missing_ok=True)
            raise

    def __delitem__(self, key: str) -> None:
        try:
            self._file(key).unlink()
        except OSError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        return (file.stem for file in self._path.glob("??/*.json"))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _file(self, key: str) -> Path:
        return self._path / key[:2] / f"{key}.json"


class Recorded:
    """A judge that says again what was recorded, without a network; with a `judge`, the recording itself.

    The file holds JSON lines: who the judge is, then every reply by its question's digest, refused ones and faults too.
    A question that was asked several times has its replies in turn, the last one from then on. One that was not
    recorded is a fault that says so.
    """

    def __init__(self, path: Path | str, judge: Judge | None = None) -> None:
        self._path, self._judge = Path(path), judge
        self._replies: dict[str, deque[Reply]] = {}
        self._off: dict[str, frozenset[str]] = {}
        self.id = "" if judge is None else judge.id
        self.kind: JudgeKind = "llm" if judge is None else judge.kind
        self.limits = "" if judge is None else judge.limits
        if judge is None:
            self._read()
        else:
            self._begin(judge)

    def unassessed(self, rubric: str) -> frozenset[str]:
        """The judge's own word, or what was recorded of it."""
        if self._judge is None:
            return self._off.get(rubric, frozenset())
        off = self._judge.unassessed(rubric)
        if self._off.get(rubric) != off:
            self._off[rubric] = off
            self._write({"unassessed": {rubric: sorted(off)}})
        return off

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with its reply: what the judge says, written down, or what it said."""
        return self._replayed(cases, again) if self._judge is None else self._recording(self._judge, cases, again)

    # --- recording ---

    def _begin(self, judge: Judge) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("", encoding="utf-8")
        except OSError as error:
            raise PlanError("recording", str(self._path), f"can't be written: {error.strerror}") from None
        self._write({"judge": judge.id, "kind": judge.kind, "limits": judge.limits})

    def _recording(self, judge: Judge, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        written: dict[int, Reply] = {}  # the replies themselves: two questions in flight may be equal

        def note(case: Case, reply: Reply) -> Case | None:
            self._keep(case, reply)
            repeat = again(case, reply)
            if repeat is None:
                written[id(reply)] = reply
            return repeat

        for case, reply in judge.hear(cases, note):
            if written.pop(id(reply), None) is None:  # a judge that leaves the gate to others
                self._keep(case, reply)
            yield case, reply

    def _keep(self, case: Case, reply: Reply) -> None:
        about = {"question": case.digest, "rubric": case.rubric, "record": case.record_id, "slot": case.slot}
        self._write(about | {"reply": dataclasses.asdict(reply)})

    def _write(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:  # whole and on its way, whatever happens next
            file.write(json.dumps(line) + "\n")

    # --- replaying ---

    def _read(self) -> None:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            hint = "record it first: Recorded(path, judge)"
            raise PlanError("recording", str(self._path), f"can't be read: {said}", hint=hint) from None
        for number, line in enumerate(lines, start=1):
            try:
                self._take(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError):
                if number < len(lines):  # the last one may be cut where the recording was
                    raise PlanError("recording", str(self._path), f"is broken in line {number}") from None
        if not self.id:
            raise PlanError("recording", str(self._path), "does not say which judge was recorded")

    def _take(self, line: dict[str, Any]) -> None:
        if "judge" in line:
            self.id, self.kind, self.limits = str(line["judge"]), line["kind"], str(line["limits"])
        elif "unassessed" in line:
            self._off |= {rubric: frozenset(names) for rubric, names in line["unassessed"].items()}
        else:
            self._replies.setdefault(line["question"], deque()).append(_retold(line["reply"]))

    def _replayed(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        for first in cases:
            case, reply = first, self._recalled(first)
            while (repeat := again(case, reply)) is not None:
                case, reply = repeat, self._recalled(repeat)
            yield case, reply

    def _recalled(self, case: Case) -> Reply:
        known = self._replies.get(case.digest)
        if known is None:
            what = f"{case.rubric} of {case.record_id!r}" + (", asked again," if case.remark else "")
            fault = f"the question ({what}) was not recorded in {self._path.name}"
            return Reply("", self.id, 1 if case.remark is None else 2, fault=fault)
        return replace(known.popleft() if len(known) > 1 else known[0], cached=True)


def _told(reply: Reply) -> str:
    """A reply as JSON, whatever its text holds."""
    return json.dumps(dataclasses.asdict(reply))


def _retold(told: dict[str, Any]) -> Reply:
    """The reply back from its JSON; TypeError where it is none."""
    usage = told.get("usage")
    if not isinstance(told["text"], str):
        raise TypeError("a reply's text is text")
    return Reply(**told | {"usage": None if usage is None else Usage(**usage), "flags": tuple(told.get("flags", ()))})
