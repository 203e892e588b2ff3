"""What other people's systems send to an address of ours: the messages of platforms' rules, and OTLP.

Needs the extra `serve`.
"""

from __future__ import annotations

from groundtrace.errors import PlanError

try:
    import starlette
    import uvicorn
except ImportError:
    raise PlanError(
        "serve", "starlette and uvicorn", "are not installed", hint="pip install 'groundtrace[serve]'"
    ) from None

__all__ = ["starlette", "uvicorn"]
