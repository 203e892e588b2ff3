"""Real SDKs export through the proxy, which is killed in between: nothing is lost, nothing judged twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

from backend import Backend, attributes, backend, ident
from groundtrace.model import Ref
from groundtrace.sampling import sample
from serving import PATIENCE, emitted, emitting, serving

APPS = (("python", "http", 1500), ("python", "grpc", 1500), ("javascript", "proto", 1000), ("javascript", "json", 1000))
"""What exports, how, and how many traces of ten spans."""

SHARE = 0.05
WORDS = ("--sample", str(SHARE), "--rubric", "source_support", "--idle", "2", "--deadline", "120")


def test_fifty_thousand_spans_at_full_speed_and_a_kill(tmp_path: Path) -> None:
    """Every span arrives, twice only if its request was in flight; each trace of the sample is scored once."""
    cards = tmp_path / "cards.jsonl"
    with (
        backend() as there,
        serving(tmp_path / "s", "--forward", there.http, "--to", f"jsonl:{cards}", *WORDS) as server,
    ):
        urls = {"grpc": f"http://127.0.0.1:{server.grpc_port}"}
        outs = [tmp_path / f"{kind}-{protocol}.json" for kind, protocol, _ in APPS]
        apps = [
            emitting(kind, protocol, urls.get(protocol, server.url), traces, out)
            for (kind, protocol, traces), out in zip(APPS, outs, strict=True)
        ]
        server.until(lambda: len(there.spans()) > 10_000)
        before = time.time()
        server.kill()
        after = time.time()
        in_flight = _last(there)
        server.start()
        assert [app.wait(timeout=PATIENCE) for app in apps] == [0] * len(apps)
        exports = [export for out in outs for export in emitted(out)]
        everything = {span for export in exports for span in export.ids}
        assert len(everything) == 50_000
        server.until(lambda: len({ident(span) for span in there.spans()}) == len(everything))
        picked = {trace for trace, _ in everything if sample(SHARE)(Ref("otel", trace_id=trace), ())}
        server.until(lambda: server.health()["waiting"]["traces"] == 0)
        server.stop()
        came = Counter(ident(span) for span in there.spans())
        assert came.keys() == everything
        in_flight |= {span for one in exports if one.begin <= after and one.end >= before for span in one.ids}
        assert {span for span, n in came.items() if n > 1} <= in_flight
        told = [json.loads(line) for line in cards.read_text(encoding="utf-8").splitlines()]
        assert Counter(card["trace_id"] for card in told) == Counter(picked)
        assert {card["status"] for card in told} == {"scored"}
        scored = {ident(span)[0] for span in there.spans() if "gen_ai.evaluation.name" in attributes(span)}
        assert scored == picked


def _last(there: Backend) -> set[tuple[str, str]]:
    """The spans of the last request of each connection: the only ones the proxy may not know to have arrived."""
    with there.lock:
        last = {one.by: one for one in there.came}
    return {ident(span) for one in last.values() for span in one.items}
