"""What our scores are called on Braintrust, in its logs and in its experiments alike."""

from __future__ import annotations

from groundtrace.adapters.published import PREFIX


def name_of(score: str) -> str:
    """A score's name on Braintrust: without dots, which its query language would want quoted.

    >>> name_of("rag_faithfulness.claim_support")
    'groundtrace_rag_faithfulness_claim_support'
    """
    return f"{PREFIX}{score}".replace(".", "_")
