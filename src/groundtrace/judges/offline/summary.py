"""Summary groundedness: a summary held against its source, and the source's foremost sentences against the summary.

Four dimensions of five are assessed by fixed cuts; causes, conditions and the order of events are beyond counting
words. So are names that change places: swaps that words show were tried, and found none of those people found. What is
listed quotes summary and source word for word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from groundtrace.judges.offline.measure import (
    CLAUSE_WORDS,
    SILENT,
    Answered,
    Tokenise,
    flags,
    level,
    numbered,
    overall,
    stated,
)
from groundtrace.lexical import Clash, Comparison, Passages, Tokens, clash, compare, content_words

UNASSESSED = frozenset({"causal_logical_structure"})
"""Words that are all there say nothing of what caused what."""

SHARES = (0.8, 0.5, 0.25)
"""The share of claims, or of facts, that are as they should be, from which a dimension is 4, 3, 2."""

FOREMOST = 5
"""How many sentences of a source a summary should have something of."""

MASSES = (0.8, 0.65, 0.5, 0.35)
"""The share of these sentences' weight that a summary must hold for a 5, 4, 3, 2 in omission."""

FADING = 0.1
"""How fast a sentence counts for less the further down it stands."""

HELD = 0.4
"""A foremost sentence of which a summary holds less is an omission."""

_QUOTABLE = 240
_LISTED = 20
_SIGNS = (("“", "”"), ("«", "»"), ('"', '"'), ("`", "`"))
_Sentence: TypeAlias = tuple[float, frozenset[str], Mapping[str, int], str]
"""Its salience, its words, what each word of its source tells, and the sentence itself."""

_STATES = {5: "present", 4: "present", 3: "partial", 2: "missing", 1: "missing"}


@dataclass(frozen=True, slots=True)
class _Held:
    """A claim of the summary, what holding it against the source gave, and where the source says otherwise."""

    text: str
    found: Comparison
    level: int
    clash: Clash | None

    @property
    def agrees(self) -> bool:
        """Whether the source carries the claim, nothing is missing, and no word of it is turned round."""
        strange = self.found.missing_numbers or self.found.missing_names or self.found.antonym_clash
        return self.level >= 4 and not strange and not self.clash


def judge_summary(body: Mapping[str, Any], tokenise: Tokenise) -> Answered:
    """The verdict on a summary."""
    texts = [part["text"] for part in body["source"]]
    source, summary = Passages(texts, tokenise), body["summary"]
    held = []
    for claim in stated(summary, [part["id"] for part in body["source"]]):
        found = compare(claim, source)
        held.append(_Held(claim, found, level(found), clash(claim, source, found)))
    facts = body.get("key_facts") or []
    states = [(fact, _STATES[level(compare(fact, Passages([summary], tokenise)))]) for fact in facts]
    dimensions = {
        "factual_consistency": _consistency(held, texts),
        "key_information_omission": _left_out(states, source, tokenise(summary)),
        "unsupported_content_insertion": _insertion(held),
        "entity_relationship_preservation": _entities(held, tokenise, texts),
    }
    scores = {name: dimension["score"] for name, dimension in dimensions.items()}
    verdict = {
        "overall_faithfulness_score": overall(scores, body.get("weights"), 2),
        "overall_rating": None,
        "dimensions": {
            **dimensions,
            **{name: _dimension(None, "not assessed by this judge", "violations") for name in sorted(UNASSESSED)},
        },
        "critical_failures": [],
        "evaluation_notes": dimensions["factual_consistency"]["explanation"],
    }
    if facts:
        verdict["key_facts"] = [{"fact": fact, "state": state} for fact, state in states]
    return verdict, flags([item.found for item in held])


def _dimension(score: int | None, explanation: str, kind: str, items: Iterable[str] = ()) -> dict[str, Any]:
    listed = list(dict.fromkeys(items))
    return {"score": score, "explanation": explanation, kind: listed[:_LISTED]}


