"""The vocabularies spans are written in: each module knows one, looks at one span, and says what it holds.

Each has a module of its name; `genai_old` has what OpenTelemetry GenAI was, `record` what the jsonl source reads,
`paths` what a plan declares. `shapes` and `messages` are what they share, `cited` the citations providers leave.
"""
