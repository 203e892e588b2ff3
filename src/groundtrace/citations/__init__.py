"""What an answer states and what it cites for it: citations, claims, abstention, with offsets that really quote.

`layout` sets aside what is no prose; `markers` finds the marks that are marks by their form and `signs` those that are
by their use, `index` what they point to; `statements` cuts the prose into statements, `speech` knows how an answer says
that it can't answer; `cite` and `claims` put them together.
"""

from groundtrace.citations.cite import abstention, cite, claims

__all__ = ["abstention", "cite", "claims"]
