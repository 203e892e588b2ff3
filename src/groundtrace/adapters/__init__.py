"""The doors to other systems: each knows its transport, none knows the others.

`lines` (reading files of JSON), `ledger` (files that only grow), `published` (what of a card a platform is told) and
`experiments` (what hangs in a platform's own experiments) are among the rooms they share.
"""
