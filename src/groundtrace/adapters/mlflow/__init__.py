"""MLflow: traces in, scores out as assessments, people's own assessments back as labels; over its REST API."""
