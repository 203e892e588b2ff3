"""What leaves for a judge is redacted by a function of the user's own; what comes back is read as it was before.

The function takes a text and gives the text that may leave, and where it likes the stretches it put another text in
place of: `(text, [(start, end, placeholder), ...])`, offsets of the original. It is asked about every text of a case;
the rubric's own part holds nothing of the record. Without stretches they are found by comparing the two, word by word.

A judge quotes what it was shown. A quote is brought back by where it stands in the redacted text, else by its
placeholders, and the evidence is then located in the record itself; of a placeholder that stands for several originals
and that no place tells apart nothing is guessed. The faults a judge is told of quote the record: they are redacted too.
"""

from __future__ import annotations

import json
import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from rapidfuzz.distance import Levenshtein

from groundtrace.evidence import locate
from groundtrace.judges import aside
from groundtrace.judges.around import Around
from groundtrace.model import Reply

if TYPE_CHECKING:
    from groundtrace.model import Case
    from groundtrace.ports import Again, Judge

Redact: TypeAlias = Callable[[str], str | tuple[str, Iterable[tuple[int, int, str]]]]

_WORDS = re.compile(r"\w+|\W")
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"(?P<key>\s*:)?', re.DOTALL)
_OBJECT = re.compile(r"\{\s*[\"}]")
_LEAST, _CUT = 2, 3
"""Characters a placeholder must have to be known outside of its place, and of a word cut short to be known at all."""

_log = logging.getLogger(__name__)


class Redacting(Around):
    """A judge that is shown what a function leaves of a case; its quotes are brought back to the record's own words.

    Where the function raises, or what it gives can't be used, nothing is sent and the reply is a fault.
    """

    def __init__(self, judge: Judge, function: Redact, *, name: str = "") -> None:
        name = name or f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', 'redact')}"
        super().__init__(judge, f"redact={name}")
        self._function = function

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case as it was, with the reply to what was left of it."""
        veils: dict[tuple[str, str, str], tuple[Case, _Veil]] = {}
        ended: dict[tuple[str, str, str], tuple[Case, Reply]] = {}

        def settle(case: Case) -> tuple[Case, Reply | None]:
            veil = _Veil(self._function)
            try:
                shown = veil.over(case)
            except Exception as error:  # noqa: BLE001 - the user's own code: whatever it raises, nothing is sent
                reply = self._fault(case, error)
                again(case, reply)
                return case, reply
            veils[case.key] = case, veil
            return shown, None

        def gate(shown: Case, reply: Reply) -> Case | None:
            case, veil = veils[shown.key]
            said = self._back(veil, reply)
            repeat = again(case, said)
            if repeat is not None:
                try:
                    asked = replace(shown, remark=veil.remark(repeat.remark))
                except Exception as error:  # noqa: BLE001 - as above
                    case, said = repeat, self._fault(repeat, error)
                    again(case, said)
                else:
                    veils[shown.key] = repeat, veil
                    return asked
            ended[shown.key] = case, said
            return None

        for shown, reply in aside.hear(self._judge, cases, gate, settle):
            if shown.key not in veils:  # it never left
                yield shown, reply
                continue
            case, veil = veils.pop(shown.key)
            yield ended.pop(shown.key) if shown.key in ended else (case, self._back(veil, reply))

    def _back(self, veil: _Veil, reply: Reply) -> Reply:
        return replace(reply, judge=self.id, text=veil.lift(reply.text) if reply.fault is None else reply.text)

    def _fault(self, case: Case, error: Exception) -> Reply:
        """What was raised may hold the text itself: its kind is told, the rest stays in the log's lowest level."""
        _log.debug("a text could not be redacted", exc_info=error)
        fault = f"redaction failed, nothing was sent: {type(error).__name__}"
        return Reply("", self.id, 1 if case.remark is None else 2, fault=fault)


@dataclass(frozen=True)
class _Edit:
    """A stretch of the original, from start to end, and what stands in its place from `at` on."""

    start: int
    end: int
    at: int
    original: str
    placeholder: str

    @property
    def until(self) -> int:
        return self.at + len(self.placeholder)


