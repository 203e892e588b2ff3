"""Score one answer you have at hand: no trace, no key, no network.

Prints:

    source_support: mean 3.5 of 5
      c1 -> opening  5  The library opens at 9:00 on weekdays
      c2 -> cafe     2  The café opens on Sundays at noon
    rag_faithfulness: partial, 1 for review
      claim_support: 3 of 5
      citation_accuracy: 3 of 5
"""

from groundtrace import evaluate, judge, record, rubric

answer = record(
    query="When does the library open, and the café?",
    context=[
        {"id": "opening", "text": "The library opens at 9:00 on weekdays and at 10:00 on Saturdays."},
        {"id": "cafe", "text": "The café sells coffee, tea and cake."},
    ],
    answer="The library opens at 9:00 on weekdays [1]. The café opens on Sundays at noon [2].",
)

for card in evaluate([answer], [rubric("source_support"), rubric("rag_faithfulness")], judge("offline")):
    if card.rubric == "source_support":
        print(f"source_support: mean {card.headline.value:g} of 5")
        for finding in card.findings:
            said = finding.details
            print(f"  {said['claim_id']} -> {said['source_id']:<8} {finding.value:g}  {said['claim']}")
    else:
        # The offline judge leaves two of four dimensions to a model: the card is partial and has no headline.
        print(f"rag_faithfulness: {'partial' if card.partial else 'whole'}, {len(card.review)} for review")
        for score in card.scores:
            if score.value is not None and not score.name.endswith("assessed"):
                print(f"  {score.name.partition('.')[2]}: {score.value:g} of {score.high:g}")
