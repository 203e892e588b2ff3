"""What the smoke tests are held to: the same as every test."""

from guard import no_stray_sockets
from servers import mlflow_server, phoenix_server

__all__ = ["mlflow_server", "no_stray_sockets", "phoenix_server"]
