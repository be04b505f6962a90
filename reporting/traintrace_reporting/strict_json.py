"""JSON from a file that somebody may have edited: strict, and what is wrong is named by its place."""

import json
import math
from typing import Any


def parse(text: str) -> Any:
    """Read JSON that says everything once, with finite numbers.

    Raises:
        ValueError: It is no JSON, a key stands twice, or a number is not finite; the message says which.
    """
    content = json.loads(text, object_pairs_hook=_object)
    place = _not_finite(content)
    if place is not None:
        raise ValueError(f"{'.'.join(place) or 'the top level'}: not a finite number")
    return content


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in content if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:80]!a} stands twice")
    return content


def _not_finite(value: object) -> list[str] | None:
    """Give the keys that lead to the first number that is not finite; None if there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else []
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)  # type: ignore[assignment]
    else:
        return None
    for key, item in inner:
        place = _not_finite(item)
        if place is not None:
            return [str(key), *place]
    return None
