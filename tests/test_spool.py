"""What a spool took is there after a kill, whole; what was done with it is not done again."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from groundtrace.adapters.otel.requests import Parcel
from groundtrace.errors import PlanError, PlatformError
from groundtrace.serve.spool import JUDGED, PASSED, Piece, Spool
from serving import cut_off

TRACE = "0af7651916cd43dd8448eb211c80319c"


def parcel(n: int, *, trace_id: str = TRACE, signal: Any = "traces", data: bytes = b"") -> Parcel:
    """A parcel that can be told from others."""
    return Parcel(signal, trace_id, n, n % 2 == 0, data or f"parcel {n}".encode())


def told(spool: Spool, pieces: Sequence[Piece]) -> list[Parcel]:
    """What they hold, as it was put in."""
    return [Parcel(p.signal, p.trace_id, p.count, p.rooted, spool.read(p)) for p in pieces]


def files(folder: Path) -> list[str]:
    """The segments in a folder."""
    return sorted(path.name for path in folder.glob("*.otlp"))


def test_what_was_put_is_there_after_the_next_start(tmp_path: Path) -> None:
    """All of it, in order, with what was done with each."""
    parcels = [parcel(1), parcel(2, signal="logs", trace_id=""), parcel(3, data=os.urandom(100_000))]
    spool = Spool(tmp_path)
    pieces = spool.put(parcels)
    assert told(spool, pieces) == parcels
    spool.mark([pieces[0]], PASSED)
    spool.mark([pieces[0], pieces[2]], JUDGED)
    cut_off(spool)
    with Spool(tmp_path) as again:
        assert told(again, again.found) == parcels
        assert [piece.done for piece in again.found] == [PASSED | JUDGED, 0, JUDGED]
        assert again.put([parcel(4)])
        assert again.torn == 0


def test_files_go_when_nobody_needs_them(tmp_path: Path) -> None:
    """Each on its own; at the end nothing is left but the lock."""
    with Spool(tmp_path, segment=1) as spool:
        first, second, third = (spool.put([parcel(n)])[0] for n in range(3))
        assert len(files(tmp_path)) == 3
        spool.release([second])
        assert len(files(tmp_path)) == 2
        size = spool.size
        spool.release([first, third])
        assert spool.size < size
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


@settings(max_examples=60)
@given(cut=st.integers(1, 200), rubbish=st.binary(max_size=40))
def test_what_a_kill_left_half_written_is_cut_off(tmp_path_factory: Any, cut: int, rubbish: bytes) -> None:
    """Wherever it was cut, and whatever stands there: what was answered for is whole, and more can be put."""
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(folder)
    spool.put([parcel(1), parcel(2)])
    whole = spool.size
    spool.put([parcel(3)])
    cut_off(spool)
    at = folder / files(folder)[0]
    written = at.read_bytes()
    left = written[: max(whole, len(written) - cut)] + rubbish
    assume(not left.startswith(written))  # what stands there is what was cut off: nothing is half written
    at.write_bytes(left)
    with at.with_suffix(".done").open("ab") as ledger:
        ledger.write(rubbish)
    again = Spool(folder)
    assert told(again, again.found) == [parcel(1), parcel(2)]
    again.mark(again.found, JUDGED)
    again.put([parcel(4)])
    cut_off(again)
    with Spool(folder) as third:
        assert told(third, third.found) == [parcel(1), parcel(2), parcel(4)]
        assert third.found[0].done == JUDGED


def test_what_was_done_with_a_file_that_is_gone_says_nothing_of_the_next(tmp_path: Path) -> None:
    """A kill between the two leaves what was noted; the next file of that name is another."""
    spool = Spool(tmp_path)
    spool.mark(spool.put([parcel(1)]), PASSED | JUDGED)
    cut_off(spool)
    (tmp_path / files(tmp_path)[0]).unlink()
    again = Spool(tmp_path)
    again.put([parcel(2)])
    cut_off(again)
    with Spool(tmp_path) as third:
        assert told(third, third.found) == [parcel(2)]
        assert [piece.done for piece in third.found] == [0]


def test_a_damaged_parcel_costs_itself_alone(tmp_path: Path) -> None:
    """A checksum that does not fit: what came before it stands, and what came after it, which was answered for."""
    spool = Spool(tmp_path)
    pieces = spool.put([parcel(1), parcel(2), parcel(3)])
    spool.mark([pieces[2]], JUDGED)
    cut_off(spool)
    at = tmp_path / files(tmp_path)[0]
    data = bytearray(at.read_bytes())
    data[pieces[1].at + 40] ^= 0xFF
    at.write_bytes(data)
    with Spool(tmp_path) as again:
        assert told(again, again.found) == [parcel(1), parcel(3)]
        assert [piece.done for piece in again.found] == [0, JUDGED]
        assert again.torn == 1


def test_where_a_parcel_begins_must_be_known(tmp_path: Path) -> None:
    """What follows damage to a length is not believed: nobody knows where it begins."""
    spool = Spool(tmp_path)
    pieces = spool.put([parcel(1), parcel(2), parcel(3)])
    cut_off(spool)
    at = tmp_path / files(tmp_path)[0]
    data = bytearray(at.read_bytes())
    data[pieces[1].at + 4] ^= 0x01
    at.write_bytes(data)
    with Spool(tmp_path) as again:
        assert told(again, again.found) == [parcel(1)]
        assert again.torn == 1


def test_a_folder_is_one_servers(tmp_path: Path) -> None:
    """Two would send everything twice."""
    with Spool(tmp_path), pytest.raises(PlanError, match="is another server's; name another folder with --spool"):
        Spool(tmp_path)
    with Spool(tmp_path):
        pass


def test_a_place_that_is_no_folder_is_said(tmp_path: Path) -> None:
    """Before anything is taken."""
    (tmp_path / "file").touch()
    with pytest.raises(PlanError, match=r"spool: .* can't be made"):
        Spool(tmp_path / "file")


def test_a_disk_without_room_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of what did not fit stays, and what comes later does."""
    write = os.pwrite

    def full(file: int, data: Any, at: int) -> int:
        monkeypatch.setattr(os, "pwrite", none)
        return write(file, data[:7], at)

    def none(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    spool = Spool(tmp_path)
    spool.put([parcel(1)])
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(PlatformError, match="can't be written to: No space left"):
        spool.put([parcel(2)])
    monkeypatch.setattr(os, "pwrite", write)
    spool.put([parcel(3)])
    cut_off(spool)
    with Spool(tmp_path) as again:
        assert told(again, again.found) == [parcel(1), parcel(3)]


def test_a_disk_without_room_for_what_was_done_stops_nothing(tmp_path: Path) -> None:
    """It is done again after a kill; files go as ever."""
    (tmp_path / "000000000001.done").symlink_to("/dev/full")
    with Spool(tmp_path, segment=1) as spool:
        [first] = spool.put([parcel(1)])
        spool.mark([first], PASSED)
        [second] = spool.put([parcel(2)])
        spool.mark([first, second], JUDGED)
        spool.release([first])
        assert files(tmp_path) == ["000000000002.otlp"]
        assert told(spool, [second]) == [parcel(2)]


def test_what_was_done_is_known_though_there_was_no_room_for_a_while(tmp_path: Path) -> None:
    """Half a line that did not fit shifts none that come later."""
    room = tmp_path / "room"
    script = """
import resource, signal, sys
from pathlib import Path
from groundtrace.adapters.otel.requests import Parcel
from groundtrace.serve.spool import Spool
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
spool = Spool(Path(sys.argv[1]))
pieces = spool.put([Parcel("traces", "a" * 32, 1, True, b"x") for _ in range(3)])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (5, most))
spool.mark(pieces[:1], 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
spool.mark(pieces[1:], 2)
"""
    subprocess.run([sys.executable, "-c", script, str(room)], check=True)
    with Spool(room) as again:
        assert [piece.done for piece in again.found][1:] == [JUDGED, JUDGED]


@pytest.mark.parametrize("before", [0, 1])
def test_what_did_not_reach_the_disk_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """Who was refused sends it again: it is not there a second time. A file that could not be made is no hindrance."""

    def broken(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    spool = Spool(tmp_path, segment=1000)
    for _ in range(before):
        spool.put([parcel(2)])
    with monkeypatch.context() as for_a_while:
        for_a_while.setattr(os, "fsync", broken)
        with pytest.raises(PlatformError, match="can't be written to: Input/output error"):
            spool.put([parcel(1)])
    for _ in range(3):
        spool.put([parcel(2, data=os.urandom(2000))])
    assert len(files(tmp_path)) == 3
    cut_off(spool)
    with Spool(tmp_path) as again:
        assert [piece.count for piece in again.found if piece.done != PASSED | JUDGED] == [2] * (3 + before)


def test_a_spool_that_is_closed_takes_nothing(tmp_path: Path) -> None:
    """Who sends while a server ends is to come again, and is not told that something broke."""
    with Spool(tmp_path) as spool:
        spool.put([parcel(1)])
    with pytest.raises(PlatformError, match="is closed"):
        spool.put([parcel(2)])
    with Spool(tmp_path) as again:
        assert told(again, again.found) == [parcel(1)]
