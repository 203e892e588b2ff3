"""What happens to a request: rules, tried in their order; the first whose `when` fits says what to `do`.

A script is JSON: `{"rules": [{"when": {...}, "do": {...}, "times": n}], "base": {...}, ...}`. What no rule fits gets
`base`, which also fills in what a rule leaves open. A word nobody knows is refused, so that no rule is silently idle.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .asked import Asked
from .spoil import WAYS

Act = dict[str, Any]
Test = Callable[[Asked], bool]

ACTS = frozenset(
    [
        "answer",
        "spoil",
        "refuse",
        "finish",
        "thoughts",
        "status",
        "kind",
        "code",
        "message",
        "retry_after",
        "retry_as",
        "headers",
        "raw",
        "reset",
        "hang",
        "drip",
        "wait",
        "usage",
        "as_model",
        "blocked",
    ]
)
"""What can be done; see the README."""

_SETTINGS = {"rules", "base", "keep", "key", "strict", "models", "limits", "batch"}
_BATCH = {"polls", "end", "done", "lost", "shuffle", "refuse"}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _counts(value: Any) -> Callable[[int], bool]:
    """A number, several, or {"from": 2, "to": 5, "every": 3}."""
    if isinstance(value, Mapping):
        start, end, every = value.get("from", 1), value.get("to", float("inf")), value.get("every", 1)
        return lambda n: start <= n <= end and (n - start) % every == 0
    wanted = set(_listed(value))
    return lambda n: n in wanted


def _prompt(value: Any) -> Test:
    texts = _listed(value)
    return lambda asked: all(text in asked.prompt for text in texts)


def _nth(value: Any) -> Test:
    fits = _counts(value)
    return lambda asked: fits(asked.nth)


def _overall(value: Any) -> Test:
    fits = _counts(value)
    return lambda asked: fits(asked.overall)


def _share(value: Any) -> Test:
    """A share of the cases, the same ones in every run; with a second number another share of them."""
    share, seed = [*_listed(value), 0][:2]
    return lambda asked: random.Random(asked.mark * 31 + seed).random() < share


def _over_rate(value: Any) -> Test:
    """True for what comes while more than `requests` were let through in the last `per` seconds (a token bucket)."""
    size, per = float(value["requests"]), float(value.get("per", 1.0))
    held = {"tokens": float(value.get("burst", size)), "at": -1.0}
    most = held["tokens"]

    def over(asked: Asked) -> bool:
        passed = 0.0 if held["at"] < 0 else asked.at - held["at"]
        held["tokens"], held["at"] = min(most, held["tokens"] + passed * size / per), asked.at
        if held["tokens"] < 1:
            return True
        held["tokens"] -= 1
        return False

    return over


def _has(value: Any) -> Test:
    """Fields of the body, dotted: generationConfig.temperature."""
    paths = [str(path).split(".") for path in _listed(value)]

    def has(asked: Asked) -> bool:
        for path in paths:
            place: Any = asked.body
            for step in path:
                if not isinstance(place, Mapping) or step not in place:
                    return False
                place = place[step]
        return True

    return has


MATCHERS: dict[str, Callable[[Any], Test]] = {
    "prompt": _prompt,
    "not_prompt": lambda value: lambda asked: not any(text in asked.prompt for text in _listed(value)),
    "model": lambda value: lambda asked: asked.model in _listed(value),
    "dialect": lambda value: lambda asked: asked.dialect in _listed(value),
    "mode": lambda value: lambda asked: asked.mode in _listed(value),
    "has": _has,
    "batched": lambda value: lambda asked: asked.batched is value,
    "once_more": lambda value: lambda asked: asked.once_more is value,
    "nth": _nth,
    "overall": _overall,
    "share": _share,
    "before": lambda value: lambda asked: asked.at < value,
    "after": lambda value: lambda asked: asked.at >= value,
    "in_flight_over": lambda value: lambda asked: asked.in_flight > value,
    "over_rate": _over_rate,
}
"""What a request can be told by; all that a rule names must fit, the last ones asked last."""


@dataclass
class Rule:
    """One rule, ready to be asked."""

    tests: list[Test]
    act: Act
    left: float = float("inf")
    until: float | None = None
    """When a storm it makes is over, in seconds since the first request."""

    used: int = 0

    def fits(self, asked: Asked) -> bool:
        """Whether it decides this request; if so one of its times is used up."""
        if self.left <= 0 or not all(test(asked) for test in self.tests):
            return False
        self.left -= 1
        self.used += 1
        return True


@dataclass
class Script:
    """A script as the server follows it."""

    rules: list[Rule] = field(default_factory=list)
    base: Act = field(default_factory=dict)
    keep: int = 0
    key: str | None = None
    strict: bool = True
    models: list[str] = field(default_factory=list)
    limits: bool = True
    batch: dict[str, Any] = field(default_factory=dict)
    decide: Callable[[Asked], Mapping[str, Any] | None] | None = None
    """Asked before the rules, in the process of a test; None leaves it to them."""

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Script:
        """A script from its JSON; ValueError names the word that nobody knows."""
        _known(told, _SETTINGS, "a script")
        _known(told.get("batch", {}), _BATCH, "batch")
        base = dict(told.get("base", {}))
        rules = [_rule(rule, base) for rule in told.get("rules", [])]
        rest = {name: told[name] for name in ("keep", "key", "strict", "models", "limits", "batch") if name in told}
        return cls(rules, _act(base), **rest)

    def act(self, asked: Asked) -> Act:
        """What to do with a request."""
        if self.decide is not None:
            decided = self.decide(asked)
            if decided is not None:
                return {**self.base, **_act(decided)}
        for rule in self.rules:
            if rule.fits(asked):
                if rule.act.get("retry_after") == "rest":
                    return rule.act | {"retry_after": max(0.0, (rule.until or 0.0) - asked.at)}
                return rule.act
        return self.base


def _known(told: Mapping[str, Any], known: Any, where: str) -> None:
    strange = sorted(set(told) - set(known))
    if strange:
        raise ValueError(f"{where} knows no {', '.join(strange)}; it knows {', '.join(sorted(known))}")


def _rule(told: Mapping[str, Any], base: Act) -> Rule:
    _known(told, {"when", "do", "times"}, "a rule")
    when = told.get("when", {})
    _known(when, MATCHERS, "when")
    order = list(MATCHERS)  # counting ones last: a bucket gives a token only to what else fits
    tests = [MATCHERS[name](when[name]) for name in sorted(when, key=order.index)]
    return Rule(tests, _act({**base, **told.get("do", {})}), told.get("times", float("inf")), when.get("before"))


def _act(told: Mapping[str, Any]) -> Act:
    _known(told, ACTS, "do")
    how = told.get("spoil", [])
    _known(dict.fromkeys(_listed(how)), WAYS, "spoil")
    return dict(told)


def seconds(wait: Any, asked: Asked) -> float:
    """How long a reply takes: a number, or {"median": s, "sigma": x, "most": s, "seed": n} of a lognormal law.

    The law's draw is the case's own: the same run after run, however the requests are ordered.
    """
    if isinstance(wait, (int, float)):
        return float(wait)
    luck = random.Random((asked.mark * 1_000_003 + asked.nth) * 31 + wait.get("seed", 0))
    drawn = wait["median"] * pow(2.718281828459045, luck.gauss(0.0, wait.get("sigma", 0.6)))
    return float(min(drawn, wait.get("most", float("inf"))))


def stamp(moment: float) -> str:
    """A time as HTTP writes it."""
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(moment))
