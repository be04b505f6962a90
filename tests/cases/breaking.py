"""Deliberate defects: each names a place of the product, what is broken there, and the cases that must then fail.

A case whose test still passes when its seam is broken proves nothing. `test_breaks.py` applies each
defect to a copy of the packages and demands that the named cases fail there.
"""

from typing import NamedTuple


class Break(NamedTuple):
    """One defect.

    Attributes:
        cases: Ids of the cases that must fail, e.g. ("l13",).
        file: The file to break, relative to the root of the repository.
        old: Text that is in the file exactly once.
        new: What stands there instead.
    """

    cases: tuple[str, ...]
    file: str
    old: str
    new: str
