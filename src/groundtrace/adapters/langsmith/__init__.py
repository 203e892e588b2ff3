"""LangSmith: traces pulled, scores written as feedback, people's reviews fetched, evaluators attached."""
