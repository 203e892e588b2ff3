"""What a call costs, by genai-prices or as the plan says; a price nobody knows is unknown and never 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from groundtrace.judges.llm.settings import Settings
    from groundtrace.model import Usage

Price: TypeAlias = "Callable[[Usage], float]"
"""US dollars for the tokens of one call."""

_PROBE = 1_000
_FLAT = 30_000
"""Up to so many input tokens every price list is flat: from there on each call is looked up for itself."""


def price_of(settings: Settings) -> Price | None:
    """The price of a model's calls, or None where it is not known."""
    if settings.input_price is not None and settings.output_price is not None:
        asked, told = settings.input_price / 1e6, settings.output_price / 1e6
        return lambda usage: usage.input * asked + usage.output * told
    if settings.server is not None:
        return None  # whoever serves there has prices of their own
    return _listed(settings.provider, settings.model)


def _listed(provider: str, model: str) -> Price | None:
    try:
        from genai_prices import Usage as Tokens
        from genai_prices import calc_price
    except ImportError:
        return None

    def looked_up(asked: int, told: int, cached: int) -> float:
        tokens = Tokens(input_tokens=asked, output_tokens=told, cache_read_tokens=cached)
        return float(calc_price(tokens, model_ref=model, provider_id=provider).total_price)

    try:
        fresh, kept, told = looked_up(_PROBE, 0, 0), looked_up(_PROBE, 0, _PROBE), looked_up(0, _PROBE, 0)
    except LookupError:
        return None

    def price(usage: Usage) -> float:
        if usage.input > _FLAT:
            return looked_up(usage.input, usage.output, usage.cached)
        return ((usage.input - usage.cached) * fresh + usage.cached * kept + usage.output * told) / _PROBE

    return price
