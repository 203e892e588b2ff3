"""`python -m standins.llm`, with tests/ on the path: prints the address, and ends with its standard input."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading

from .server import Stand, serve


async def main() -> None:
    """Serve until whoever started it closes its standard input, or is gone."""
    server, url = await serve(Stand())
    gc.freeze()  # benchmarks time the client beside this process: what is loaded stays, and little else lives long
    gc.set_threshold(50_000, 20, 20)
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    threading.Thread(target=_wait, args=[loop, over], daemon=True).start()
    print(url, flush=True)
    await over.wait()
    server.close()


def _wait(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    sys.stdin.read()
    loop.call_soon_threadsafe(over.set)


if __name__ == "__main__":
    asyncio.run(main())