def grade(share: float, cuts: Sequence[float] = SHARES) -> int:
    """The level below 5 that a share reaches.

    >>> [grade(share) for share in (0.9, 0.8, 0.6, 0.3, 0.1)]
    [4, 4, 3, 2, 1]
    """
    return next((4 - place for place, cut in enumerate(cuts) if share >= cut), 1)


def _first(text: str) -> int:
    """Where the first letter or digit of a text stands."""
    return next((at for at, char in enumerate(text) if char.isalnum()), 0)


def quotation(text: str, before: str = "", behind: str = "") -> str:
    """An item about a text: its words, or the first of them, in quotation marks that do not stand in it.

    >>> quotation("He said “no”.", behind=" is in no part of the source")
    '«He said “no”.» is in no part of the source'
    """
    first = _first(text)
    text = text if first < _QUOTABLE // 2 else text[first:]
    shown = text if len(text) <= _QUOTABLE else text[:_QUOTABLE].rsplit(" ", 1)[0]
    for opens, closes in _SIGNS if content_words(shown) else ():  # of little words alone no quoted part counts
        if closes not in shown and opens not in shown and len(shown) > 1:
            return f"{before}{opens}{shown}{closes}{behind}"
    return shown


# --- what the summary says --------------------------------------------------------------------------------------------


def _consistency(held: Sequence[_Held], texts: Sequence[str]) -> dict[str, Any]:
    """How many claims of the summary the source carries whole; 3 at most where a number or name is not the source's."""
    wrong = [item for item in held if not item.agrees]
    if not wrong:
        told = f"The source carries every claim of the summary: {len(held)}." if held else "The summary claims nothing."
        return _dimension(5, told, "violations")
    score = grade(1 - len(wrong) / len(held))
    if any(item.clash or item.found.missing_numbers or item.found.missing_names for item in wrong):
        score = min(3, score)
    told = f"The source carries {len(held) - len(wrong)} of {numbered(len(held), 'claim', 'claims')} of the summary."
    return _dimension(score, told, "violations", (_violation(item, texts) for item in wrong))


def _violation(item: _Held, texts: Sequence[str]) -> str:
    if item.clash:
        place, start, end = item.clash.sentence
        return quotation(item.text, behind=f": the source has {quotation(texts[place][start:end])}")
    strange = [*item.found.missing_numbers, *item.found.missing_names]
    why = f" has what the source has not: {', '.join(strange)}" if strange else " is not carried by the source"
    if item.found.antonym_clash and not strange:
        why = f" has {item.found.antonym_clash[0]} where the source has {item.found.antonym_clash[1]}"
    return quotation(item.text, behind=why)


def _insertion(held: Sequence[_Held]) -> dict[str, Any]:
    """What no part of the source covers: whole claims, and clauses on which it is silent."""
    items: list[str] = []
    added = 0.0
    for item in held:
        clause, covered = item.found.weakest_clause, item.found.weakest_cover
        if item.level < 3:
            items.append(quotation(item.text, behind=" is in no part of the source"))
            added += 1
        elif clause and covered < SILENT and len(content_words(clause)) >= CLAUSE_WORDS:
            items.append(quotation(clause, behind=" is in no part of the source"))
            added += 0.5
    if not items:
        return _dimension(5, "The source has something of everything the summary says.", "inserted_items")
    told = f"The source is silent on {len(items)} of {numbered(len(held), 'claim', 'claims')}, or on a part."
    return _dimension(grade(1 - added / len(held)), told, "inserted_items", items)


def _entities(held: Sequence[_Held], tokenise: Tokenise, texts: Sequence[str]) -> dict[str, Any]:
    """What share of the summary's numbers and names the source has; who did what to whom is not seen."""
    items: list[str] = []
    told = lost = 0
    for item in held:
        tokens = tokenise(item.text)
        told += len(tokens.numbers) + len(tokens.names)
        strange = [*item.found.missing_numbers, *item.found.missing_names]
        lost += max(len(strange), item.clash is not None)
        if item.clash:
            items.append(_violation(item, texts))
        elif strange:
            items.append(quotation(item.text, behind=f" names what the source does not: {', '.join(strange)}"))
    if not items:
        return _dimension(5, "Every number and name of the summary stands in the source.", "violations")
    share = 1 - min(1, lost / max(told, lost))
    return _dimension(
        grade(share), f"{lost} of {max(told, lost)} numbers and names are not the source's.", "violations", items
    )


