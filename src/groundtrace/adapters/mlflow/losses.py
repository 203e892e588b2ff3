"""What may be left or lost on the way from MLflow, as the report says it."""

from __future__ import annotations

OURS = "{n} trace of our own judges: left out", "{n} traces of our own judges: left out"
PENDING = "{n} trace has not ended: left for the next run", "{n} traces have not ended: left for the next run"
STALE = (
    "{n} trace began more than a day ago and was never told to have ended: not judged",
    "{n} traces began more than a day ago and were never told to have ended: not judged",
)
YOUNG = "{n} trace ended just now: left for the next run", "{n} traces ended just now: left for the next run"
GROWING = (
    "{n} trace has spans that have not ended or not come yet: left for the next run",
    "{n} traces have spans that have not ended or not come yet: left for the next run",
)
UNENDED = (
    "{n} trace holds spans that were never told to have ended: read as it is",
    "{n} traces hold spans that were never told to have ended: read as they are",
)
ORPHANED = (
    "{n} trace lacks spans that others stand below: read as it is",
    "{n} traces lack spans that others stand below: read as they are",
)
VANISHED = (
    "{n} trace was listed, but MLflow gave none of its spans: left for the next run",
    "{n} traces were listed, but MLflow gave none of their spans: left for the next run",
)
ELSEWHERE = (
    "{n} trace is kept as a file beside the server, where spans can't be asked for: not judged",
    "{n} traces are kept as files beside the server, where spans can't be asked for: not judged",
)
GONE = (
    "{n} trace that was asked for by its id is not there any more",
    "{n} traces that were asked for by their ids are not there any more",
)
