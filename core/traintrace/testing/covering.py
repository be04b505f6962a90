"""Choose few combinations of parameters in which every pair of values still occurs together."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

Combination = Mapping[str, Any]
_Pair = tuple[tuple[str, Any], ...]


def full_product(parameters: Mapping[str, Sequence[Any]]) -> list[Combination]:
    """Give every combination of one value per parameter."""
    combined = itertools.product(*parameters.values())
    return [dict(zip(parameters, values, strict=True)) for values in combined]


def pairwise(parameters: Mapping[str, Sequence[Any]]) -> list[Combination]:
    """Give few combinations in which every pair of values of two parameters occurs.

    Greedy, and the same list every time: each choice holds the most pairs that are still missing. A
    single parameter is tried with each of its values.
    """
    candidates = [(c, _pairs(c)) for c in full_product(parameters)]
    missing = {pair for _, pairs in candidates for pair in pairs}
    chosen: list[Combination] = []
    while missing:
        combination, pairs = max(candidates, key=lambda candidate: len(candidate[1] & missing))
        chosen.append(combination)
        missing -= pairs
    return chosen


def _pairs(combination: Combination) -> frozenset[_Pair]:
    values = sorted(combination.items(), key=lambda item: item[0])
    return frozenset(itertools.combinations(values, min(2, len(values))))
