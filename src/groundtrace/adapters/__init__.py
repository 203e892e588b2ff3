"""The doors to other systems: each knows its transport, none knows the others.

`lines` (reading files of JSON), `ledger` (files that only grow) and `published` (what of a card a platform is told)
are the rooms they share.
"""
