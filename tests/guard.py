"""What every test is held to: no socket leaves this machine, whoever opens it."""

from __future__ import annotations

import ipaddress
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

_strays: list[str] = []


def _loopback(host: object) -> bool:
    if host in (None, "", "localhost", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host)).is_loopback
    except ValueError:
        return False


def _watch(event: str, args: tuple[object, ...]) -> None:
    """Refuse what would leave the machine, and remember it even where the refusal is swallowed."""
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    if not _loopback(host):
        _strays.append(f"{event} {host!r}")
        raise PermissionError(f"tests stay on this machine: {event} {host!r}")


sys.addaudithook(_watch)

# what a machine's other work takes is no finding; that something hangs is seen without a clock
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def no_stray_sockets() -> Iterator[None]:
    """Fail a test that tried to leave the machine, also where it caught the refusal."""
    _strays.clear()
    yield
    assert not _strays, f"this test tried to leave the machine: {_strays}"
