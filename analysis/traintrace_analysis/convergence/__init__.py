"""How training went: the course of the loss and the gradient norm, and steps at which signals move together.

`examine_convergence` is the door. It reads what was logged (`names` says what is judged, by which names),
and the steps of the window. `spikes` and `course` judge one value; `together` compares several; `explained` says what
the amount of data explains of the step time. `tails` and `surroundings` are what keeps noise from being news.
"""

from traintrace_analysis.convergence.examine import examine_convergence
from traintrace_analysis.convergence.model import Convergence, Course, Lost

__all__ = ["Convergence", "Course", "Lost", "examine_convergence"]
