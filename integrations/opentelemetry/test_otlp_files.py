"""The files for a collector and for systemd say what the command line takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import httpx2

from backend import backend
from serving import serving

HERE = Path(__file__).parent


def test_the_service_starts_and_sends_on(tmp_path: Path) -> None:
    """Its own line, on places of this test."""
    unit = (HERE / "groundtrace-otlp.service").read_text(encoding="utf-8")
    line = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert line
    program, *words = shlex.split(line[1])
    assert program.endswith("/groundtrace")
    assert words[:2] == ["serve", "otlp"]
    with backend() as there:
        given = dict(zip(words[2::2], words[3::2], strict=True))
        assert given.keys() == {"--grpc", "--forward", "--forward-headers-env", "--spool"}
        forward = ("--forward", there.http, "--forward-headers-env", given["--forward-headers-env"])
        with serving(tmp_path / "s", *forward, "--sample", "0", env={"BACKEND_HEADERS": "api-key=k"}) as server:
            record = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "said"}}]}]}]}
            assert httpx2.post(f"{server.url}/v1/logs", json=record, trust_env=False).status_code == 200
            server.until(there.logs)
            server.stop()
        assert there.came[0].headers["api-key"] == "k"


def test_the_collectors_addresses_are_those_that_are_listened_at() -> None:
    """HTTP where it is by itself, gRPC where the comment says so."""
    copy, proxy = ((HERE / f"collector-{name}.yaml").read_text(encoding="utf-8") for name in ("copy", "proxy"))
    assert "endpoint: http://127.0.0.1:4318" in copy
    assert "serve otlp --grpc 127.0.0.1:4317" in proxy
    assert re.search(r"otlp/groundtrace:\n    endpoint: 127\.0\.0\.1:4317", proxy)
