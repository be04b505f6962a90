"""What the author of a plugin declares, so that the conformance suite can run it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from traintrace.testing.settings import Recipe
from traintrace.testing.truth import ACCOUNT_OF, Part

if TYPE_CHECKING:
    from traintrace.testing.recipe import Parts

Train = Callable[[Recipe, "Parts", Path], Path]


@dataclass(frozen=True, slots=True)
class Integration:
    """A way to train that a plugin traces.

    Attributes:
        name: How tables call it.
        train: Trains the parts as the recipe says, traced, with runs in the given folder, and calls
            `parts.finish()` before the trace ends; gives the folder of the run. It is called with clocks
            around torch's own calls in place.
        elsewhere: Account by part of the recipe, where the plugin cannot book the part in its own
            account: the time must then be found there.
        unmeasured: For each account that the plugin does not measure, the account or group of accounts
            (`traintrace.accounts.GROUPS`) where the time must be found instead. The run must give no
            value for the account itself, and a reason.
        framework_ms: What an account may hold of the framework's own work, per micro-batch and beyond
            the usual allowance, where that work lies inside what the plugin traces [ms].
        carries_short_groups: An epoch's last group goes on in the next one if it is short, and is not
            trained in the last.
        looks_ahead: The loader fetches one batch ahead, so that every row must be flagged `lookahead`.
        device_clock: "module:name" of the function that gives the plugin its device clock, to be
            replaced by one that gives the simulated device; None if it cannot run on that.
    """

    name: str
    train: Train
    elsewhere: Mapping[Part, str] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    framework_ms: Mapping[str, float] = field(default_factory=dict)
    carries_short_groups: bool = False
    looks_ahead: bool = False
    device_clock: str | None = None

    def adapted(self, recipe: Recipe) -> Recipe:
        """Give `recipe` as this integration trains it."""
        return replace(recipe, carries_short_groups=self.carries_short_groups)

    def account_of(self, part: Part) -> str:
        """Give the account, or group of accounts, that must hold the time of `part`."""
        account = self.elsewhere.get(part, ACCOUNT_OF[part])
        return self.unmeasured.get(account, account)

    def parts_in(self, account: str) -> list[Part]:
        """Give the parts whose time `account` must hold."""
        return [part for part in ACCOUNT_OF if self.account_of(part) == account]
