"""Scores as Prometheus' metrics: served while a command goes on, or in a file that is whole at any moment.

A counter says what this process did since it began, as Prometheus' counters do; a file says what the run it is of was
about, the same however often that is run. Either way a card is counted once, and again only when its content changed.
The instruments are OpenTelemetry's, and its own exporter spells them for Prometheus.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from groundtrace.adapters.ledger import chunks, writable
from groundtrace.adapters.otel.metrics import Counted
from groundtrace.errors import PlanError
from groundtrace.model import Receipt, Scorecard

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

SUFFIX = ".prom"
"""How the name of a file ends that node-exporter reads."""

_EXTRA = "pip install 'groundtrace[prometheus]'"
_LAST = 65_535

_open: dict[object, _Exposed] = {}
_opening = threading.Lock()


class PrometheusSink:
    """Counts scores where Prometheus finds them: `prometheus:9464` serves them, `prometheus:scores.prom` is a file.

    A port is for commands that go on (`watch`, `serve`): it listens on `host`, this machine alone unless told, from
    when the plan is opened until the command ends. A file is for runs that end: it is replaced whole, and
    node-exporter's textfile collector reads it (`--collector.textfile.directory`). Nothing in them names a trace.
    """

    name = "prometheus"
    updates: Literal["upsert", "append"] = "append"

    def __init__(self, place: str, *, host: str = "127.0.0.1") -> None:
        self.files: tuple[Path, ...] = ()
        if place.isdecimal():
            self._exposed = _served(host, _port(place))
            return
        path = Path(place)
        if path.suffix != SUFFIX:
            hint = f"name a port, as 9464, or a file whose name ends in {SUFFIX}"
            raise PlanError("prometheus", place, "is neither a port nor a file of Prometheus'", hint=hint)
        if not path.parent.exists():  # one that is made by a mistyped name is read by nobody
            folder = str(path.parent)
            raise PlanError("prometheus", folder, "is not there", hint=f"mkdir -p {shlex.quote(folder)} makes it")
        writable(path.parent, [path])
        self.files = (path,)
        self._exposed = _opened(path.absolute())

    @property
    def port(self) -> int | None:
        """Where it listens; None where it is a file."""
        return self._exposed.port

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Count the cards in, and say so once a file holds them."""
        for chunk in chunks(cards):
            yield from self._exposed.counted.told(chunk, self.name, self._exposed.save)


class _Exposed:
    """One place of this process, whoever opens it: every round of a watch opens it anew."""

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.port = path, None if path else 0
        self.registry, self.counted = _made()
        self._lock = threading.Lock()

    def save(self, new: bool) -> str:  # noqa: FBT001 - the form `Counted` asks for
        """Put what is counted into the file, if there is one and it is not there yet; why that could not be."""
        if self.path is None:
            return ""
        from prometheus_client import write_to_textfile  # noqa: PLC0415 - of an extra

        with self._lock:
            if new or not self.path.exists():
                try:
                    write_to_textfile(str(self.path), self.registry)
                except OSError as error:
                    return f"{self.path} can't be written: {error.strerror or error}"
        return ""


def _opened(path: Path) -> _Exposed:
    """What a file holds, as far as this process put it there."""
    with _opening:
        if path not in _open:
            _open[path] = _Exposed(path)
        return _open[path]


def _served(host: str, port: int) -> _Exposed:
    """What is served at a port of this process; PlanError where somebody else has it."""
    with _opening:
        if (host, port) in _open:
            return _open[host, port]
        made = _Exposed()
        from prometheus_client import start_http_server  # noqa: PLC0415 - of an extra

        try:
            server, _ = start_http_server(port, addr=host, registry=made.registry)
        except OSError as error:
            raise PlanError("prometheus", f"{host}:{port}", f"can't be listened at: {error.strerror}") from None
        made.port = server.server_port
        _open[host, port] = made
        return made


def _made() -> tuple[CollectorRegistry, Counted]:
    """A registry of our own with what is counted in it; PlanError where the packages are not there."""
    try:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415 - of an extra
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - same
    except ImportError:
        raise PlanError("prometheus", "opentelemetry-exporter-prometheus", "is not installed", hint=_EXTRA) from None
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - the SDK is loaded for a sink that is used
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - same

    registry = CollectorRegistry()
    told: dict[str, Any] = {"disable_target_info": True, "scope_info_enabled": False, "registry": registry}
    reader = PrometheusMetricReader(**told)
    provider = MeterProvider([reader], resource=Resource.get_empty(), shutdown_on_exit=False)
    return registry, Counted(provider.get_meter("groundtrace"))


def _port(place: str) -> int:
    if int(place) > _LAST:
        raise PlanError("prometheus", place, f"is no port: they go up to {_LAST:,}")
    return int(place)
