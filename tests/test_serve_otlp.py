"""What exporters send is taken or clearly refused, judged, and sent on once; whatever it is, nothing breaks."""

from __future__ import annotations

import base64
import gzip
import json
import random
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
import zstandard
from google.protobuf import json_format
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service

from backend import attributes, backend, ident, items
from groundtrace.adapters.otel.requests import METHODS, Malformed, enriched, halves, taken
from groundtrace.errors import PlanError
from groundtrace.model import Ref
from groundtrace.plan import Plan
from groundtrace.run import run
from groundtrace.sampling import sample
from groundtrace.serve import intake, otlp
from groundtrace.serve.assembly import Limits
from groundtrace.serve.grpc import Grpc
from groundtrace.serve.intake import Answer, unpacked
from groundtrace.serve.listening import answering
from groundtrace.serve.otlp import Server, Settings
from groundtrace.store import open_store
from killed import corpus
from serving import Serving, serving
from terminal import groundtrace

TOKEN = "a-token-nobody-guesses"
PROTOBUF, JSON = {"Content-Type": "application/x-protobuf"}, {"Content-Type": "application/json; charset=utf-8"}


def traces(folder: Path, n: int = 3) -> dict[str, Any]:
    """A request with traces of two spans each, as JSON has it."""
    lines = corpus(folder / "corpus.jsonl", n).read_text(encoding="utf-8").splitlines()
    return {"resourceSpans": [group for line in lines for group in json.loads(line)["resourceSpans"]]}


def in_protobuf(told: Mapping[str, Any], kind: Any = trace_service.ExportTraceServiceRequest) -> bytes:
    """The same in protobuf, by OpenTelemetry's own messages."""
    return bytes(json_format.ParseDict(_in_base64(told), kind()).SerializeToString())


def _in_base64(value: Any) -> Any:
    """OTLP JSON writes ids in hex, protobuf's parser wants base64."""
    if isinstance(value, list):
        return [_in_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in ids else _in_base64(item)
        for key, item in value.items()
    }


def log(trace_id: str = "", body: str = "said") -> dict[str, Any]:
    """A request with one log record."""
    record = {"timeUnixNano": "7", "body": {"stringValue": body}} | ({"traceId": trace_id} if trace_id else {})
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}


@contextmanager
def server(folder: Path, **more: Any) -> Iterator[tuple[httpx2.Client, Server]]:
    """A server that takes, and judges nothing."""
    tell = more.pop("tell", str)
    told = {"spool": folder / "spool", "idle": 1000.0} | more
    plan = Plan(sources="otel:-", sinks=(f"jsonl:{folder}/cards.jsonl",), sample=1.0)
    at = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{at.getsockname()[1]}"
    with open_store(folder / "store.db") as store:
        made = Server(plan, Settings(**told), store, tell)
        with (
            made.spool,
            answering(made.app(), at, most=64, seconds=30),
            httpx2.Client(base_url=url, trust_env=False) as c,
        ):
            yield c, made


