"""The published shape of `final_summary.json`, and the check against it; needs no analysis."""

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, cast

from traintrace.errors import RunReadError

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

__all__ = ["OLDER_VERSIONS", "validate", "validator"]

OLDER_VERSIONS: Final = ("0.1", "0.2", "0.3")


def validate(summary: object) -> None:
    """Check a summary against the schema that was published with its version.

    Raises:
        RunReadError: It does not fit; the message names the first place and what is wrong there.
    """
    from jsonschema.exceptions import best_match  # here, since a run that ends needs none of it

    version = summary.get("schema_version") if isinstance(summary, dict) else None
    older = version if version in OLDER_VERSIONS else None
    error = best_match(validator(older).iter_errors(cast(dict[str, Any], summary)))
    if error is not None:
        place = "/".join(str(part) for part in error.absolute_path) or "the top level"
        problem = " ".join(error.message.split())
        shown = problem if len(problem) <= 200 else problem[:200] + "..."
        raise RunReadError(f"not a valid summary: at {place}: {shown}")


@cache
def validator(older: str | None = None) -> "Draft202012Validator":
    """Give the validator of an older version, or of the current one; each is loaded once."""
    from jsonschema import Draft202012Validator

    name = f"final_summary-{older}.schema.json" if older else "final_summary.schema.json"
    text = files(__name__).joinpath(name)
    return Draft202012Validator(json.loads(text.read_text(encoding="utf-8")))
