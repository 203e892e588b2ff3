"""The table of docs/scores.md, made from the catalogue: `python tests/scores_page.py` writes it into the page."""

from __future__ import annotations

from pathlib import Path

from groundtrace.rubrics.catalogue import CATALOGUE

PAGE = Path(__file__).parents[1] / "docs" / "scores.md"
BEGIN, END = "<!-- catalogue: begin -->", "<!-- catalogue: end -->"


def table() -> str:
    """Every score there is."""
    rows = ["| score | range | what it says | null when | label |", "|---|---|---|---|---|"]
    for score in CATALOGUE:
        asked = " *" if score.on_request else ""
        scale = f"{score.low:g} to {score.high:g}"
        rows.append(f"| `{score.name}`{asked} | {scale} | {score.says} | {score.null} | {score.labels} |")
    return "\n".join(rows)


def page() -> str:
    """The page with the table as it should stand."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:before]}\n{table()}\n{text[after:]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
