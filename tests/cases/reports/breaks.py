"""Defects of the product that the R cases must find."""

from tests.cases.breaking import Break

_COMPARISON = "analysis/traintrace_analysis/comparison/"
_REPORTING = "reporting/traintrace_reporting/"
_SPEED = "analysis/traintrace_analysis/throughput.py"

BREAKS = (
    Break(  # the rate within steps is divided by a time that holds validation and saves
        ("r01", "r03"),
        _SPEED,
        '    step_ns = float(np.median(window.host["step_time"][:, first:].sum(axis=1)))',
        "    step_ns = float(np.median(window.close_ns[:, -1] - window.open_ns[:, first]))",
    ),
    Break(  # an evaluation that was marked is nobody's time
        ("r01",),
        "plugins/plain_torch/traintrace_plain_torch/marks.py",
        "        return self._outside_training(accounts.EVALUATION)",
        "        return _NOTHING",
    ),
    Break(  # the last micro-batch overwrites the count
        ("r02",),
        "core/traintrace/pytorch/passes.py",
        "            capture.samples = shape[0] + (capture.samples or 0)",
        "            capture.samples = shape[0]",
    ),
    Break(  # what came after the last step is left out of the round trip
        ("r03",),
        _SPEED,
        "    round_trip_ns = float(np.median(loop_ns + np.array(tails)))",
        "    round_trip_ns = float(np.median(loop_ns))",
    ),
    Break(  # nobody asks which clock a run is on
        ("r05",),
        _COMPARISON + "comparability.py",
        "    clocks = len({run.clock for run in runs}) > 1",
        "    clocks = False",
    ),
    Break(  # an older file is held against the newest schema
        ("r06",),
        _REPORTING + "schema/__init__.py",
        'OLDER_VERSIONS: Final = ("0.1", "0.2", "0.3")',
        'OLDER_VERSIONS: Final = ("0.2", "0.3")',
    ),
    Break(  # the part that is missing has no line of its own
        ("r06",),
        _REPORTING + "tables.py",
        '        elif several or name != "gradient_sync":',
        "        elif several:",
    ),
    Break(  # the time of what was not measured is the rest's
        ("r07",),
        _COMPARISON + "metric_table.py",
        "    if not reason and name in CATCH_ALL:",
        "    if not reason and name in ():",
    ),
    Break(  # the machine is read over more than the steps
        ("r08",),
        "analysis/traintrace_analysis/reading_columns.py",
        "    return int(window.open_ns[row, window.warmup_steps])",
        "    return int(window.start_ns[row, window.warmup_steps])",
    ),
    Break(  # phases stand in the order of the ledger
        ("r09",),
        _COMPARISON + "phases.py",
        "sorted(_moved(blames), key=lambda one: -abs(one.difference_s or 0.0))",
        "sorted(_moved(blames), key=lambda one: one.place)",
    ),
    Break(  # a threshold is held against the difference, whatever runs differ by
        ("r11",),
        _COMPARISON + "guarding.py",
        "    if low > bound:",
        "    if log.value > 0.0:",
    ),
    Break(  # the answer does not reach the shell
        ("r12",),
        _REPORTING + "comparing.py",
        '    "SLOWER": 4,',
        '    "SLOWER": 0,',
    ),
    Break(  # a slow start is training like any other
        ("r13",),
        "analysis/traintrace_analysis/warmup.py",
        "    return max(declared, compiled, _slow_start_of_any(np.median(step_time_ns, axis=0)))",
        "    return max(declared, compiled)",
    ),
    Break(  # the file that cannot be read is not named
        ("r18",),
        _REPORTING + "finish.py",
        '        raise RunReadError(f"{path}: cannot be read as JSON ({error})") from error',
        '        raise RunReadError(f"a summary cannot be read as JSON ({error})") from error',
    ),
    Break(  # two steps are captured unless somebody asks for more
        ("r19",),
        "core/traintrace/session.py",
        "= options.warmup_steps or 0, options.max_steps",
        "= options.warmup_steps or 0, options.max_steps or 2",
    ),
    Break(  # traces of different length are compared as they are
        ("r09",),
        "analysis/traintrace_analysis/traces/comparing.py",
        '    basis: Basis = "step" if all(counts) else "trace"',
        '    basis: Basis = "trace"',
    ),
)
