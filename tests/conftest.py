"""What every test is held to."""

from guard import no_stray_sockets

__all__ = ["no_stray_sockets"]
