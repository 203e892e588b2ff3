"""What the smoke tests are held to: the same as every test."""

from guard import no_stray_sockets

__all__ = ["no_stray_sockets"]
