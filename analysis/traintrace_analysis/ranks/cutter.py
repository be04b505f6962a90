"""The part of a window's matrices that ranks are compared on."""

from collections.abc import Iterable

import numpy as np

from traintrace_analysis.step_window import Floats, Ints, StepWindow


class Cutter:
    """Cuts the steady steps of the compared ranks out of a window's matrices."""

    def __init__(self, window: StepWindow, rows: Ints) -> None:
        self.window = window
        self.rows = slice(None) if len(rows) == len(window.ranks) else rows
        self.first = window.warmup_steps

    def cut(self, matrix: Floats | Ints) -> Floats:
        """Give the part of a matrix, gaps and all."""
        part: Floats = matrix[self.rows, self.first :].astype(np.float64, copy=False)
        return part

    def measured(self, matrix: Floats | None) -> Floats | None:
        """Give a matrix without gaps: a step that lacks the value gets the rank's usual one."""
        if matrix is None:
            return None
        part = self.cut(matrix)
        gaps = np.isnan(part)
        if not gaps.any():
            return part
        if gaps.all(axis=1).any():  # an account that never occurred on a rank
            return np.nan_to_num(part)
        return np.where(gaps, np.nanmedian(part, axis=1, keepdims=True), part)

    def spans(self, names: Iterable[str], *, before: bool = True, inside: bool = True) -> Floats:
        """Sum spans; what precedes the first row of the run is set-up and belongs to no round."""
        window = self.window
        total = np.zeros_like(self.cut(window.start_ns))
        for name in names:
            if before and name in window.between:
                part = self.cut(window.between[name])
                total[:, 0 if self.first else 1 :] += part[:, 0 if self.first else 1 :]
            if inside and name in window.inside:
                total += self.cut(window.inside[name])
        return total
