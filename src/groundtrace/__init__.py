"""Groundedness scores for the traces you already have.

    import groundtrace

    record = groundtrace.record(query="When?", context=["It leaves at nine."], answer="At nine [1].")
    for card in groundtrace.evaluate([record], [groundtrace.rubric("source_support")], groundtrace.judge("offline")):
        print(card.scores[0].value, card.scores[0].label)

Every name is loaded when it is first used, so importing the package costs next to nothing.
"""

import sys
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundtrace.attach import braintrust, langsmith, otel
    from groundtrace.errors import GroundtraceError, InvalidVerdict, PlanError, PlatformError
    from groundtrace.evaluate import evaluate
    from groundtrace.model import Citation, Evidence, Finding, Gap, Passage, Record, Ref, Score, Scorecard, Span, Trace
    from groundtrace.plan import Plan
    from groundtrace.plugins import judge, rubric
    from groundtrace.read import read, record
    from groundtrace.run import Report, run

    __version__: str

__all__ = [
    "Citation",
    "Evidence",
    "Finding",
    "Gap",
    "GroundtraceError",
    "InvalidVerdict",
    "Passage",
    "Plan",
    "PlanError",
    "PlatformError",
    "Record",
    "Ref",
    "Report",
    "Score",
    "Scorecard",
    "Span",
    "Trace",
    "braintrust",
    "evaluate",
    "judge",
    "langsmith",
    "otel",
    "read",
    "record",
    "rubric",
    "run",
]

_HOMES = MappingProxyType(
    {
        "attach": ("braintrust", "langsmith", "otel"),
        "errors": ("GroundtraceError", "InvalidVerdict", "PlanError", "PlatformError"),
        "evaluate": ("evaluate",),
        "model": (
            *("Citation", "Evidence", "Finding", "Gap", "Passage", "Record", "Ref", "Score", "Scorecard", "Span"),
            "Trace",
        ),
        "plan": ("Plan",),
        "plugins": ("judge", "rubric"),
        "read": ("read", "record"),
        "run": ("Report", "run"),
    }
)
"""Which module each public name lives in."""


class _Face(ModuleType):
    """The package as a module whose public names win over submodules of the same name.

    `groundtrace.run` is the function, also once something has imported the module `groundtrace.run`.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in _HOMES.get(name, ()):
            value = getattr(value, name)
        super().__setattr__(name, value)


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("groundtrace")  # reads files: only when asked
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Face
