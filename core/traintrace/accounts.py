"""The chart of accounts: the one closed list of places where a training thread's time can go.

Every account is a leaf. An *in-step* account belongs to one optimizer update and is a column of the
`steps` table; a *between-step* account is kept in the `spans` table. Either kind may occur on the
other side of a step's border (a broadcast between steps, an evaluation inside one): the ledger keeps
both sides apart and loses neither.
"""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Account:
    """One leaf of the ledger.

    Attributes:
        name: The name used in the store, in JSON, in the terminal and in the documentation.
        place: "step" if the account is a column of the `steps` table, else "between".
        meaning: One sentence a user can read.
        admits: Names of the accounts that may open inside this one. None means any may. An account
            with a set here is *sealed*: whatever else runs inside it stays its own time, so that a
            validation forward is evaluation and a recomputed block is backward.
    """

    name: str
    place: Literal["step", "between"]
    meaning: str
    admits: frozenset[str] | None = None


def _only(*names: str) -> frozenset[str]:
    return frozenset(names)


ACCOUNTS: Final[tuple[Account, ...]] = (
    Account(
        "input_wait",
        "step",
        "blocked in next() for training batches, for the whole accumulation group",
        _only("h2d", "batch_prep", "epoch_boundary", "communication", "resume_skip"),
    ),
    Account("h2d", "step", "moving batches to the device, transfer hooks included", _only()),
    Account(
        "batch_prep",
        "step",
        "between the group's fetch and its first forward",
        _only("h2d", "communication"),
    ),
    Account("forward", "step", "outermost calls of the traced model", _only("communication")),
    Account(
        "backward",
        "step",
        "outermost autograd backward, recomputation included; this rank's own work only, "
        "where its end is marked",
        _only("optimizer", "communication"),
    ),
    Account(
        "gradient_sync",
        "step",
        "from the end of this rank's own backward work to the end of the backward call",
        _only("optimizer"),
    ),
    Account("optimizer", "step", "optimizer step, without what runs inside its closure"),
    Account(
        "communication",
        "step",
        "collectives called from the training thread, and marked waits between ranks",
        _only(),
    ),
    Account("clip", "step", "gradient clipping", _only("communication", "callbacks")),
    Account(
        "callbacks",
        "step",
        "other callbacks' hooks",
        _only("evaluation", "prediction", "checkpoint", "logging", "communication", "tuning"),
    ),
    Account("user", "step", "regions named by the user"),
    Account("other", "step", "inside the step and none of the above"),
    Account("startup", "between", "from the start of the session to the first batch request"),
    Account(
        "epoch_boundary",
        "between",
        "creating loader iterators and workers; a fetch that ends in StopIteration",
        _only(),
    ),
    Account(
        "evaluation",
        "between",
        "evaluation as the framework or the user marks it",
        _only("checkpoint", "logging"),
    ),
    Account("prediction", "between", "prediction as the framework marks it", _only("logging")),
    Account("checkpoint", "between", "writing checkpoints on the training thread", _only()),
    Account("logging", "between", "reading and sending logged values", _only()),
    Account("tuning", "between", "batch-size and learning-rate finders", _only()),
    Account("resume_skip", "between", "fast-forwarding data after a checkpoint", _only()),
    Account("aborted", "between", "all time of steps that were dropped"),
    Account(
        "gap", "between", "between a step's close and the next batch request, none of the above"
    ),
    Account("shutdown", "between", "after the last step, to the end of the traced span"),
)

NAMES: Final[tuple[str, ...]] = tuple(account.name for account in ACCOUNTS)
COUNT: Final = len(ACCOUNTS)

# Journal codes are these plain integers: the training thread appends them and never looks at them.
(
    INPUT_WAIT,
    H2D,
    BATCH_PREP,
    FORWARD,
    BACKWARD,
    GRADIENT_SYNC,
    OPTIMIZER,
    COMMUNICATION,
    CLIP,
    CALLBACKS,
    USER,
    OTHER,
    STARTUP,
    EPOCH_BOUNDARY,
    EVALUATION,
    PREDICTION,
    CHECKPOINT,
    LOGGING,
    TUNING,
    RESUME_SKIP,
    ABORTED,
    GAP,
    SHUTDOWN,
) = range(COUNT)

STEP_ACCOUNTS: Final[tuple[int, ...]] = tuple(
    number for number, account in enumerate(ACCOUNTS) if account.place == "step"
)
STEP_ACCOUNT_NAMES: Final[tuple[str, ...]] = tuple(NAMES[number] for number in STEP_ACCOUNTS)
BETWEEN_ACCOUNTS: Final[tuple[int, ...]] = tuple(
    number for number, account in enumerate(ACCOUNTS) if account.place == "between"
)

# What an account admits, by number; None means anything may open inside it.
ADMITS: Final[tuple[frozenset[int] | None, ...]] = tuple(
    None if account.admits is None else frozenset(NAMES.index(name) for name in account.admits)
    for account in ACCOUNTS
)

PHASES: Final[tuple[str, ...]] = ("input_wait", "h2d", "forward", "backward", "optimizer")
REQUIRED_PHASES: Final[tuple[str, ...]] = ("input_wait", "forward", "backward")

# Groups are derived where they are read and never stored.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "compute": ("forward", "backward", "optimizer"),
    "residual": ("batch_prep", "communication", "clip", "callbacks", "user", "other"),
    "waiting": ("gradient_sync", "communication"),
}


def number_of(name: str) -> int:
    """Give the number of the account called `name`.

    Raises:
        KeyError: No account has that name.
    """
    try:
        return NAMES.index(name)
    except ValueError:
        raise KeyError(f"no account is called {name!r}; accounts are {', '.join(NAMES)}") from None
