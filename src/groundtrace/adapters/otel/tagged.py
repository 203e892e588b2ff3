"""What OpenTelemetry writes into tags where a format has no field for it: kind, status, scope, dropped attributes.

Source: the specification's rules for formats other than OTLP.
"""

from __future__ import annotations

from msgspec.structs import replace

from groundtrace.adapters.values import integer, word
from groundtrace.model import Span

_KINDS = frozenset({"internal", "server", "client", "producer", "consumer"})
_STATUSES = frozenset({"ok", "error", "unset"})
_SCOPES = ("otel.scope.name", "otel.library.name")
_TAKEN = frozenset(
    {
        *_SCOPES,
        *("otel.scope.version", "otel.library.version", "otel.status_code", "otel.status_description"),
        *("otel.dropped_attributes_count", "span.kind", "internal.span.format"),
    }
)


def of_tags(span: Span, kind: str = "") -> Span:
    """The span with what its tags say of it moved to where it belongs."""
    tags = span.attributes
    error = tags.get("error")
    said = word(tags.get("otel.status_code")).lower()
    failed = error is not None and error is not False and error != "false"
    status = said if said in _STATUSES else "error" if failed else "unset"
    message = word(tags.get("otel.status_description")) or (word(error) if error not in ("true", "false") else "")
    kind = (kind or word(tags.get("span.kind"))).lower()
    plain = error is None or isinstance(error, bool) or error in ("true", "false") or error == message
    taken = _TAKEN | {"error"} if plain else _TAKEN
    return replace(
        span,
        kind=kind if kind in _KINDS else "internal",
        status=status,
        status_message=message if status == "error" else "",
        scope=next((word(tags[name]) for name in _SCOPES if name in tags), ""),
        attributes={key: value for key, value in tags.items() if key not in taken},
        dropped=max(0, integer(word(tags.get("otel.dropped_attributes_count")) or None) or 0),
    )
