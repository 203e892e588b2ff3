"""What a spec says where it may say several things: a list, a table, an id for a name."""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Iterable, Mapping

from groundtrace.errors import PlanError

_ALIKE = 0.6
"""How much of two names must agree for one to be meant by the other."""

VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
"""How a variable is called that holds a secret; whatever is called otherwise may be the secret, and is not shown."""


def pairs(told: str | Mapping[str, str]) -> Mapping[str, str]:
    """Metadata as a table, or as `key=value` in a text.

    >>> pairs("env=prod")
    {'env': 'prod'}
    """
    if not isinstance(told, str):
        return {str(key): str(value) for key, value in told.items()}
    key, equals, value = told.partition("=")
    if told and not (equals and key.strip()):
        raise PlanError(
            "metadata", told, "names no key and value", hint='write metadata=key=value, or { key = "value" }'
        )
    return {key.strip(): value} if told else {}


def listed(told: str | Iterable[str]) -> tuple[str, ...]:
    """One text or several, as several.

    >>> listed("prod"), listed(["a", "b"]), listed("")
    (('prod',), ('a', 'b'), ())
    """
    return ((told,) if told else ()) if isinstance(told, str) else tuple(told)


def is_id(name: str) -> bool:
    """Whether a name is an id, as platforms give them.

    >>> is_id("5bd1f311-bbfd-4b59-8478-85223d8a1f11"), is_id("my-project")
    (True, False)
    """
    try:
        uuid.UUID(name)
    except ValueError:
        return False
    return True


def meant(name: str, names: Iterable[str]) -> str:
    """The question whether another name was meant, to stand before a sentence; "" where none looks like it.

    >>> meant("bikedesk", ["bike-desk", "tent-desk"]), meant("bikedesk", [])
    ("did you mean 'bike-desk'? ", '')
    """
    near = difflib.get_close_matches(name, [*names], n=1, cutoff=_ALIKE)
    return f"did you mean {near[0]!r}? " if near else ""
