"""Builds dashboard.json with Grafana's own typed SDK: `python build_dashboard.py` after a change here.

The headline panels divide what was counted since the process began (or in the file) and not a rate(): what came before
Prometheus' first look is no part of a rate, and of a short batch that is nearly all. Only the panel that says so has
one.
"""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, Row
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef

HERE = Path(__file__).parent
NAME = "gen_ai_evaluation_name"
RUBRIC, REASON = "groundtrace_rubric_name", "groundtrace_reason"
SCORE = "groundtrace_evaluation_score"
LOW = {"1-5": r"2(\\.0)?", "0-1": r"0\\.25"}
"""Up to where a score is low, a quarter of its scale, as the bucket is called; old and new spellings of a number."""

QUERIES = {
    "Mean score": f"sum by ({NAME}) ({SCORE}_sum) / sum by ({NAME}) ({SCORE}_count)",
    "Scores counted": f"sum by ({NAME}) ({SCORE}_count)",
    "Share of low scores": " or ".join(
        f'sum by ({NAME}) ({SCORE}_bucket{{groundtrace_scale="{scale}",le=~"{edge}"}})'
        f' / sum by ({NAME}) ({SCORE}_count{{groundtrace_scale="{scale}"}})'
        for scale, edge in LOW.items()
    ),
    "Mean score of late (only where a watch or a server goes on)": (
        f"sum by ({NAME}) (rate({SCORE}_sum[$__rate_interval]))"
        f" / sum by ({NAME}) (rate({SCORE}_count[$__rate_interval]))"
    ),
    "Cards by what became of them": f"sum by ({RUBRIC}, groundtrace_status) (groundtrace_evaluation_cards_total)",
    "Not scored, by why": f"sum by ({RUBRIC}, {REASON}) (groundtrace_evaluation_unscored_total)",
    "To be looked at by a person, by why": f"sum by ({RUBRIC}, {REASON}) (groundtrace_evaluation_review_total)",
    "Replies of the judge that were not valid": f"sum by ({RUBRIC}) (groundtrace_judge_errors_total)",
    "What the judge cost (US dollars)": f"sum by ({RUBRIC}) (groundtrace_judge_cost_total)",
}
_LEGENDS = {
    "Cards by what became of them": "{{groundtrace_rubric_name}} {{groundtrace_status}}",
    "Not scored, by why": "{{groundtrace_rubric_name}} {{groundtrace_reason}}",
    "To be looked at by a person, by why": "{{groundtrace_rubric_name}} {{groundtrace_reason}}",
    "Replies of the judge that were not valid": "{{groundtrace_rubric_name}}",
    "What the judge cost (US dollars)": "{{groundtrace_rubric_name}}",
}
_NOW = ("Mean score", "Scores counted", "Share of low scores")


def dashboard() -> str:
    """The dashboard's JSON."""
    source = DataSourceRef(type_val="prometheus", uid="${datasource}")
    board = Dashboard("groundtrace").uid("groundtrace").tags(["groundtrace"]).refresh("1m").time("now-24h", "now")
    board = board.with_variable(DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    board = board.with_row(Row("Now").id(1))
    number = 2
    for title in _NOW:
        query = Dataquery().ref_id("A").expr(QUERIES[title]).legend_format(f"{{{{{NAME}}}}}").instant()
        panel = stat.Panel().id(number).title(title).datasource(source).with_target(query)
        board = board.with_panel(panel.unit("percentunit") if title.startswith("Share") else panel)
        number += 1
    board = board.with_row(Row("Over time").id(number))
    for title, expression in QUERIES.items():
        number += 1
        query = Dataquery().ref_id("A").expr(expression).legend_format(_LEGENDS.get(title, f"{{{{{NAME}}}}}"))
        lines = timeseries.Panel().id(number).title(title).datasource(source).with_target(query)
        board = board.with_panel(lines.unit("percentunit") if title.startswith("Share") else lines)
    return f"{JSONEncoder(sort_keys=True, indent=2).encode(board.build())}\n"


if __name__ == "__main__":
    (HERE / "dashboard.json").write_text(dashboard(), encoding="utf-8")
