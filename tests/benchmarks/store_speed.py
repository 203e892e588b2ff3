"""How fast the store takes and gives: `python tests/benchmarks/store_speed.py [PATH|URL] [--replies 1000000]`.

Cards and replies are told in batches of 16, as a run does. Without a place it fills a file in a temporary folder; with
one, the store there must be new. Look-ups are timed again with the store full of replies: they must not get slower.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import islice

from groundtrace.model import Attempt, Intent, Reply, Scorecard, Usage
from groundtrace.store import Store, open_store
from groundtrace.testing import sample_card

BATCH = 16
CARDS = 4000
LOOKUPS = 10_000
TEXT = '{"score": 4, "support_level": "Strongly Implies", "rationale": "The passage says so in other words."}'


def timed(what: str, count: int, work: Callable[[], object]) -> None:
    """Do a piece of work and print how many a second that was, and how many a second of this process's CPU."""
    begin, busy = time.perf_counter(), time.process_time()
    work()
    seconds, cpu = time.perf_counter() - begin, time.process_time() - busy
    print(f"{what:<44}{count / seconds:>10,.0f} / s{count / cpu:>10,.0f} / s of CPU", flush=True)


def in_batches(store: Store, values: Iterable[object], tell: Callable[[object], None]) -> None:
    """Tell values in batches of 16."""
    left = iter(values)
    while some := list(islice(left, BATCH)):
        with store.batch():
            for value in some:
                tell(value)


def card(n: int) -> Scorecard:
    """A card with three pairs' attempts."""
    attempts = tuple(Attempt(slot=f"c{k}>p1", attempt=1, judge="judge", text=TEXT) for k in range(3))
    return sample_card(id=f"00000000-0000-5000-8000-{n:012d}", attempts=attempts)


def keep_reply(store: Store, n: int) -> None:
    """Tell a store the n-th reply; digests are spread like real ones."""
    reply = Reply(TEXT, "judge", usage=Usage(900, 60), cost=0.001, latency=1.2)
    store.keep_reply("judge:model", digest(n), reply, (), card_id=f"card-{n // 6}", slot=f"c{n % 6}>p1")


def digest(n: int) -> str:
    """The n-th of many digests in no order."""
    return f"{random.Random(n).getrandbits(256):064x}"


def time_lookups(store: Store, replies: int) -> None:
    """Ask for replies all over the store."""
    pick = random.Random(1)
    digests = [digest(pick.randrange(replies)) for _ in range(LOOKUPS)]
    assert all(store.reply("judge:model", one) for one in digests[:100])
    timed(
        f"replies looked up, {replies:,} there", LOOKUPS, lambda: [store.reply("judge:model", one) for one in digests]
    )


def measure(store: Store, replies: int) -> None:
    """Every figure."""
    cards = [card(n) for n in range(CARDS)]
    timed("cards written, in batches of 16", CARDS, lambda: in_batches(store, cards, store.keep_card))
    timed("cards looked up", CARDS, lambda: [store.card(one.id) for one in cards])
    timed("cards written again, unchanged", CARDS, lambda: in_batches(store, cards, store.keep_card))
    few = 20_000
    timed(
        "replies written, in batches of 16", few, lambda: in_batches(store, range(few), lambda n: keep_reply(store, n))
    )
    timed("replies written, one by one", 2000, lambda: [keep_reply(store, few + n) for n in range(2000)])
    intents = [Intent(sink="s", card_id="c", score="x", feedback_id=str(n), content_hash="h") for n in range(2000)]
    timed("intents noted, one by one", 2000, lambda: [store.intend(intent) for intent in intents])
    timed("leases taken", 2000, lambda: [store.lease(f"k{n}", "me", 60) for n in range(2000)])
    time_lookups(store, few)
    rest = range(few + 2000, replies)
    if rest:
        timed("replies written, the rest", len(rest), lambda: in_batches(store, rest, lambda n: keep_reply(store, n)))
        time_lookups(store, replies)


def main() -> None:
    """Fill a store and print how fast that went."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("where", nargs="?")
    asked.add_argument("--replies", type=int, default=1_000_000)
    told = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_store(told.where or f"{folder}/store.db") as store:
        measure(store, told.replies)


if __name__ == "__main__":
    main()
