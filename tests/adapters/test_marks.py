"""What was seen before, in little room: as a dict would have it."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from groundtrace.adapters.marks import Marks


@given(st.lists(st.tuples(st.text(max_size=3) | st.integers(), st.integers(0, 2**64 - 1))))
def test_it_holds_what_a_dict_would(told: list[tuple[str | int, int]]) -> None:
    """Things of equal hash aside, of which these are none."""
    marks, held = Marks(), dict[int, int]()
    for thing, number in told:
        assert marks.get(thing) == held.get(hash(thing))
        marks[thing] = number
        held[hash(thing)] = number
    assert all(thing in marks and marks.get(thing) == held[hash(thing)] for thing, _ in told)


def test_many_things_take_little_room_and_none_is_lost() -> None:
    """Through every time it grows."""
    tracemalloc.start()
    marks = Marks()
    assert all(marks.add(f"thing {n}") for n in range(50_000))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not any(marks.add(f"thing {n}") for n in range(50_000))
    assert "thing 50000" not in marks
    assert size < 50 * 50_000
