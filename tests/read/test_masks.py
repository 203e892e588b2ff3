"""A mask is known whatever it says, a text that speaks between masks is none, and neither takes long."""

from __future__ import annotations

import pytest

from groundtrace.read.masks import holds_mask, is_mask


@pytest.mark.parametrize(
    "text", ["__REDACTED_EMAIL__", "__redacted: a name__", "__REDACTED__", "[REDACTED], ***; <NAME>"]
)
def test_a_mask_that_says_what_it_hides_is_a_mask(text: str) -> None:
    """In any of the brackets people use."""
    assert is_mask(text)


@pytest.mark.parametrize("text", ["__redacted__ and said __redacted__", "[redacted] was [redacted]", ", ;", "***a***"])
def test_words_between_masks_are_no_mask(text: str) -> None:
    """What can be read is there."""
    assert not is_mask(text)


def test_a_masked_part_is_seen_in_a_longer_text() -> None:
    """Its brackets end it."""
    assert holds_mask("Call [REDACTED: phone number] at nine.")


@pytest.mark.parametrize("piece", ["***", "__redacted__", "[scrubbed due to a]", "__redacted__ __", "xxxx", "••• "])
def test_masks_in_a_row_are_looked_at_once(piece: str) -> None:
    """A pattern that tried every way to part them would not return."""
    assert not is_mask(piece * (1900 // len(piece)) + "!")
