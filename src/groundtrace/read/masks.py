"""What a user masked: texts that are a mask, and texts with a mask in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from groundtrace.model import Document, Reading, Said

_SAID = r"(?:redacted|masked|filtered|hidden|scrubbed)"
_SAYS = _SAID + r"(?:[ _:-][\w :.-]{0,60})?"
_UNDERLINED = _SAID + r"(?:(?:[ :-]|_(?!_))(?:[^\W_]|_(?!_)|[ :.-]){0,60})?"  # ends at the first two lines
_KINDS = (
    r"(?:PERSON|NAME|E?MAIL|EMAIL_ADDRESS|PHONE|PHONE_NUMBER|ADDRESS|LOCATION|ORGANI[SZ]ATION|DATE_TIME|DATE_OF_BIRTH|"
    r"CREDIT_CARD|IBAN_CODE|IP_ADDRESS|SSN|US_SSN|NRP|PII|SECRET|API_KEY|PASSWORD)(?:_\d{1,4})?"
)
_MASK = re.compile(
    rf"__(?i:{_UNDERLINED})__|\*\*(?i:{_SAYS})\*\*|\[(?i:{_SAYS})\]|<(?i:{_SAYS})>"
    rf"|\[(?i:scrubbed due to)[^\]]{{0,200}}\]|[\[<]{_KINDS}[\]>]"
    rf"|REDACTED|MASKED|\*{{3,}}|[xX]{{4,}}|[█▇■]{{2,}}|[•●]{{3,}}"
)
_BETWEEN = re.compile(r"[\s,;.]*")
_HIDDEN = r"(?:REDACTED|MASKED)(?:[ _:-][\w :.-]{0,60})?"
_INSIDE = re.compile(rf"__(?:REDACTED|MASKED)__|\[{_HIDDEN}\]|<{_HIDDEN}>")
_LONGEST = 2_000
_MANY = 10_000


def is_mask(text: str) -> bool:
    """Whether a text says that its user had it masked, and says nothing else.

    >>> is_mask("__REDACTED__"), is_mask("[REDACTED_EMAIL]"), is_mask("The file was redacted.")
    (True, True, False)
    """
    left, masks = _MASK.subn("", text[: _LONGEST + 1])
    return masks > 0 and len(text) <= _LONGEST and _BETWEEN.fullmatch(left) is not None


def holds_mask(text: str) -> bool:
    """Whether a text is masked, or a part of it is by a token nobody writes for another reason.

    >>> holds_mask("The fee is [REDACTED]."), holds_mask("One. *** Two."), holds_mask("It was [redacted].")
    (True, False, False)
    """
    return is_mask(text) or (("REDACTED" in text or "MASKED" in text) and _INSIDE.search(text) is not None)


def veiled(reading: Reading) -> Reading:
    """A reading whose answer and documents are masked where a part of them is: they are not judged as if whole."""
    if not any(said.legible and holds_mask(said.value) for said in _judged(reading)):
        return reading
    tool = reading.tool
    return replace(
        reading,
        output=_veiled(reading.output),
        documents=None if reading.documents is None else _all_veiled(reading.documents),
        messages=tuple(
            replace(
                message,
                documents=_all_veiled(message.documents),
                tools=tuple(replace(t, documents=_all_veiled(t.documents)) for t in message.tools),
            )
            for message in reading.messages
        ),
        tool=None if tool is None else replace(tool, documents=_all_veiled(tool.documents)),
    )


def _judged(reading: Reading) -> Iterator[Said]:
    """What of a reading is judged: the answer, and the texts it may lean on."""
    tools = (t for m in reading.messages for t in m.tools)
    handed = [*(m.documents for m in reading.messages), *(t.documents for t in tools), reading.documents or ()]
    documents = (d for ds in (*handed, reading.tool.documents if reading.tool else ()) for d in ds)
    said = (reading.output, *(d.text for d in islice(documents, _MANY)))
    return (s for s in said if s is not None)


def _all_veiled(documents: tuple[Document, ...]) -> tuple[Document, ...]:
    return tuple(replace(d, text=_veiled(d.text)) for d in documents)


def _veiled(said: Said | None) -> Said | None:
    return replace(said, state="masked") if said and said.legible and holds_mask(said.value) else said
