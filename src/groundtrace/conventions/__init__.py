"""The vocabularies spans are written in: each module knows one, looks at one span, and says what it holds.

Here: `genai` (OpenTelemetry GenAI, content on the span or in the logs beside it), `openinference`, `record` (what the
jsonl source reads) and `paths` (what a plan declares); `shapes` and `messages` are what they share. Still to come, a
module each: openllmetry, langsmith, braintrust, vercel, pydantic_ai, logfire, mlflow, langfuse, haystack, trulens.
"""
