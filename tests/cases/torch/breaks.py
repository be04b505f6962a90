"""Defects of the product that the T cases must find."""

from tests.cases.breaking import Break

_FORWARD = "core/traintrace/pytorch/forward.py"
_INSTALL = "    models = callable_modules(models)\n"
_HOOKED = _INSTALL + "    for module in {0}:\n        module.register_{1}hook(lambda *_: None)\n"

BREAKS = (
    Break(  # what the device was busy with is taken for idleness
        ("t01",),
        "analysis/traintrace_analysis/rules/shares.py",
        "    return min(1.0, max(0.0, step - busy) / wait)",
        "    return 1.0",
    ),
    Break(  # `loss.backward()` is not seen
        ("t02",),
        "core/traintrace/pytorch/backward.py",
        'for name in ("backward", "grad"):',
        'for name in ("grad",):',
    ),
    Break(  # backward hooks on the user's modules
        ("t03",),
        _FORWARD,
        _INSTALL,
        _HOOKED.format("(m for model in models for m in model.modules())", "full_backward_"),
    ),
    Break(  # direct calls are never given up on
        ("t04",),
        "core/traintrace/pytorch/unseen.py",
        "PATIENCE_STEPS: Final = 3",
        "PATIENCE_STEPS: Final = 10**9",
    ),
    Break(  # the tracer's marks are compiled into the user's graph
        ("t07",),
        _FORWARD,
        "        if is_compiling():\n            return call(*args, **kwargs)\n        model =",
        "        model =",
    ),
    Break(  # creating iterators is no account of its own
        ("t10",),
        "core/traintrace/recording/stack.py",
        "        if account in _NEEDS_STEP and not self._is_open:",
        "        if account in (*_NEEDS_STEP, EPOCH_BOUNDARY) and not self._is_open:",
    ),
    Break(  # requests for batches are not marked
        ("t11", "t17"),
        "core/traintrace/pytorch/passes.py",
        "        self._enter = journal.marker(INPUT_WAIT)",
        "        self._enter = lambda: None",
    ),
    Break(  # only the main process is read
        ("t12",),
        "core/traintrace/samplers/processtree.py",
        "waiting = [], list(self._children(self._pid))",
        "waiting = [], list[str]()",
    ),
    Break(  # every rank reads the host
        ("d10",),
        "core/traintrace/samplers/sampler.py",
        "        if watched.local_rank == 0:",
        "        if watched.local_rank >= 0:",
    ),
    Break(  # workers are taken for what limits, whatever they hand over
        ("t11",),
        "analysis/traintrace_analysis/rules/advice/feeding.py",
        "    if supply.workers and _handover_limits(supply):",
        "    if supply.workers and False:",
    ),
    Break(  # one kind of memory under the name of another
        ("t13",),
        "core/traintrace/recording/rows.py",
        "peak_reserved_bytes=capture.peak_reserved_bytes",
        "peak_reserved_bytes=capture.peak_allocated_bytes",
    ),
    Break(  # an attempt counts as an update
        ("t14",),
        "core/traintrace/pytorch/optimizer.py",
        "capture.update_skipped = not capture.updated or bool(skipped_before)",
        "capture.update_skipped = False",
    ),
    Break(  # a hook that does not pickle, on the user's model
        ("t15",),
        _FORWARD,
        _INSTALL,
        _HOOKED.format("models", "forward_"),
    ),
    Break(  # a list of networks is a model that nobody calls
        ("t16",),
        _FORWARD,
        _INSTALL,
        "    models = list(models)\n",
    ),
    Break(  # rows are written on the training thread
        ("t18",),
        "core/traintrace/session.py",
        "        self.journal.cut(capture)\n",
        "        self.journal.cut(capture)\n        self._drain.flush()\n",
    ),
    Break(  # a few steps are judged like many
        ("t19",),
        "analysis/traintrace_analysis/verdict.py",
        '            "TOO_FEW_STEPS",',
        '            "BALANCED",',
    ),
    Break(  # the cost of tracing is not told
        ("t20",),
        "reporting/traintrace_reporting/tracer_cost.py",
        "    elif marks is not None:",
        "    elif marks is None:",
    ),
    Break(  # a region of the user's is lost in the rest of the step
        ("t24",),
        "core/traintrace/recording/stack.py",
        "self._push(Entry(code, self._admitted(USER)))",
        "self._push(Entry(code, self._admitted(OTHER)))",
    ),
    Break(  # time between steps that nobody marked is judged by no rule
        ("t24",),
        "analysis/traintrace_analysis/rules/between_steps/__init__.py",
        "        gap.RULE,\n",
        "        # time between steps\n",
    ),
    Break(  # a wait is taken for one that the device hides
        ("t26",),
        "analysis/traintrace_analysis/rules/step_time/input_bound.py",
        "    exposed = exposed_share(context)",
        "    exposed = 0.0",
    ),
    Break(  # durations from a clock that can be set
        ("t25",),
        "core/traintrace/session.py",
        "        now: Clock = time.perf_counter_ns,",
        "        now: Clock = lambda: time.time_ns(),",
    ),
)
