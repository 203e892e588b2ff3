"""Word statistics of English text: numbers, dates, names, overlap, and how well passages cover a claim.

Deterministic, pure and linear in the text. `words` reads one text; `cover` holds a claim against passages.
"""

from groundtrace.lexical.cover import COVERING, WEIGHTS, Comparison, Passages, Tokens, compare
from groundtrace.lexical.words import content_words, dates, derivable, names, numbers, overlap

__all__ = [
    "COVERING",
    "WEIGHTS",
    "Comparison",
    "Passages",
    "Tokens",
    "compare",
    "content_words",
    "dates",
    "derivable",
    "names",
    "numbers",
    "overlap",
]