# --- what the summary leaves out --------------------------------------------------------------------------------------


def _left_out(states: Sequence[tuple[str, str]], source: Passages, summary: Tokens) -> dict[str, Any]:
    """The dimension: what the summary lacks of the source's foremost sentences or of its key facts, the graver one."""
    covers = _covers(source, summary)
    score, told, items = _omission(covers)
    short = [(fact, state) for fact, state in states if state != "present"]
    if states:
        counted = Counter(state for _, state in states)
        facts, present = numbered(len(states), "key fact", "key facts"), numbered(counted["present"], "is", "are")
        told += f" Of {facts} {present} present and {counted['partial']} partial."
    if short:
        score = min(score, grade((counted["present"] + counted["partial"] / 2) / len(states)))
        items = [*_shown(short, source), *items] or [_least(covers, source)]
    return _dimension(score, told, "omitted_items", items)


def _covers(source: Passages, summary: Tokens) -> list[tuple[float, float, str]]:
    """The source's foremost sentences: salience, the share of its weight that the summary holds, the text."""
    held = frozenset[str]().union(*summary.stems)
    return [(salience, _share(stems, weights, held), text) for salience, stems, weights, text in _foremost(source)]


def _omission(covers: Sequence[tuple[float, float, str]]) -> tuple[int, str, list[str]]:
    """How much of the source's foremost sentences, by weight, the summary holds: score, explanation, items."""
    total = sum(salience for salience, _, _ in covers)
    mass = sum(salience * cover for salience, cover, _ in covers) / total if total else 1.0
    left = [text for _, cover, text in covers if cover < HELD]
    score = 1 + sum(mass >= cut for cut in MASSES)
    if score == 5 and not left:
        return 5, "The summary has most of the source's foremost sentences.", []
    if not left:
        left = [min(covers, key=lambda one: one[1])[2]]
    told = f"The summary holds {round(100 * mass)} % of the words of the source's {len(covers)} foremost sentences."
    return min(4, score), told, [quotation(text, behind=" is left out") for text in left]


def _shown(short: Sequence[tuple[str, str]], source: Passages) -> Iterator[str]:
    """Where the source has the key facts that the summary lacks; of one that it never had nothing can be shown."""
    for fact, state in short:
        found = compare(fact, source)
        for place, start, end in found.sentences[:1]:
            text = source.parts[place].text[start:end]
            if content_words(text):
                yield quotation(text, behind=f" is {state}")


def _least(covers: Sequence[tuple[float, float, str]], source: Passages) -> str:
    """The foremost sentence of which the summary holds least, or how a source without any begins."""
    if covers:
        return quotation(min(covers, key=lambda one: one[1])[2], behind=" is held least")
    words = (part.text[_first(part.text) :].strip() for part in source.parts)
    return next((quotation(text, behind=" is held least") for text in words if content_words(text)), "")


def _foremost(source: Passages) -> list[_Sentence]:
    """The sentences a source turns on: full of its frequent and rare-in-English words, and early rather than late."""
    ranked: list[_Sentence] = []
    for part in source.parts:
        for place, (sentence, stems) in enumerate(zip(part.sentences, part.stems, strict=True)):
            words = frozenset(stems & part.weights.keys())
            if len(words) >= CLAUSE_WORDS:
                salience = sum(part.weights[word] for word in words) / len(words) ** 0.5 / (1 + FADING * place)
                ranked.append((salience, words, part.weights, part.text[sentence.start : sentence.end]))
    return sorted(ranked, key=lambda one: (-one[0], one[3]))[:FOREMOST]


def _share(stems: frozenset[str], weights: Mapping[str, int], held: frozenset[str]) -> float:
    """The share of a sentence's weight that is held."""
    return sum(weights[word] for word in stems & held) / sum(weights[word] for word in stems)
