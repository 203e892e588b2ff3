"""The doors to other systems: each knows its transport, none knows the others.

The rooms they share: `lines` (reading files of JSON), `values` (one value of any spelling), `phoenix_json` and
`mlflow_json` (those tools' spans), `files` and `ledger` (files that are read, and files that only grow), `rest`,
`patience` and `throttle` (asking over HTTP), `apart` (what is kept apart from its row), `options` and `times` (words
and moments as they are written), `losses` (what was left on the way), `published` and `facts` (what of a card a
platform is told), `asked` (what a person is), `experiments` (what hangs in a platform's own experiments).
"""
