"""What an answer states and what it cites for it: citations, claims, abstention, with offsets that really quote.

`markers` finds the citation marks, `layout` sets aside what is no prose, `statements` cuts the prose into statements,
`abstaining` knows how an answer says that it can't answer; `cite` and `claims` put them together.
"""

from groundtrace.citations.cite import abstention, cite, claims

__all__ = ["abstention", "cite", "claims"]