class _Text:
    """A text, what is left of it, and where they differ."""

    def __init__(self, original: str, shown: str, edits: Sequence[_Edit]) -> None:
        self.original, self.shown, self.edits = original, shown, edits
        self._ends = [edit.until for edit in edits]

    def original_of(self, start: int, end: int) -> str:
        """The stretch of the original that a stretch of the redacted text stands for; a cut placeholder is whole."""
        return self.original[self._back(start, last=False) : self._back(end, last=True)]

    def within(self, start: int, end: int) -> list[_Edit]:
        """The placeholders that a stretch of the redacted text touches."""
        return [edit for edit in self.edits if edit.at < end and start < edit.until]

    def inside_one(self, start: int, end: int) -> bool:
        """Whether a stretch is but a part of one placeholder."""
        return any(e.at <= start and end <= e.until and (start, end) != (e.at, e.until) for e in self.edits)

    def _back(self, at: int, *, last: bool) -> int:
        moved = 0
        for edit in self.edits[: bisect_right(self._ends, at) + 1]:
            if edit.until <= at and (edit.at < at or not last):
                moved = edit.end - edit.until
            elif edit.at < at:
                return edit.end if last else edit.start
        return at + moved


class _Veil:
    """One case redacted: every text of it, and the way back."""

    def __init__(self, function: Redact) -> None:
        self._function = function
        self._texts: list[_Text] = []
        self._originals: dict[str, set[str]] = {}

    def over(self, case: Case) -> Case:
        """The case that may leave."""
        body = {name: self._over(value) for name, value in case.body.items()}
        shown = replace(case, body=body)
        return shown if case.remark is None else replace(shown, remark=self.remark(case.remark))

    def _over(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redacted(value)
        if isinstance(value, Mapping):
            return {key: self._over(held) for key, held in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._over(held) for held in value]
        return value

    def _redacted(self, text: str) -> str:
        if not text:
            return text
        told = self._function(text)
        shown, spans = (told, None) if isinstance(told, str) else told
        if not isinstance(shown, str):
            raise TypeError("a redacted text is text")
        edits = _compared(text, shown) if spans is None else _placed(text, shown, spans)
        if edits:
            self._texts.append(_Text(text, shown, edits))
        for edit in edits:
            self._originals.setdefault(edit.placeholder, set()).add(edit.original)
        return shown

    # --- the remark ---

    def remark(self, told: str | None) -> str | None:
        """Fault lines as they may leave: they quote the reply as it was brought back, sometimes cut short."""
        if told is None:
            return None
        pairs = [(original, placeholder) for placeholder, held in self._originals.items() for original in held]
        for original, placeholder in sorted(pairs, key=lambda pair: -len(pair[0])):
            for spelled in dict.fromkeys((original, repr(original)[1:-1], json.dumps(original)[1:-1])):
                if spelled.strip():
                    told = _swapped(told, spelled, placeholder)
                    told = _cut_swapped(told, spelled, placeholder)
        shown = self._function(told)
        return shown if isinstance(shown, str) else str(shown[0])

    # --- the way back ---

    def lift(self, reply: str) -> str:
        """A reply whose texts say what stood in the record; nothing else of it is touched, right or wrong."""
        opening = _OBJECT.search(reply) if self._texts else None
        if opening is None:
            return reply
        start = opening.start()
        return reply[:start] + _LITERAL.sub(self._literal, reply[start:])

    def _literal(self, found: re.Match[str]) -> str:
        literal = found[0]
        if found["key"]:
            return literal
        try:
            said = json.loads(literal)
        except ValueError:
            return literal
        lifted = self._lifted(said)
        return literal if lifted == said else json.dumps(lifted, ensure_ascii=False)

    def _lifted(self, said: str) -> str:
        """A text by where it stands in what was shown, else by the placeholders in it."""
        if not said.strip():
            return said
        for text in self._texts:
            start = text.shown.find(said)
            if start >= 0:
                whole = start + len(said)
                return said if text.inside_one(start, whole) else text.original_of(start, whole)
        held = [mark for mark in self._originals if len(mark) >= _LEAST and mark in said]
        if not held:
            return said
        if any(len(self._originals[mark]) > 1 for mark in held):
            return self._by_order(said, held)
        return _pattern(held).sub(lambda mark: next(iter(self._originals[mark[0]])), said)

    def _by_order(self, said: str, held: Sequence[str]) -> str:
        """A quote that stands there nearly: its placeholders in the order of the stretch it was taken from."""
        place = locate(said, {str(at): text.shown for at, text in enumerate(self._texts)})
        if place.start is None or place.end is None:
            known = [mark for mark in held if len(self._originals[mark]) == 1]
            return _pattern(known).sub(lambda mark: next(iter(self._originals[mark[0]])), said) if known else said
        edits = self._texts[int(place.passage_id or 0)].within(place.start, place.end)
        if [edit.placeholder for edit in edits] != _pattern(held).findall(said):
            return said
        following = iter(edits)
        return _pattern(held).sub(lambda _: next(following).original, said)


def _pattern(marks: Iterable[str]) -> re.Pattern[str]:
    """Any of the placeholders, as a whole; the longest first."""
    return re.compile("|".join(_whole(mark) for mark in sorted(marks, key=len, reverse=True)))


def _whole(text: str) -> str:
    before = r"(?<!\w)" if text[0].isalnum() else ""
    return before + re.escape(text) + (r"(?!\w)" if text[-1].isalnum() else "")


def _swapped(told: str, spelled: str, placeholder: str) -> str:
    return re.sub(_whole(spelled), lambda _: placeholder, told)


def _cut_swapped(told: str, spelled: str, placeholder: str) -> str:
    """A quote is cut after so many characters, maybe in the middle of what must not be read: that goes as well."""
    at = told.find(spelled[:_CUT]) if len(spelled) > _CUT else -1
    while at >= 0:
        length = _CUT
        while length < len(spelled) and told[at + length : at + length + 1] == spelled[length]:
            length += 1
        if told[at + length : at + length + 1] in {"'", '"', ""}:
            told = told[:at] + placeholder + told[at + length :]
            at += len(placeholder)
        at = told.find(spelled[:_CUT], at + 1)
    return told


# --- where two texts differ -------------------------------------------------------------------------------------------


def _placed(text: str, shown: str, spans: Iterable[tuple[int, int, str]]) -> list[_Edit]:
    """The stretches a function says it replaced, held against what it gave."""
    edits: list[_Edit] = []
    at = moved = 0
    made: list[str] = []
    for start, end, placeholder in sorted((int(s), int(e), str(p)) for s, e, p in spans):
        if not at <= start <= end <= len(text):
            raise ValueError("the stretches overlap, or lie outside of the text")
        made += text[at:start], placeholder
        edits.append(_Edit(start, end, start + moved, text[start:end], placeholder))
        moved += len(placeholder) - (end - start)
        at = end
    if "".join([*made, text[at:]]) != shown:
        raise ValueError("the stretches do not make the redacted text")
    return edits


def _compared(text: str, shown: str) -> list[_Edit]:
    """The stretches in which two texts differ, by whole words."""
    if text == shown:
        return []
    ours, theirs = _WORDS.findall(text), _WORDS.findall(shown)
    places, others = _starts(ours), _starts(theirs)
    edits: list[_Edit] = []
    for code in Levenshtein.opcodes(ours, theirs):
        if code.tag == "equal":
            continue
        start, end = places[code.src_start], places[code.src_end]
        at, until = others[code.dest_start], others[code.dest_end]
        if edits and _belong(edits[-1], text[edits[-1].end : start], one_sided=start == end or at == until):
            before = edits.pop()
            start, at = before.start, before.at
        edits.append(_Edit(start, end, at, text[start:end], shown[at:until]))
    return [_trimmed(edit) for edit in edits]


def _belong(before: _Edit, between: str, *, one_sided: bool) -> bool:
    """Whether what follows an edit is a part of it: of two words one placeholder was made, the space stayed."""
    if not between:
        return True
    return (one_sided or not before.original or not before.placeholder) and not any(map(str.isalnum, between))


def _trimmed(edit: _Edit) -> _Edit:
    """Without the signs that both begin or end with."""
    original, placeholder, start, at = edit.original, edit.placeholder, edit.start, edit.at
    while original and placeholder and original[-1] == placeholder[-1] and not original[-1].isalnum():
        original, placeholder = original[:-1], placeholder[:-1]
    while original and placeholder and original[0] == placeholder[0] and not original[0].isalnum():
        original, placeholder, start, at = original[1:], placeholder[1:], start + 1, at + 1
    return _Edit(start, start + len(original), at, original, placeholder)


def _starts(words: Sequence[str]) -> list[int]:
    made = [0]
    for word in words:
        made.append(made[-1] + len(word))
    return made
