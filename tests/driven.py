"""What runs in the browser's own environment: opens a page as standard input says and tells what is on it."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
HERE = ("http://127.0.0.1", "http://localhost", "data:", "blob:")


def main() -> None:
    """Open the page, wait, click, look."""
    from playwright.sync_api import Error, sync_playwright  # type: ignore[import-not-found]

    told = json.load(sys.stdin)
    strays: list[str] = []

    def pass_on(route: Any) -> None:
        if route.request.url.startswith(HERE):
            route.continue_()
        else:
            strays.append(route.request.url[:200])
            route.abort()

    width, height = told["size"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=told["chromium"], args=list(FLAGS), headless=True)
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
        context.route("**/*", pass_on)
        page = context.new_page()
        page.set_default_timeout(60_000)
        try:
            page.goto(told["url"])
            for text in told["wait"]:
                page.get_by_text(text).first.wait_for(state="attached")
            page.wait_for_timeout(1000 * told["settle"])
            for text in told["tap"]:  # by its place: what lies over it takes the click of a selector
                found = page.get_by_text(re.compile(f"^{re.escape(text)}"))
                boxes = [one.bounding_box() for one in found.all() if one.is_visible()]
                if not boxes:
                    sys.exit(f"{told['url']}: nothing visible starts with {text!r}")
                box = boxes[-1]
                page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
                page.wait_for_timeout(1000 * told["settle"])
            if told["script"]:
                page.evaluate(told["script"])
                page.wait_for_timeout(1000 * told["settle"])
            seen = {"text": page.inner_text("body"), "html": page.content(), "strays": strays}
        except Error as error:
            sys.exit(f"{told['url']}: {error}\n{page.inner_text('body')[:2000]}")
        finally:
            page.screenshot(path=told["picture"])
            browser.close()
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
