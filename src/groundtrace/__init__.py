"""Groundedness scores for the traces you already have."""
