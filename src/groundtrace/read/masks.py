"""What a user masked: texts that are a mask, and texts with a mask in them."""

from __future__ import annotations

import re

from msgspec.structs import replace

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
MASKS_START = frozenset("_*[<RMxX█▇■•● \t\n\r\f\v,;.\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    chr(code) for code in range(0x2000, 0x200B)
}
"""What a mask, or the white space before one, starts with: most texts start otherwise and are looked at no further."""

_HIDDEN = r"(?:REDACTED|MASKED)(?:[ _:-][\w :.-]{0,60})?"
_INSIDE = re.compile(rf"__(?:REDACTED|MASKED)__|\[{_HIDDEN}\]|<{_HIDDEN}>")
_LONGEST = 2_000
_MANY = 10_000
_LEGIBLE = ("present", "damaged")


def is_mask(text: str) -> bool:
    """Whether a text says that its user had it masked, and says nothing else.

    >>> is_mask("__REDACTED__"), is_mask("[REDACTED_EMAIL]"), is_mask("The file was redacted.")
    (True, True, False)
    """
    if text[:1] not in MASKS_START or len(text) > _LONGEST:
        return False
    at, found = _past(text, 0), False
    while (mask := _MASK.match(text, at)) is not None:
        at, found = _past(text, mask.end()), True
    return found and at == len(text)


def _past(text: str, at: int) -> int:
    """Where what stands between masks ends."""
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def holds_mask(text: str) -> bool:
    """Whether a text is masked, or a part of it is by a token nobody writes for another reason.

    >>> holds_mask("The fee is [REDACTED]."), holds_mask("One. *** Two."), holds_mask("It was [redacted].")
    (True, False, False)
    """
    if text[:1] in MASKS_START and is_mask(text):
        return True
    return ("REDACTED" in text or "MASKED" in text) and _INSIDE.search(text) is not None


def veiled(reading: Reading) -> Reading:
    """A reading whose answer and documents are masked where a part of them is: they are not judged as if whole."""
    if not _hides_something(reading):
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


def _hides_something(reading: Reading) -> bool:
    """Whether a part of what is judged is masked: of the answer, or of the texts it may lean on."""
    if reading.output is not None and _is_veiled(reading.output):
        return True
    if reading.documents and _any_veiled(reading.documents):
        return True
    if reading.tool is not None and reading.tool.documents and _any_veiled(reading.tool.documents):
        return True
    for message in reading.messages:
        if message.documents and _any_veiled(message.documents):
            return True
        if message.tools and any(_any_veiled(tool.documents) for tool in message.tools):
            return True
    return False


def _any_veiled(documents: tuple[Document, ...]) -> bool:
    for document in documents[:_MANY]:  # noqa: SIM110 - asked of every document there is
        if _is_veiled(document.text):
            return True
    return False


def _is_veiled(said: Said | None) -> bool:
    return said is not None and said.state in _LEGIBLE and holds_mask(said.value)


def _all_veiled(documents: tuple[Document, ...]) -> tuple[Document, ...]:
    return tuple(replace(d, text=_veiled(d.text)) for d in documents)


def _veiled(said: Said | None) -> Said | None:
    return replace(said, state="masked") if said is not None and _is_veiled(said) else said
