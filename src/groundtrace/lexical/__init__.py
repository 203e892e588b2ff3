"""Word statistics of English text: numbers, dates, names, overlap, and how well passages cover a claim.

Deterministic, pure and linear in the text. `words` reads one text; `cover` holds a claim against passages;
`clashes` shows where they say otherwise.
"""

from groundtrace.lexical.clashes import SAME_WORDS, Clash, clash
from groundtrace.lexical.cover import COVERING, WEIGHTS, Comparison, Passages, Tokens, clauses, compare, is_english
from groundtrace.lexical.words import (
    content_words,
    dates,
    derivable,
    minus_before,
    names,
    numbers,
    overlap,
    unsure_dates,
)

__all__ = [
    "COVERING",
    "SAME_WORDS",
    "WEIGHTS",
    "Clash",
    "Comparison",
    "Passages",
    "Tokens",
    "clash",
    "clauses",
    "compare",
    "content_words",
    "dates",
    "derivable",
    "is_english",
    "minus_before",
    "names",
    "numbers",
    "overlap",
    "unsure_dates",
]
