"""The server: reads requests off the wire, follows the script, keeps the log. No framework, so that it costs little."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from . import anthropic_shapes, gemini_shapes, openai_shapes, smart
from .asked import Asked, Body, Kept, Said
from .batches import Batches
from .script import Act, Script, seconds
from .spoil import spoil

_MODELS = ["gpt-5.2", "claude-sonnet-5-5", "gemini-2.5-flash"]
_REFUSAL = "I'm sorry, but I can't help with that."
_REMEMBERED = 4096
_LONGEST_HEAD = 65_536
_RESET = struct.pack("ii", 1, 0)


class Log:
    """What came: counts, and as many whole requests as the script wants kept."""

    def __init__(self, keep: int) -> None:
        self.begun: float | None = None
        self.requests = self.gone = self.unspoilt = 0
        self.in_flight = self.most_in_flight = 0
        self.statuses: Counter[str] = Counter()
        self.dialects: Counter[str] = Counter()
        self.modes: Counter[str] = Counter()
        self.seconds: dict[int, Counter[str]] = {}
        self.cases: dict[int, int] = {}
        self.tokens: Counter[str] = Counter()
        self.kept: deque[Body] = deque(maxlen=None if keep < 0 else keep)

    def told(self, script: Script, *, whole: bool) -> Body:
        """The log as JSON."""
        made: Body = {
            "requests": self.requests,
            "in_flight": self.in_flight,
            "most_in_flight": self.most_in_flight,
            "gone": self.gone,
            "unspoilt": self.unspoilt,
            "statuses": dict(self.statuses),
            "dialects": dict(self.dialects),
            "modes": dict(self.modes),
            "tokens": dict(self.tokens),
            "cases": len(self.cases),
            "asked_times": {str(times): n for times, n in sorted(Counter(self.cases.values()).items())},
            "rules": [rule.used for rule in script.rules],
            "seconds": {str(second): dict(found) for second, found in sorted(self.seconds.items())},
            "cpu": time.process_time(),
        }
        return made | ({"kept": list(self.kept)} if whole else {})


class Stand:
    """All the providers at once: one script, one log, one prompt cache, one shelf of batches."""

    def __init__(self, script: Script | None = None) -> None:
        self._verdicts: dict[int, str] = {}
        self.begin(script or Script())
        self.connections: set[Door] = set()

    def begin(self, script: Script) -> None:
        """Follow a script from now on, with everything before forgotten but files and batches."""
        self.script = script
        self.log = Log(script.keep)
        self.cache = Kept()
        self.batches = getattr(self, "batches", None) or Batches(self)

    def arrived(self, door: Door, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        """One request: control words first, then what providers have."""
        path, _, query = target.partition("?")
        if path in ("/script", "/log", "/reset"):
            self._controlled(door, path, query, body)
            return
        try:
            self._provided(door, method, path, query, headers=headers, body=body)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            self._send(door, 400, openai_shapes.error(400, {"message": f"The stand-in can't read this: {problem!r}"}))

    def _controlled(self, door: Door, path: str, query: str, body: bytes) -> None:
        if path == "/log":
            self._send(door, 200, self.log.told(self.script, whole="kept" in query))
            return
        try:
            self.begin(Script.read(orjson.loads(body) if path == "/script" else {}))
        except (ValueError, TypeError, KeyError) as problem:
            self._send(door, 400, {"error": str(problem)})
            return
        self._send(door, 200, {"following": len(self.script.rules)})

    def _provided(
        self, door: Door, method: str, path: str, query: str, *, headers: Mapping[str, str], body: bytes
    ) -> None:
        if self.script.key is not None and self.script.key not in _keys(headers, query):
            act: Act = {"message": "Incorrect API key provided."}
            self.log.statuses["401"] += 1
            self._send(door, 401, self.error(_dialect(path), 401, act))
            return
        if method == "POST" and (asked := read(path, body)) is not None:
            self._ask(door, asked, path, headers)
            return
        status, told = self.batches.answer(method, path, headers, body) or self._models(path, headers)
        if isinstance(told, bytes):
            door.send(_head(status, {"content-type": "application/octet-stream"}, len(told)) + told)
        else:
            self._send(door, status, told)

    def _models(self, path: str, headers: Mapping[str, str]) -> tuple[int, Body]:
        """The models there are, or one of them."""
        names = self.script.models or _MODELS
        _, found, name = path.partition("/models")
        shapes: Any = openai_shapes
        if "anthropic-version" in headers:
            shapes = anthropic_shapes
        elif path.startswith("/v1beta"):
            shapes = gemini_shapes
        if found and not name:
            rows = [shapes.model(name) for name in names]
            ends = {"has_more": False, "first_id": names[0], "last_id": names[-1]}
            return 200, {"models": rows} if shapes is gemini_shapes else {"object": "list", "data": rows} | ends
        if found and name[1:] in names:
            return 200, shapes.model(name[1:])
        return 404, shapes.error(404, {"message": f"There is nothing at {path}."})

    # --- one question -----------------------------------------------------------------------------------------------

    def _ask(self, door: Door, asked: Asked, path: str, headers: Mapping[str, str]) -> None:
        log = self.log
        log.in_flight += 1
        log.most_in_flight = max(log.most_in_flight, log.in_flight)
        asked.path, asked.headers, asked.in_flight = path, headers, log.in_flight
        act = self.decide(asked)
        door.asked, door.log = asked, log
        loop = asyncio.get_running_loop()
        delay = seconds(act["wait"], asked) if act.get("wait") else 0.0
        if delay > 0:
            loop.call_later(delay, self._answer, door, asked, act)
        else:
            self._answer(door, asked, act)

    def decide(self, asked: Asked) -> Act:
        """Count a question and say what happens to it."""
        log, now = self.log, time.monotonic()
        log.begun = now if log.begun is None else log.begun
        log.requests += 1
        asked.at, asked.overall = now - log.begun, log.requests
        asked.find_record()
        key = asked.key = hash((asked.dialect, asked.case))
        asked.nth = log.cases[key] = log.cases.get(key, 0) + 1
        log.dialects[asked.dialect] += 1
        log.modes[asked.mode] += 1
        return self.script.act(asked)

    def answered(self, asked: Asked, act: Act) -> tuple[int, Body, dict[str, str]]:
        """The status, body and own headers of what is answered."""
        shapes = _SHAPES[asked.dialect]
        status = int(act.get("status", 200))
        known = self.script.models
        fault = shapes.complaint(asked) if status == 200 and self.script.strict else None
        if asked.body.get("stream") is True and asked.dialect != "messages":
            fault = "The stand-in streams messages alone."
        if fault:
            status, act = 400, {"message": fault}
        elif known and asked.model not in known and status == 200:
            status, act = 404, {"message": f"The model `{asked.model}` does not exist or you do not have access to it."}
        made: dict[str, str] = {}
        if self.script.limits:
            made = shapes.headers(asked.overall, max(0, 10_000 - self.log.in_flight))
        if "retry_after" in act and asked.dialect != "gemini":
            made |= shapes.told_to_wait(float(act["retry_after"]), act.get("retry_as", "seconds"))
        made |= act.get("headers", {})
        if status != 200:
            return status, self.error(asked.dialect, status, act), made
        return status, self._reply(asked, act), made

    def error(self, dialect: str, status: int, act: Act) -> Body:
        """An error in a dialect's own shape."""
        if dialect == "messages":
            return anthropic_shapes.error(status, act, self.log.requests)
        return gemini_shapes.error(status, act) if dialect == "gemini" else openai_shapes.error(status, act)

    def _reply(self, asked: Asked, act: Act) -> Body:
        told = act.get("answer", "smart")
        if act.get("refuse"):
            said = Said(act["refuse"] if isinstance(act["refuse"], str) else _REFUSAL, "refusal")
        elif told == "smart":
            said = Said(self._verdict(asked))
        else:
            said = Said(told if isinstance(told, str) else json.dumps(told, ensure_ascii=False))
        if "spoil" in act:
            said.text, done = spoil(said.text, act["spoil"], asked)
            self.log.unspoilt += not done
        if "finish" in act:
            said.finish = act["finish"]
            if said.finish == "length":
                said.text = said.text[: len(said.text) // 2]
        if act.get("blocked") or said.finish in ("filter", "recitation"):
            said.text = ""
        said.thoughts, said.model = act.get("thoughts", ""), act.get("as_model", asked.model)
        said.number = int(asked.body.get("n") or 1)
        self._count(asked, said, act)
        if asked.dialect == "gemini":
            return gemini_shapes.reply(asked, said, act.get("blocked"))
        if asked.dialect == "messages":
            return anthropic_shapes.reply(asked, said)
        return (openai_shapes.chat_reply if asked.dialect == "chat" else openai_shapes.responses_reply)(asked, said)

    def _verdict(self, asked: Asked) -> str:
        """The smart answer; to a case of ours it is remembered, so that a warmed-up benchmark pays for it once."""
        if not asked.record:
            return smart.answer(asked)
        known = self._verdicts.get(asked.key)
        if known is None:
            known = smart.answer(asked)
            if len(self._verdicts) < _REMEMBERED:
                self._verdicts[asked.key] = known
        return known

    def _count(self, asked: Asked, said: Said, act: Act) -> None:
        """The tokens it took; a script may say others, or that none are told."""
        tokens = self.cache.tokens(asked, said)
        own = act.get("usage", {})
        if own is None:
            return
        for name, number in own.items():
            setattr(tokens, name, number)
        said.tokens = tokens
        counts = self.log.tokens
        counts["input"] += tokens.input
        counts["output"] += tokens.output
        counts["cached"] += tokens.cached
        counts["written"] += tokens.written

    # --- putting it on the wire -------------------------------------------------------------------------------------

    def _answer(self, door: Door, asked: Asked, act: Act) -> None:
        if door.asked is not asked:  # the client is gone
            return
        reset, hang = act.get("reset"), act.get("hang")
        hang = "before" if hang is True else hang
        if reset in ("before", "close") or hang == "before":
            self._done(door, asked, reset or "hang", answered=hang is None)
            if reset:
                door.cut(politely=reset == "close")
            return
        status, told, own = self.answered(asked, act)
        kind, body = "application/json", b""
        if "raw" in act:
            kind, body = "text/html", act["raw"].encode()
        elif status == 200 and asked.body.get("stream") is True:
            kind, body = "text/event-stream", anthropic_shapes.stream(told)
        else:
            body = orjson.dumps(told, default=str, option=_PASS)
        own.setdefault("content-type", kind)
        head = _head(status, own, len(body))
        self._done(door, asked, reset or hang or str(status), answered=hang is None and "drip" not in act)
        if reset or hang:
            door.transport.write(head + (body[: len(body) // 2] if "body" in (reset, hang) else b""))
            if reset:
                asyncio.get_running_loop().call_later(0.02, door.cut)  # what was written goes out first
        elif "drip" in act:
            self._drip(door, asked, head + body, len(head), act["drip"])
        else:
            door.send(head + body)

    def _drip(self, door: Door, asked: Asked, data: bytes, end: int, how: Mapping[str, float]) -> None:
        """Send a piece, and the next one later."""
        if door.asked is not asked:
            return
        if end >= len(data):
            door.log.in_flight -= 1
            door.asked = None
            door.send(data)
            return
        door.transport.write(data[:end])
        size = int(how.get("bytes", 8))
        asyncio.get_running_loop().call_later(how.get("every", 0.1), self._drip, door, asked, data[end:], size, how)

    def _done(self, door: Door, asked: Asked, outcome: str, *, answered: bool) -> None:
        """Note what became of a request; one that hangs stays in flight until its client goes."""
        log = door.log
        log.statuses[outcome] += 1
        log.seconds.setdefault(int(time.monotonic() - (log.begun or 0.0)), Counter())[outcome] += 1
        if answered:
            log.in_flight -= 1
            door.asked = None
        if log.kept.maxlen != 0:
            log.kept.append(
                {"at": asked.at, "in_flight": asked.in_flight, "nth": asked.nth, "dialect": asked.dialect,
                 "mode": asked.mode, "model": asked.model, "path": asked.path, "headers": dict(asked.headers),
                 "body": asked.body, "outcome": outcome}
            )  # fmt: skip

    def left(self, door: Door) -> None:
        """A client that went while it waited."""
        self.connections.discard(door)
        if door.asked is not None:
            door.log.in_flight -= 1
            door.log.gone += 1
            door.asked = None

    def _send(self, door: Door, status: int, told: Any) -> None:
        body = orjson.dumps(told, default=str, option=_PASS)
        door.send(_head(status, {"content-type": "application/json"}, len(body)) + body)


_READERS: dict[str, Callable[[Body], Asked]] = {
    "/chat/completions": openai_shapes.chat,
    "/responses": openai_shapes.responses,
    "/messages": anthropic_shapes.messages,
}
_PASS = orjson.OPT_NON_STR_KEYS
_SHAPES: dict[str, Any] = {
    "chat": openai_shapes, "responses": openai_shapes, "messages": anthropic_shapes, "gemini": gemini_shapes
}  # fmt: skip


def read(path: str, body: bytes | Body) -> Asked | None:
    """The question a request asks, or None where its path asks none."""
    reader = next((reader for end, reader in _READERS.items() if path.endswith(end)), None)
    if reader is not None:
        return reader(body if isinstance(body, dict) else orjson.loads(body))
    if path.endswith(":generateContent"):
        told = body if isinstance(body, dict) else orjson.loads(body)
        return gemini_shapes.generate(told, path.rpartition("/")[2].partition(":")[0])
    return None


def _dialect(path: str) -> str:
    return "messages" if "/messages" in path else "gemini" if path.startswith("/v1beta") else "chat"


def _keys(headers: Mapping[str, str], query: str) -> tuple[str, ...]:
    """The keys a request came with."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    named = [headers.get(name, "") for name in ("x-api-key", "x-goog-api-key", "api-key")]
    return (bearer, *named, *(part.removeprefix("key=") for part in query.split("&") if part.startswith("key=")))


def _head(status: int, headers: Mapping[str, str], length: int) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} -\r\n{lines}content-length: {length}\r\n\r\n".encode("latin-1")


class Door(asyncio.Protocol):
    """One connection: a request at a time, kept open between them."""

    transport: asyncio.Transport

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._buffer = bytearray()
        self._head: tuple[str, str, dict[str, str]] | None = None
        self._busy = self._reading = False
        self.asked: Asked | None = None
        self.log = stand.log
        """The log of the script under which it asks: what ends under the next one is still this one's."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._stand.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It went."""
        self._stand.left(self)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        self._buffer += data
        self._read()

    def _read(self) -> None:
        if self._reading:
            return
        self._reading = True
        while not self._busy and (found := self._request()) is not None:
            self._busy = True
            self._stand.arrived(self, *found)
        self._reading = False

    def _request(self) -> tuple[str, str, dict[str, str], bytes] | None:
        """The next request, once all of it is there."""
        buffer = self._buffer
        if self._head is None:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(buffer) > _LONGEST_HEAD:
                    self.cut()
                return None
            lines = buffer[:end].decode("latin-1").split("\r\n")
            del buffer[: end + 4]
            method, target, _ = lines[0].split(" ", 2)
            fields = (line.partition(":") for line in lines[1:])
            headers = {name.lower(): value.strip() for name, _, value in fields}
            self._head = (method, target, headers)
            if headers.get("expect") == "100-continue":
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self._body(self._head[2])
        if body is None:
            return None
        (method, target, headers), self._head = self._head, None
        return method, target, headers, body

    def _body(self, headers: Mapping[str, str]) -> bytes | None:
        buffer = self._buffer
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks()
        length = int(headers.get("content-length", 0))
        if len(buffer) < length:
            return None
        body = bytes(buffer[:length])
        del buffer[:length]
        return body

    def _chunks(self) -> bytes | None:
        """A body sent in chunks, once the last one is there."""
        data, at, parts = bytes(self._buffer), 0, []
        while True:
            end = data.find(b"\r\n", at)
            if end < 0:
                return None
            size = int(data[at:end].partition(b";")[0], 16)
            if len(data) < end + 4 + size:
                return None
            parts.append(data[end + 2 : end + 2 + size])
            at = end + 4 + size
            if not size:
                del self._buffer[:at]
                return b"".join(parts)

    def send(self, data: bytes) -> None:
        """The whole reply (or the rest of it), after which the next request may come."""
        self.transport.write(data)
        self._busy = False
        if self._buffer:
            self._read()

    def cut(self, *, politely: bool = False) -> None:
        """End the connection: with a reset, or politely with an end of file."""
        if politely:
            self.transport.close()
            return
        found = self.transport.get_extra_info("socket")
        if found is not None and not self.transport.is_closing():
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()


async def serve(stand: Stand) -> tuple[asyncio.Server, str]:
    """A server on a free port of this machine, and its address."""
    server = await asyncio.get_running_loop().create_server(lambda: Door(stand), "127.0.0.1", 0, backlog=1024)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
