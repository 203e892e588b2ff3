"""Ids for what came without one, or with one that another has."""

from __future__ import annotations

import hashlib

from groundtrace.text import folded


def content_id(kind: str, text: str) -> str:
    """An id that is the same wherever the same text is.

    >>> content_id("p", "The Moon.") == content_id("p", "the  moon.")
    True
    """
    return f"{kind}-{hashlib.sha256(folded(text).encode('utf-8', 'replace')).hexdigest()[:12]}"


def unique_id(ident: str, taken: set[str]) -> str:
    """An id none of the others has: `#2`, `#3` ... is appended to one that is taken.

    >>> unique_id("a", {"a"})
    'a#2'
    """
    free = ident
    count = 1
    while free in taken:
        count += 1
        free = f"{ident}#{count}"
    taken.add(free)
    return free
