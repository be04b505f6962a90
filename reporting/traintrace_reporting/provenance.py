"""What two runs were made of, where that differs, and what of it could explain that they behave differently."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from traintrace_reporting.format import clean, dig

Effect = Literal["time", "results"]
Json: TypeAlias = dict[str, Any]


class Fact(NamedTuple):
    """Something recorded of a run.

    Attributes:
        place: Keys that lead to it in the summary.
        effects: What a difference in it may change.
        why: How, where that is not plain.
    """

    name: str
    place: tuple[str, ...]
    effects: frozenset[Effect]
    why: str = ""


BOTH: Final[frozenset[Effect]] = frozenset(("time", "results"))
TIME: Final[frozenset[Effect]] = frozenset(("time",))
RESULTS: Final[frozenset[Effect]] = frozenset(("results",))

_ROUNDING: Final = "sums are added in another order: last digits differ, and grow"
_FACTS: Final = (
    Fact("git commit", ("environment", "git", "commit"), BOTH, "other code"),
    Fact("framework", ("run", "framework"), BOTH),
    Fact("framework version", ("run", "framework_version"), BOTH),
    Fact("python", ("environment", "python"), BOTH),
    Fact("torch", ("environment", "torch"), BOTH),
    Fact("cuda", ("environment", "cuda"), BOTH),
    Fact("driver", ("environment", "driver"), BOTH, _ROUNDING),
    Fact("processor", ("environment", "cpu"), BOTH, _ROUNDING),
    Fact("device kind", ("setup", "device", "kind"), BOTH, _ROUNDING),
    Fact("device", ("setup", "device", "name"), BOTH, _ROUNDING),
    Fact("devices", ("setup", "device", "count"), BOTH),
    Fact("CPUs", ("setup", "cpu_count"), TIME),
    Fact("threads", ("setup", "omp_threads"), BOTH, _ROUNDING),
    Fact("ranks", ("run", "world_size"), BOTH, "the batch is split otherwise"),
    Fact("nodes", ("run", "nodes", "expected"), TIME),
    Fact("strategy", ("setup", "strategy"), BOTH),
    Fact("precision", ("setup", "precision"), BOTH),
    Fact("compiled", ("setup", "compiled"), BOTH, _ROUNDING),
    Fact("parameters", ("setup", "parameter_count"), BOTH, "another model"),
    Fact("batch size", ("setup", "batch_size"), BOTH),
    Fact("batch bytes", ("setup", "batch_bytes"), BOTH, "other data"),
    Fact("accumulation", ("setup", "accumulation"), BOTH),
    Fact(
        "loader workers",
        ("setup", "loader", "workers"),
        BOTH,
        "each worker draws numbers of its own",
    ),
    Fact("loader prefetch factor", ("setup", "loader", "prefetch_factor"), TIME),
    Fact("loader pins memory", ("setup", "loader", "pin_memory"), TIME),
    Fact(
        "loader keeps workers", ("setup", "loader", "persistent"), BOTH, "workers are seeded anew"
    ),
    Fact("rank 0 reads for all", ("setup", "loader", "reads_for_all"), BOTH),
)
# Variables that only take time, or only change numbers; all others may do both.
_FLAG_EFFECTS: Final[Mapping[str, frozenset[Effect]]] = {
    "CUDA_LAUNCH_BLOCKING": TIME,
    "CUDA_MODULE_LOADING": TIME,
    "KMP_BLOCKTIME": TIME,
    "MALLOC_ARENA_MAX": TIME,
    "NCCL_DEBUG": TIME,
    "OMP_WAIT_POLICY": TIME,
    "PYTHONHASHSEED": RESULTS,
    "TOKENIZERS_PARALLELISM": TIME,
    "TORCH_DISTRIBUTED_DEBUG": TIME,
    "TORCH_NCCL_BLOCKING_WAIT": TIME,
}
# Without these nobody can say that two runs were to give the same numbers.
_NEEDED: Final = ("git commit", "torch")


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs; None is "not set", for variables and packages."""

    name: str
    a: object
    b: object
    effects: frozenset[Effect]
    why: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """What differs between two runs.

    Attributes:
        differences: In the order of `_FACTS`, then packages, seeds, variables.
        unknown: Names of what is not recorded for both.
        doubts: Why equal records do not mean equal programs.
    """

    differences: tuple[Difference, ...]
    unknown: tuple[str, ...]
    doubts: tuple[str, ...]

    def explaining(self, effect: Effect) -> tuple[Difference, ...]:
        """Give the differences that could explain a change of this kind."""
        return tuple(one for one in self.differences if effect in one.effects)


def compare_provenance(a: Mapping[str, Any], b: Mapping[str, Any]) -> Provenance:
    """Compare what two summaries say their runs were made of."""
    differences: list[Difference] = []
    unknown: list[str] = []
    for fact in _FACTS:
        left, right = dig(a, *fact.place), dig(b, *fact.place)
        if left is None or right is None:
            # Not known on one side and known on the other is no difference: an older version wrote it.
            if left is not right or fact.name in _NEEDED:
                unknown.append(fact.name)
        elif left != right:
            differences.append(Difference(fact.name, left, right, fact.effects, fact.why))
    differences += _of_mapping(a, b, ("environment", "packages"), lambda _: BOTH, skip=("torch",))
    differences += _of_mapping(a, b, ("environment", "seeds"), lambda _: RESULTS, prefix="seed of ")
    flags = [dig(one, "environment", "flags") for one in (a, b)]
    if None in flags:
        unknown.append("environment variables")
    else:
        differences += _of_mapping(
            a, b, ("environment", "flags"), lambda name: _FLAG_EFFECTS.get(name, BOTH)
        )
    if not (dig(a, "environment", "seeds") and dig(b, "environment", "seeds")):
        unknown.append("seeds")
    return Provenance(tuple(differences), tuple(unknown), tuple(_doubts(a, b)))


def _of_mapping(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    place: tuple[str, ...],
    effects: Any,
    *,
    prefix: str = "",
    skip: Sequence[str] = (),
) -> Iterator[Difference]:
    one, other = dig(a, *place) or {}, dig(b, *place) or {}
    if not (one and other) and place[-1] != "flags":
        return  # one side says nothing of any
    for name in sorted({*one, *other} - {*skip}):
        left, right = one.get(name), other.get(name)
        if left != right:
            yield Difference(prefix + clean(name, 60), left, right, effects(name), "")


def _doubts(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    states = {side: dig(one, "environment", "git", "dirty") for side, one in (("A", a), ("B", b))}
    dirty = [side for side, state in states.items() if state is True]
    unseen = [side for side, state in states.items() if state is None]
    if dirty:
        yield f"the code of {' and '.join(dirty)} had changes that are in no commit"
    if unseen:
        yield f"whether the code of {' and '.join(unseen)} had changes that are in no commit is not known"
