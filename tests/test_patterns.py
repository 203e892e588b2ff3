"""Patterns mean the same on every Python this runs on, and take linear time without help from the newest."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import groundtrace

SOURCES = sorted(Path(groundtrace.__file__).parent.rglob("*.py"))
APART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
FOR_GOOD = re.compile(r"(?:[*+?]|\{\d*,?\d*\})\+|\(\?>")


def written(tree: ast.AST) -> Iterator[str]:
    """The strings of a module, what is filled in left out, without its docstrings."""
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            prose |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "_" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def never_gives_back(pattern: str) -> bool:
    """Whether a pattern has a quantifier or a group that gives nothing back."""
    return FOR_GOOD.search(APART.sub("_", pattern)) is not None


@pytest.mark.parametrize("source", SOURCES, ids=[path.name for path in SOURCES])
def test_no_pattern_has_a_possessive_quantifier_or_an_atomic_group(source: Path) -> None:
    r"""CPython before 3.11.5, which Debian 12 ships, matches them wrongly in a group (gh-106052).

    `re.match(r"(?P<d>\d++(?:[.,]\d++)*+)", "20, 1969")["d"]` is "20," there, and right from 3.11.5 on.
    """
    found = [text for text in written(ast.parse(source.read_text("utf-8"))) if never_gives_back(text)]
    assert not found


@pytest.mark.parametrize("pattern", [r"\d++", r"(?:a)*+", r"a?+", r"[ ]{2,3}+", r"x{4}+", r"(?>a|b)"])
def test_the_scan_knows_each_of_them(pattern: str) -> None:
    """Written alone and within a longer pattern."""
    assert never_gives_back(pattern)
    assert never_gives_back(rf"[*+]\++{pattern}$")


@pytest.mark.parametrize("pattern", [r"[-*+]", r"\++", r"[\w+-]+", r"a+b", r"\d{2,}", r"[^\]*+]", r"\?+"])
def test_the_scan_takes_no_sign_for_a_quantifier(pattern: str) -> None:
    """In brackets and behind a backslash it is a sign."""
    assert not never_gives_back(pattern)
