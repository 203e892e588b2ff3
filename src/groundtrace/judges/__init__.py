"""Judges: they answer cases. `offline` needs no key and no network; `pool` keeps a judge's places busy."""
