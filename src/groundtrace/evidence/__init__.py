"""A judge's words held against the record: where a quote stands, what a passage carries, what a rationale made up.

`quotes` finds quotes, `facts` compares what texts hold, `rationale` looks for facts that stand nowhere. All pure.
"""

from groundtrace.evidence.facts import carries, paraphrases, tells_the_same
from groundtrace.evidence.quotes import locate
from groundtrace.evidence.rationale import Rationale, check_rationale

__all__ = ["Rationale", "carries", "check_rationale", "locate", "paraphrases", "tells_the_same"]
