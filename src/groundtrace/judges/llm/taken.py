"""What a provider takes of all that could be asked of it, learnt from what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groundtrace.judges.llm.client import Mode, Question

if TYPE_CHECKING:
    from groundtrace.judges.llm.settings import Settings
    from groundtrace.model import Case

_WORSE: dict[Mode, Mode] = {"schema": "json", "json": "plain"}
_NAMED: dict[Mode, str] = {"schema": "JSON schema", "json": "JSON mode", "plain": "plain text"}

_JSON_ONLY = "\n\nReply with one JSON object and nothing else."
"""Said where no mode of the provider asks for JSON."""


@dataclass(slots=True)
class Taken:
    """What the provider takes, as far as it was seen; worse is never taken back."""

    mode: Mode
    fixed: bool
    temperature: float | None
    max_tokens: int | None
    notes: list[str]

    @classmethod
    def of(cls, settings: Settings) -> Taken:
        """As the settings say, nothing seen yet."""
        best: Mode = "schema" if settings.structured == "auto" else settings.structured
        return cls(best, settings.structured != "auto", settings.temperature, settings.max_tokens, [])

    def question(self, case: Case, body: str) -> Question:
        """A case as it is put now."""
        prefix = case.prefix + (_JSON_ONLY if self.mode == "plain" else "")
        return Question(prefix, body, case.schema, case.rubric, self.mode, self.temperature, self.max_tokens)

    def leaves_out(self, question: Question, option: str) -> bool:
        """Do without what was refused; False where that can't be. Others in flight may have learnt it already."""
        if option == "mode" and question.mode in _WORSE and not self.fixed:
            if self.mode == question.mode:
                self.mode = _WORSE[question.mode]
                self.notes.append(f"takes no {_NAMED[question.mode]}; {_NAMED[self.mode]} is used")
            return True
        if option == "temperature" and question.temperature is not None:
            if self.temperature is not None:
                self.notes.append(f"takes no temperature of {self.temperature:g}; its own is used")
            self.temperature = None
            return True
        return False
