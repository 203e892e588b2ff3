"""Braintrust: traces pulled with BTQL, scores pushed as scorer spans, a scorer for its experiments."""