PACKED: Mapping[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("encoding", PACKED)
def test_protobuf_and_json_are_taken_alike(tmp_path: Path, encoding: str) -> None:
    """Packed or not; the answer is spelled as the question."""
    told = traces(tmp_path)
    forms = {"application/x-protobuf": in_protobuf(told), "application/json": json.dumps(told).encode()}
    with server(tmp_path) as (client, made):
        for kind, body in forms.items():
            headers = {"Content-Type": kind, "Content-Encoding": encoding}
            answer = client.post("/v1/traces", content=PACKED[encoding](body), headers=headers)
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
            assert answer.content == (b"{}" if "json" in kind else b"")
        held = list(made.assembly._traces.values())
        assert len(held) == 3
        for trace in held:
            first, second = (trace_service.ExportTraceServiceRequest.FromString(d) for d in made.assembly.read(trace))
            assert first == second
            assert trace.rooted
        assert made.counts.of("spans") == {"taken": 12, "not in the sample": 0}


def _bomb(packer: Callable[[bytes], bytes]) -> bytes:
    """A little that unpacks to far too much."""
    return packer(bytes(64 << 20))


HALF = in_protobuf({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x" * 100}]}]}]})[:-7]
REFUSED: Mapping[str, tuple[int, bytes, Mapping[str, str]]] = {
    "half a protobuf": (400, HALF, PROTOBUF),
    "bytes that are nothing": (400, b"\xff\xfe\xfd" * 9, PROTOBUF),
    "broken JSON": (400, b'{"resourceSpans": [', JSON),
    "no JSON": (400, b"", JSON),
    "a list": (400, b"[1, 2]", JSON),
    "metrics": (400, b'{"resourceMetrics": []}', JSON),
    "JSON without end": (400, b"[" * 100_000, JSON),
    "a resource that is none": (200, b'{"resourceSpans": [{"resource": 7, "scopeSpans": []}]}', JSON),
    "a page": (415, b"<html>", {"Content-Type": "text/html"}),
    "nothing said": (415, b"", {}),
    "brotli": (415, b"", PROTOBUF | {"Content-Encoding": "br"}),
    "packed twice": (415, b"", PROTOBUF | {"Content-Encoding": "gzip, gzip"}),
    "no gzip": (400, b"plain", PROTOBUF | {"Content-Encoding": "gzip"}),
    "half a gzip": (400, gzip.compress(bytes(9999))[:-9], PROTOBUF | {"Content-Encoding": "gzip"}),
    "no zstd": (400, b"plain", PROTOBUF | {"Content-Encoding": "zstd"}),
    "half a zstd": (
        400,
        PACKED["zstd"](random.Random(1).randbytes(9999))[:-9],
        PROTOBUF | {"Content-Encoding": "zstd"},
    ),
    "nothing as gzip": (400, b"", PROTOBUF | {"Content-Encoding": "gzip"}),
    "nothing as zstd": (400, b"", PROTOBUF | {"Content-Encoding": "zstd"}),
    "a bomb": (413, _bomb(gzip.compress), PROTOBUF | {"Content-Encoding": "gzip"}),
    "a bomb of zstd": (413, _bomb(PACKED["zstd"]), PROTOBUF | {"Content-Encoding": "zstd"}),
    "a giant": (413, bytes(21 << 20), PROTOBUF),
    "an empty request": (200, b"", PROTOBUF),
    "an empty request in JSON": (200, b"{}", JSON),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_request_is_answered_clearly(tmp_path: Path, what: str) -> None:
    """In the same form, with why; nothing of it is kept, and the next one is taken."""
    status, body, headers = REFUSED[what]
    with server(tmp_path) as (client, made):
        for signal in ("traces", "logs"):
            answer = client.post(f"/v1/{signal}", content=body, headers=headers)
            assert answer.status_code == status, answer.content
            if status != 200:
                in_json = answer.headers["content-type"] == "application/json"
                said = answer.json()["message"] if in_json else Status.FromString(answer.content).message
                assert len(said) > 5
        assert made.assembly.waiting()["kept"] == 0
        assert client.post("/v1/traces", content=in_protobuf(traces(tmp_path)), headers=PROTOBUF).status_code == 200
        assert client.get("/health").json()["waiting"]["kept"] == 3


def test_a_giant_that_does_not_say_how_large_it_is_is_cut(tmp_path: Path) -> None:
    """Before it is whole."""
    with server(tmp_path) as (client, _):
        parts = (bytes(1 << 20) for _ in range(25))
        assert client.post("/v1/traces", content=parts, headers=PROTOBUF).status_code == 413
        assert client.get("/v1/traces").status_code == 405
        metrics = client.post("/v1/metrics", content=b"", headers=PROTOBUF)
        assert metrics.status_code == 404
        assert "OTEL_METRICS_EXPORTER=none" in Status.FromString(metrics.content).message


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32), json_=st.booleans())
def test_any_damage_is_answered(tmp_path_factory: Any, seed: int, json_: bool) -> None:  # noqa: FBT001 - hypothesis's way
    """A request with bytes changed, left out or added is taken as far as it is one, or refused: never an exception."""
    pick = random.Random(seed)
    told = traces(tmp_path_factory.mktemp("t"), 2)
    data = bytearray(json.dumps(told).encode() if json_ else in_protobuf(told))
    for _ in range(pick.randint(1, 8)):
        at = pick.randrange(len(data))
        how = pick.randrange(3)
        if how == 0:
            data[at] = pick.randrange(256)
        elif how == 1:
            del data[at : at + pick.randint(1, 20)]
        else:
            data[at:at] = pick.randbytes(pick.randint(1, 20))
    for signal in ("traces", "logs"):
        try:
            found = taken(signal, bytes(data), json=json_, apart=lambda _: True)  # type: ignore[arg-type]
        except Malformed:
            continue
        for parcel in found.parcels:
            again = taken(parcel.signal, parcel.data, json=False, apart=lambda _: True)
            assert again.parcels == [parcel]


@given(body=st.binary(max_size=300), encoding=st.sampled_from(["gzip", "zstd"]))
def test_whatever_is_unpacked_ends(body: bytes, encoding: str) -> None:
    """In bytes, or in an answer."""
    with suppress(Answer):
        assert len(unpacked(body, encoding, 1 << 20)) <= 1 << 20


@given(parts=st.lists(st.binary(max_size=5000), min_size=1, max_size=4), more=st.integers(0, 300))
def test_what_was_packed_is_unpacked(parts: list[bytes], more: int) -> None:
    """In one frame or several, empty ones too, as gzip and zstd allow."""
    parts = [*parts, *[b""] * more]
    whole = b"".join(parts)
    assert unpacked(b"".join(map(gzip.compress, parts)), "gzip", 1 << 20) == whole
    assert unpacked(b"".join(map(PACKED["zstd"], parts)), "ZSTD", 1 << 20) == whole


def test_spans_without_ids_are_refused_alone(tmp_path: Path) -> None:
    """Partial success says how many, and why."""
    told = traces(tmp_path, 1)
    spans = told["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans += [{**spans[0], "traceId": "00" * 16}, {**spans[0], "spanId": "ab"}]
    with server(tmp_path) as (client, made):
        answer = client.post("/v1/traces", content=in_protobuf(told), headers=PROTOBUF)
        partial = trace_service.ExportTraceServiceResponse.FromString(answer.content).partial_success
        assert (answer.status_code, partial.rejected_spans) == (200, 2)
        assert partial.error_message == "2 spans had no trace id of 16 bytes and span id of 8"
        spans += [{**spans[0], "startTimeUnixNano": "soon"}, {**spans[0], "kind": "SPAN_KIND_NONE"}]
        answer = client.post("/v1/traces", content=json.dumps(told).encode(), headers=JSON)
        assert answer.json()["partialSuccess"]["rejectedSpans"] == "4"
        assert made.counts.of("spans")["taken"] == 4


def test_fields_that_nobody_knows_are_kept_and_sent_on(tmp_path: Path) -> None:
    """At every level of a message; JSON's are ignored, as the protocol says."""
    unknown = b"\x98\x06\x07"  # number 99
    span = bytes.fromhex("0a10" + "01" * 16 + "1208" + "02" * 8) + unknown
    scope = b"\x12" + bytes([len(span)]) + span + unknown
    group = b"\x12" + bytes([len(scope)]) + scope + unknown
    [parcel] = taken("traces", b"\x0a" + bytes([len(group)]) + group, json=False, apart=lambda _: True).parcels
    more, found = enriched(parcel.data, {"02" * 8: {"a": 1}})
    assert found
    assert parcel.data.count(unknown) == more.count(unknown) == 3
    told = traces(tmp_path, 1)
    told["resourceSpans"][0]["strange"] = told["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["odd"] = {"x": []}
    [parcel] = taken("traces", json.dumps(told).encode(), json=True, apart=lambda _: True).parcels
    assert parcel.data == in_protobuf(traces(tmp_path, 1))


def test_what_a_log_record_in_json_holds_is_kept() -> None:
    """Its resource and its scope too, also where a field is one nobody knows."""
    told = log("ab" * 16)
    told["resourceLogs"][0] |= {"resource": {"attributes": [{"key": "a", "value": {"intValue": 7}}]}, "schemaUrl": "u"}
    told["resourceLogs"][0]["scopeLogs"][0] |= {"scope": {"name": "s", "version": "1"}, "schemaUrl": "v"}
    plain = in_protobuf(told, logs_service.ExportLogsServiceRequest)
    for odd in ({}, {"odd": 1}):
        told["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0] |= odd
        [parcel] = taken("logs", json.dumps(told).encode(), json=True, apart=lambda _: True).parcels
        assert parcel.data == plain


def test_a_request_is_taken_apart_by_trace(tmp_path: Path) -> None:
    """Those that are not judged stay together; put together again it is all there."""
    told = in_protobuf(traces(tmp_path, 20))
    picked = sample(0.3)
    found = taken("traces", told, json=False, apart=lambda t: picked(Ref("otel", trace_id=t), ()))
    assert 3 < len(found.parcels) < 15
    assert sum(not parcel.trace_id for parcel in found.parcels) == 1
    whole = b"".join(parcel.data for parcel in found.parcels)
    kind = trace_service.ExportTraceServiceRequest
    assert sorted(map(ident, items(kind.FromString(whole)))) == sorted(map(ident, items(kind.FromString(told))))
    two = halves("traces", whole)
    assert sorted(ident(s) for half in two for s in items(kind.FromString(half))) == sorted(
        map(ident, items(kind.FromString(told)))
    )


def test_what_a_span_says_already_stays(tmp_path: Path) -> None:
    """Its evaluations keep their numbers, ours are counted on."""
    told = traces(tmp_path, 1)
    span = told["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    own = {"evaluations.2.evaluation.name": "mine", "gen_ai.evaluation.name": "mine"}
    span["attributes"] += [{"key": key, "value": {"stringValue": said}} for key, said in own.items()]
    more = {"evaluations.0.evaluation.name": "ours", "evaluations.1.evaluation.score": 0.5}
    data, _ = enriched(in_protobuf(told), {span["spanId"]: more | {"gen_ai.evaluation.name": "ours", "none": None}})
    held = attributes(next(items(trace_service.ExportTraceServiceRequest.FromString(data))))
    assert {key: said for key, said in held.items() if "evaluation" in key or key == "none"} == own | {
        "evaluations.3.evaluation.name": "ours",
        "evaluations.4.evaluation.score": 0.5,
    }


# --- who is let in, and how many ------------------------------------------------------------------------------------


def test_only_who_knows_the_token_is_heard(tmp_path: Path) -> None:
    """The health is anybody's to see, and holds no secret."""
    body = in_protobuf(traces(tmp_path))
    with server(tmp_path, token=TOKEN) as (client, made):
        for given_, status in (("", 401), ("Bearer wrong", 401), (TOKEN, 401), (f"bearer {TOKEN}", 200)):
            answer = client.post("/v1/traces", content=body, headers=PROTOBUF | {"Authorization": given_})
            assert answer.status_code == status
            assert status == 200 or Status.FromString(answer.content).code == grpc.StatusCode.UNAUTHENTICATED.value[0]
        assert TOKEN not in client.get("/health").text
        assert TOKEN not in repr(made.settings)
        made.counts.state, made.judging._unwritten = "well", "refused with 500: what only the owner may read"
        assert client.get("/health").json()["state"] == "in trouble"
        whole = client.get("/health", headers={"Authorization": f"Bearer {TOKEN}"})
        assert whole.json()["state"] == made.judging.trouble


def test_the_first_who_is_refused_is_told_of(tmp_path: Path) -> None:
    """Once a kind, over HTTP and gRPC alike: who sends may have no log, and the rest is counted."""
    told: list[str] = []
    with server(tmp_path, token=TOKEN, tell=told.append) as (client, made):
        place = Grpc("127.0.0.1:0", TOKEN)
        with place.answering(made.intake), grpc.insecure_channel(f"127.0.0.1:{place.port}") as channel:
            for _ in range(2):
                assert client.post("/v1/traces", content=b"", headers=PROTOBUF).status_code == 401
                with pytest.raises(grpc.RpcError):
                    channel.unary_unary(METHODS["traces"])(b"", timeout=60)
            assert client.post("/v1/metrics", content=b"", headers=PROTOBUF).status_code == 404
        wrong = "refused what 127.0.0.1 sent (401): no token, or a wrong one; /health counts more of the kind"
        assert told[0] == wrong
        assert len(told) == 2
        assert "metrics are not taken here" in told[1]
        counted = made.counts.of("requests")
        assert counted["401 no token, or a wrong one"] == counted["grpc 401 no token, or a wrong one"] == 2


def test_who_can_be_reached_from_elsewhere_asks_for_a_token(tmp_path: Path) -> None:
    """Or does not listen; nor does it without a place for the scores."""
    plan, told = Plan(sources="otel:-", sinks=(f"otel:{tmp_path}",)), Settings(tmp_path)
    for listen, grpc_ in (("0.0.0.0:0", None), ("127.0.0.1:0", "[::]:0")):
        with pytest.raises(PlanError, match=r"can be reached from elsewhere.*give --token-env NAME"):
            otlp.opened(plan, told, listen, grpc_)
    otlp.opened(plan, Settings(tmp_path, token=TOKEN), "0.0.0.0:0").socket.close()
    otlp.opened(plan, told, "localhost:0").socket.close()
    with pytest.raises(PlanError, match="have no platform to go home to; name one: --to phoenix:PROJECT"):
        otlp.opened(Plan(sources="otel:-"), told, "127.0.0.1:0")
    with pytest.raises(PlanError, match=r"forward: 'ftp://x\.\.\.' is no address of a backend"):
        otlp.opened(Plan(sources="otel:-"), Settings(tmp_path, forward="ftp://x"), "127.0.0.1:0")


def test_who_sends_too_much_is_to_come_again(tmp_path: Path) -> None:
    """With the seconds to wait; nothing of it is kept."""
    body = in_protobuf(traces(tmp_path))
    with server(tmp_path, limits=Limits(pieces=4)) as (client, made):
        assert client.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200
        answer = client.post("/v1/traces", content=body, headers=PROTOBUF)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
        assert made.assembly.waiting()["kept"] == 3
        made.intake._at_once = 5
        answer = client.post("/v1/traces", content=body, headers=PROTOBUF)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert made.intake._held == 0
        made.intake.closed = True
        assert client.post("/v1/traces", content=b"", headers=PROTOBUF).status_code == 503
        assert client.get("/health").status_code == 503


def test_a_spool_that_can_not_be_written_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """503, and it comes again; what is answered well is on the disk."""

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with server(tmp_path) as (client, _):
        with monkeypatch.context() as broken:
            broken.setattr("os.pwrite", full)
            answer = client.post("/v1/traces", content=in_protobuf(traces(tmp_path)), headers=PROTOBUF)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert client.post("/v1/traces", content=in_protobuf(traces(tmp_path)), headers=PROTOBUF).status_code == 200


def test_the_same_over_grpc(tmp_path: Path) -> None:
    """Taken, partly taken, malformed, without a token, too much, too large, and nothing we know."""
    body = in_protobuf(traces(tmp_path))
    with server(tmp_path, limits=Limits(pieces=4)) as (_, made):
        place = Grpc("127.0.0.1:0", TOKEN)
        options = [("grpc.max_send_message_length", -1)]
        with (
            place.answering(made.intake),
            grpc.insecure_channel(f"127.0.0.1:{place.port}", options, grpc.Compression.Gzip) as channel,
        ):

            def send(data: bytes, method: str = METHODS["traces"], token: str = TOKEN) -> Any:
                told = (("authorization", f"Bearer {token}"),)
                try:
                    return channel.unary_unary(method)(data, metadata=told, timeout=60)
                except grpc.RpcError as error:
                    return error

            assert send(body, token="wrong").code() == grpc.StatusCode.UNAUTHENTICATED
            assert send(b"") == b""
            assert send(body[:-3]).code() == grpc.StatusCode.INVALID_ARGUMENT
            bomb = send(bytes(30 << 20))
            assert bomb.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "Decompressed message larger" in bomb.details(), "it was unpacked whole"
            assert send(b"", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export").code() == (
                grpc.StatusCode.UNIMPLEMENTED
            )
            records = log("ab" * 16)
            assert send(in_protobuf(records, logs_service.ExportLogsServiceRequest), METHODS["logs"]) == b""
            assert send(body) == b""
            refused = send(body)
            assert refused.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            [details] = [v for k, v in refused.trailing_metadata() if k == "grpc-status-details-bin"]
            info = RetryInfo()
            assert Status.FromString(details).details[0].Unpack(info)
            assert info.retry_delay.seconds == intake.LATER
        assert made.counts.of("requests")["grpc taken"] == 3


def test_many_at_once_over_grpc_wait_and_are_taken(tmp_path: Path) -> None:
    """An exporter drops what is refused as exhausted without a delay: who comes while all are busy waits."""
    body, leave = in_protobuf(traces(tmp_path)), threading.Event()
    with server(tmp_path) as (_, made):
        made.intake._wanted = lambda _: leave.wait(60)
        place = Grpc("127.0.0.1:0", None)
        with place.answering(made.intake), ExitStack() as open_:
            calls = []
            for own in range(3):
                options = [("grpc.use_local_subchannel_pool", 1), ("grpc.channel_id", own)]
                channel = open_.enter_context(grpc.insecure_channel(f"127.0.0.1:{place.port}", options))
                calls += [channel.unary_unary(METHODS["traces"]).future(body, timeout=120) for _ in range(20)]
            over = [call for call in calls if _is_over(call, 0.05)]
            leave.set()
            assert over == []
            assert [call.exception() for call in calls] == [None] * 60


def _is_over(call: Any, seconds: float) -> bool:
    try:
        call.exception(timeout=seconds)
    except grpc.FutureTimeoutError:
        return False
    return True


# --- the whole of it, as a process ----------------------------------------------------------------------------------


def post(url: str, told: Mapping[str, Any], signal: str = "traces") -> int:
    """Send a request in JSON."""
    content = json.dumps(told).encode()
    return httpx2.post(f"{url}/v1/{signal}", content=content, headers=JSON, trust_env=False).status_code


def test_traces_are_judged_and_sent_on_with_their_scores(tmp_path: Path) -> None:
    """Over HTTP and gRPC alike: each span and record once, the scores on what was judged, and where --to says."""
    told = traces(tmp_path, 6)
    for scheme in ("http", "grpc"):
        folder = tmp_path / scheme
        words = ["--sample", "1", "--idle", "0.3", "--to", f"jsonl:{folder}/cards.jsonl", "--rubric", "source_support"]
        env = {"BACKEND": "x-key=a%20secret"}
        with backend() as there:
            url = getattr(there, scheme)
            words += ["--forward", url, "--forward-headers-env", "BACKEND"]
            with serving(folder, *words, env=env) as made:
                assert post(made.url, told) == 200
                assert post(made.url, log(f"{1:032x}"), "logs") == 200
                assert post(made.url, log(body="of no trace"), "logs") == 200
                made.until(lambda at=there: len(at.spans()) == 12 and len(at.logs()) == 2)
                assert made.health()["state"] == "well"
                made.stop()
            spans = there.spans()
            _as_before(spans, told)
            assert sum("gen_ai.evaluation.score.value" in attributes(span) for span in spans) == 6
            for span in spans:
                held = attributes(span)
                assert ("evaluations.0.evaluation.name" in held) == (not span.parent_span_id)
            assert {one.headers["x-key"] for one in there.came} == {"a secret"}
            assert "secret" not in made.log
        cards = [json.loads(line) for line in (folder / "cards.jsonl").read_text(encoding="utf-8").splitlines()]
        assert sum(card["rubric"] == "source_support" for card in cards) == 6
        assert list((folder / "spool").iterdir()) == [folder / "spool" / "lock"]


def _as_before(spans: list[Any], told: Mapping[str, Any]) -> None:
    """Each span is there once, with all it had."""
    before = trace_service.ExportTraceServiceRequest.FromString(in_protobuf(told))
    known = {ident(span): span for span in items(before)}
    assert sorted(map(ident, spans)) == sorted(known)
    for span in spans:
        was = attributes(known[ident(span)])
        assert {key: said for key, said in attributes(span).items() if key in was} == was
        assert span.start_time_unix_nano == known[ident(span)].start_time_unix_nano


def test_what_is_sent_is_judged_as_what_stands_in_a_file(tmp_path: Path) -> None:
    """The same cards, to the letter: also of traces whose contents are in their log records."""
    data = resources.files("groundtrace.data")
    for name, copy in (("demo.jsonl", "spans.jsonl"), ("demo.logs.jsonl", "spans.logs.jsonl")):
        (tmp_path / copy).write_bytes(data.joinpath(name).read_bytes())
    run(Plan(sources=f"otel:{tmp_path}/spans.jsonl", sinks=(f"jsonl:{tmp_path}/file.jsonl",), sample=1.0))
    words = ("--sample", "1", "--idle", "900", "--to", f"jsonl:{tmp_path}/sent.jsonl")
    with serving(tmp_path / "s", *words) as made:
        for line in (tmp_path / "spans.logs.jsonl").read_text(encoding="utf-8").splitlines():
            assert post(made.url, json.loads(line), "logs") == 200
        for line in (tmp_path / "spans.jsonl").read_text(encoding="utf-8").splitlines():
            assert post(made.url, json.loads(line)) == 200
        made.stop()
    told = {}
    for name in ("file", "sent"):
        lines = (tmp_path / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        told[name] = {card["id"]: card["content_hash"] for card in map(json.loads, lines)}
    assert told["file"] == told["sent"]
    assert len(told["file"]) > 10


def test_what_has_no_score_is_not_told_as_one(tmp_path: Path) -> None:
    """Traces that hold no answer: why is written, and counted as that."""
    told = traces(tmp_path, 2)
    for group in told["resourceSpans"]:
        for span in group["scopeSpans"][0]["spans"]:
            span["attributes"] = [one for one in span["attributes"] if one["key"] != "output.value"]
    words = ("--sample", "1", "--idle", "900", "--rubric", "source_support", "--to", f"jsonl:{tmp_path}/cards.jsonl")
    with serving(tmp_path / "s", *words) as made:
        assert post(made.url, told) == 200
        made.stop()
    assert "4 spans taken, 2 traces judged, 2 reasons for no score written\n" in made.log


def test_what_is_not_in_the_sample_is_sent_on_at_once(tmp_path: Path) -> None:
    """As it came, long before anything is over."""
    told = traces(tmp_path, 6)
    words = ("--sample", "1e-9", "--idle", "900", "--forward")
    with backend() as there, serving(tmp_path / "s", *words, there.http) as made:
        assert post(made.url, told) == 200
        made.until(lambda: len(there.spans()) == 12)
        _as_before(there.spans(), told)
        made.stop()
        assert not any("evaluations" in key for span in there.spans() for key in attributes(span))
        places = f"scores go to the spans that are sent on; the store is {tmp_path}/s/store.db"
        assert "1e-07 % of the traces are judged by offline" in made.log
        assert f" (--sample 1: all), and {places}" in made.log
        assert f"of before in the spool {tmp_path}/s/spool" in made.log
        done = "12 spans taken (12 not in the sample), 0 traces judged, 12 spans sent on; --sample 1 judges all"
        assert f"stopped; {done}\n" in made.log


def test_when_it_is_stopped_what_is_held_is_judged_and_sent_on(tmp_path: Path) -> None:
    """SIGTERM waits for no silence, and for no deadline."""
    told = traces(tmp_path, 6)
    words = ("--sample", "1", "--idle", "900", "--deadline", "900", "--rubric", "source_support")
    with backend() as there, serving(tmp_path / "s", "--forward", there.http, *words) as made:
        assert post(made.url, told) == 200
        assert there.spans() == []
        made.stop()
        _as_before(there.spans(), told)
        assert sum("gen_ai.evaluation.name" in attributes(span) for span in there.spans()) == 6
        assert "12 spans taken, 6 traces judged" in made.log


def test_scores_that_come_too_late_go_where_they_are_to_go(tmp_path: Path) -> None:
    """The spans went on as they came; that counts as kept there, and as written elsewhere."""
    told = traces(tmp_path, 6)
    words = ("--sample", "1", "--idle", "0.5", "--deadline", "0", "--rubric", "source_support", "--scores", "headline")
    words += ("--to", f"jsonl:{tmp_path}/cards.jsonl")
    with backend() as there, serving(tmp_path / "s", "--forward", there.http, *words) as made:
        assert post(made.url, told) == 200
        made.until(lambda: made.health()["traces"].get("judged") == 6)
        made.stop()
        _as_before(there.spans(), told)
        assert not any("gen_ai.evaluation.name" in attributes(span) for span in there.spans())
    cards = [json.loads(line) for line in (tmp_path / "cards.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum(card["rubric"] == "source_support" for card in cards) == 6
    assert "6 scores kept" in made.log
    assert "6 scores written" in made.log


def test_a_server_does_not_send_to_itself(tmp_path: Path) -> None:
    """It would never end."""
    plan = Plan(sources="otel:-")
    with socket.create_server(("127.0.0.1", 0)) as at:
        port = at.getsockname()[1]
    with pytest.raises(PlanError, match="is this server itself"):
        otlp.opened(plan, Settings(tmp_path, forward=f"http://localhost:{port}"), f"127.0.0.1:{port}")


def test_a_backend_that_is_away_loses_nothing(tmp_path: Path) -> None:
    """What comes is kept, through a stop and a start, and sent when it is back; the health says what is wrong."""
    told = traces(tmp_path, 6)
    with backend() as there:
        there.refuse = lambda came: (503, {"Retry-After": "1"})
        words = ("--sample", "0", "--forward", there.http, "--drain", "0.5")
        with serving(tmp_path / "s", *words) as made:
            assert post(made.url, told) == 200
            made.until(lambda: "refused with 503" in made.health()["state"])
            made.stop()
            assert "1 parcel waits for the next start: http://" in made.log
            there.refuse = None
            made.start()
            made.until(lambda: len(there.spans()) == 12)
            made.stop()
        _as_before(there.spans(), told)


def test_scores_that_were_not_taken_are_written_again(tmp_path: Path) -> None:
    """Without another trace, and by the next start as well; each once."""
    words = ["--sample", "1", "--idle", "0.3", "--rubric", "source_support", "--drain", "1"]
    told = traces(tmp_path, 4)["resourceSpans"]
    with backend() as there:
        words += ["--to", f"otlp:{there.http}"]

        def refused(made: Serving, sent: list[Any]) -> None:
            there.refuse = lambda _: (400, {})
            assert post(made.url, {"resourceSpans": sent}) == 200
            made.until(lambda: "400" in made.health()["state"])
            there.refuse = None

        def scored() -> set[str]:
            names = [(log.trace_id.hex(), attributes(log)["gen_ai.evaluation.name"]) for log in there.logs()]
            assert len(set(names)) == len(names)
            return {trace_id for trace_id, _ in names}

        with serving(tmp_path / "s", *words) as made:
            refused(made, told[:2])
            made.until(lambda: made.health()["state"] == "well")
            assert len(scored()) == 2
            refused(made, told[2:])
            made.stop()
            made.start()
            made.until(lambda: len(scored()) == 4)
            made.stop()
        assert len(scored()) == 4


def test_spans_a_backend_will_not_have_keep_no_others(tmp_path: Path) -> None:
    """What is refused for itself is found by halves, counted and named; logs that have no place are left out."""
    told = traces(tmp_path, 6)
    bad = told["resourceSpans"][3]["scopeSpans"][0]["spans"][1]["spanId"]

    def refuse(came: Any) -> Any:
        if came.signal == "logs":
            return 404, {}
        return (400, {}) if any(span.span_id.hex() == bad for span in came.items) else None

    with backend() as there, serving(tmp_path / "s", "--sample", "0", "--forward", there.http) as made:
        there.refuse = refuse
        assert post(made.url, told) == 200
        assert post(made.url, log(), "logs") == 200
        made.until(lambda: len(there.spans()) == 11 and made.health()["waiting"]["to send"] == 0)
        assert made.health()["lost"] == {"spans": 1, "log records": 1}
        there.refuse, there.partial = None, lambda came: (3, "too old")
        assert post(made.url, told) == 200
        made.until(lambda: made.health()["lost"]["spans"] == 4)
        made.stop()
        assert "are lost" in made.log


def test_what_the_command_refuses(tmp_path: Path) -> None:
    """In a sentence that says what to do."""
    env = {"XDG_DATA_HOME": str(tmp_path)}
    lines = {
        "": "have no platform to go home to",
        "--to otel:out --listen 0.0.0.0:4318": "give --token-env NAME",
        "--to otel:out --token-env NONE": "token_env: 'NONE' is not set",
        "--to otel:out --token-env my-secret-token-123": "name the variable that holds the secret, not the secret",
        "--to otel:out --token-env fe93ab019cd7": "token_env: '***' is no variable that is set",
        "--forward http://host --forward-headers-env api-key=hush": "name the variable that holds the headers",
        "--to otel:out --listen 4318": "write HOST:PORT",
        "--forward http://me:pass@host": "holds more than an address",
    }
    for words, said in lines.items():
        done = groundtrace(f"serve otlp {words}", tmp_path, env=env)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr, done.stderr
        assert not any(secret in done.stderr for secret in ("pass@", "my-secret", "fe93ab", "hush"))
    done = groundtrace("serve otpl --to otel:out", tmp_path, env=env)
    assert done.returncode == 2
    assert "serve: 'otpl' is nothing that is served; did you mean 'otlp'?" in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as at:
        line = f"serve otlp --to otel:out --listen 127.0.0.1:0 --grpc 127.0.0.1:{at.getsockname()[1]}"
        done = groundtrace(line, tmp_path, env=env)
    assert done.returncode == 2
    assert done.stderr.startswith("groundtrace: grpc: '127.0.0.1:")
    assert len(done.stderr.splitlines()) == 1, done.stderr
