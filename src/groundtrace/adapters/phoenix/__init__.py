"""Phoenix: traces in, scores out as annotations, people's own annotations back as labels; over its REST API."""
