"""What the proxy of `groundtrace serve otlp` holds while spans go through it at full speed, for as long as you like.

    python tests/benchmarks/otlp_soak.py [SECONDS] [SHARE]

Traces of ten spans are sent by four connections to the server, a process of its own, which sends them on to a backend
that counts them; SHARE of the traces (0.01) are judged offline. Twice a second the server's resident memory is read.
It must be flat (the last third no more than a tenth above the second) and never more than 250 MB; every span that was
taken must have arrived.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service

sys.path.insert(0, str(Path(__file__).parent.parent))

from backend import backend, items
from serving import Serving, serving

MOST_MB, FLAT = 250, 1.10
TRACES, SENDERS = 50, 4


def request(pick: random.Random) -> bytes:
    """Traces of ten spans: a question, what was retrieved, an answer and eight steps."""
    made = trace_service.ExportTraceServiceRequest()
    group = made.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "soak"
    scope = group.scope_spans.add()
    scope.scope.name = "openinference.soak"
    now = time.time_ns()
    for _ in range(TRACES):
        trace_id, town = pick.randbytes(16), pick.randrange(10**6)
        fact = f"The tower of town {town} opens at {pick.randint(5, 11)}:30 every day"
        root = pick.randbytes(8)
        told: list[dict[str, str]] = [
            {
                "openinference.span.kind": "CHAIN",
                "input.value": f"When does {town} open?",
                "output.value": f"{fact} [1].",
            },
            {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": f"{fact}."},
            *({"openinference.span.kind": "CHAIN", "note": pick.randbytes(50).hex()} for _ in range(8)),
        ]
        for at, held in enumerate(told):
            ids = {"trace_id": trace_id, "span_id": root if not at else pick.randbytes(8)}
            span = scope.spans.add(**ids, name=f"step {at}", start_time_unix_nano=now, end_time_unix_nano=now + 10**8)
            if at:
                span.parent_span_id = root
            for key, value in held.items():
                span.attributes.add(key=key).value.string_value = value
    return bytes(made.SerializeToString())


def send(server: Serving, seed: int, over: threading.Event, taken: list[int], turned: list[int]) -> None:
    """Send until it is over; what is turned away is sent again."""
    pick = random.Random(seed)
    with httpx2.Client(trust_env=False, timeout=60) as client:
        while not over.is_set():
            body = request(pick)
            while True:
                headers = {"Content-Type": "application/x-protobuf"}
                answer = client.post(f"{server.url}/v1/traces", content=body, headers=headers)
                if answer.status_code == 200:
                    taken.append(TRACES * 10)
                    break
                turned.append(answer.status_code)
                time.sleep(float(answer.headers.get("retry-after", 1)))


def memory(server: Serving) -> float:
    """Resident memory in MB."""
    assert server.process
    for line in Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def main(seconds: float = 120, share: float = 0.01) -> None:
    """Run, tell, and fail where it is not flat."""
    arrived = [0]
    lock = threading.Lock()

    def count(came: Any) -> tuple[int, dict[str, str]]:
        n = sum(1 for _ in items(came.message))
        with lock:
            arrived[0] += n
        return 200, {}

    with tempfile.TemporaryDirectory() as folder, backend() as there:
        there.refuse = count
        words = ("--sample", str(share), "--idle", "5", "--forward", there.http, "--rubric", "source_support")
        with serving(Path(folder) / "s", *words) as server:
            over, taken, turned, held = threading.Event(), list[int](), list[int](), list[float]()
            begun = time.monotonic()
            senders = [
                threading.Thread(target=send, args=(server, seed, over, taken, turned)) for seed in range(SENDERS)
            ]
            for sender in senders:
                sender.start()
            while time.monotonic() - begun < seconds:
                held.append(memory(server))
                time.sleep(0.5)
            over.set()
            for sender in senders:
                sender.join()
            took = time.monotonic() - begun
            health = server.health()
            server.stop()
    print(f"{sum(taken):,} spans taken in {took:.0f} s ({sum(taken) / took:,.0f} a second), {len(turned)} turned away")
    print(f"{arrived[0]:,} arrived; judged {health['traces'].get('judged', 0):,} traces; {health['waiting']}")
    third = len(held) // 3
    first, second, last = (sum(part) / third for part in (held[:third], held[third : 2 * third], held[-third:]))
    print(f"memory: {first:.0f}, {second:.0f}, {last:.0f} MB in the thirds, {max(held):.0f} MB at most")
    assert arrived[0] == sum(taken), "a span was lost, or came twice"
    assert max(held) <= MOST_MB, "too much is held"
    assert last <= FLAT * second, "it grows"


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
