"""Whether a model can judge: one case is put to it, as any other would be, and what it says goes through no gate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from groundtrace.errors import PlatformError
from groundtrace.model import Case, Check

if TYPE_CHECKING:
    from groundtrace.judges.llm import LlmJudge
    from groundtrace.model import Reply

_SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer"}, "rationale": {"type": "string"}},
    "required": ["score", "rationale"],
    "additionalProperties": False,
}
_CASE = Case(
    rubric="doctor",
    version="1",
    record_id="doctor",
    slot="1",
    prefix=(
        "Say how well the passage supports the claim, from 1 (not at all) to 5 (word for word). Reply with one JSON "
        'object: {"score": INTEGER, "rationale": TEXT}.'
    ),
    body={"claim": "The ferry leaves at nine.", "passage": "The ferry leaves at 9:00 from pier 2."},
    schema=_SCHEMA,
)


def checks(judge: LlmJudge) -> Iterator[Check]:
    """What is well and what is not: whether it answers, in which shape, and what one case costs."""
    try:
        ((_, reply),) = judge.hear([_CASE], lambda _case, _reply: None)
    except PlatformError as error:
        yield Check(judge.id, well=False, detail=str(error), remedy="mend the key, the model's name or the address")
        return
    if reply.fault is not None:
        yield Check(
            judge.id, well=False, detail=reply.fault, remedy="try again; raise timeout and deadline if it is slow"
        )
        return
    latency = f"{reply.latency or 0:.1f} s"
    yield Check(judge.id, well=True, detail=f"answers in {latency}")
    yield _shape(judge, reply)
    yield _price(judge, reply)


def _shape(judge: LlmJudge, reply: Reply) -> Check:
    told = "; ".join(judge.notes()) or "JSON schema is taken"
    try:
        well = {"score", "rationale"} <= set(json.loads(reply.text)) and not reply.stop
    except ValueError:
        well = False
    remedy = "" if well else "name another model: this one does not reply in JSON"
    return Check(
        "structured output", well=well, detail=told if well else f"{told}; it said {reply.text[:80]!r}", remedy=remedy
    )


def _price(judge: LlmJudge, reply: Reply) -> Check:
    usage = reply.usage
    tokens = f"{usage.input} tokens in, {usage.output} out" if usage else "no tokens were told"
    if reply.cost is None:
        remedy = "give input_price and output_price, in US dollars a million tokens, if a cap is wanted"
        return Check("price", well=not judge.priced, detail=f"{tokens}; not known", remedy=remedy)
    return Check("price", well=True, detail=f"{tokens}; {reply.cost:.6f} US dollars for this case")
