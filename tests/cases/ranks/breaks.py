"""Defects of the product that the D cases must find."""

from tests.cases.breaking import Break

BREAKS = (
    Break(  # the end of a rank's own backward work is lost
        ("d01", "d02"),
        "core/traintrace/recording/ledger.py",
        "        if top.account == BACKWARD:",
        "        if top.account == INPUT_WAIT:",
    ),
    Break(  # what was not measured is zero
        ("d03",),
        "core/traintrace/recording/rows.py",
        "        if row.calls[number] or row.inside[number] or number in _ALWAYS_MEASURED",
        "        if row.calls[number] or row.inside[number] or number not in ()",
    ),
    Break(  # ranks are compared by their means alone
        ("d04",),
        "analysis/traintrace_analysis/rules/ranks/__init__.py",
        "rules=(straggler.RULE, rotating_straggler.RULE, ",
        "rules=(straggler.RULE, ",
    ),
    Break(  # every rank takes itself for the first
        ("d08",),
        "plugins/lightning/traintrace_lightning/opening.py",
        "        rank=trainer.global_rank,",
        "        rank=0,",
    ),
    Break(  # ranks do not join the job's run
        ("d09",),
        "core/traintrace/runs/identity.py",
        'RUN_VARIABLE: Final = "TRAINTRACE_RUN"',
        'RUN_VARIABLE: Final = "TRAINTRACE_JOB"',
    ),
    Break(  # a wait between two steps is part of the gap
        ("d12",),
        "core/traintrace/recording/stack.py",
        "    (H2D, BATCH_PREP, FORWARD, BACKWARD, GRADIENT_SYNC, OPTIMIZER, OTHER)\n",
        "    (H2D, BATCH_PREP, FORWARD, BACKWARD, GRADIENT_SYNC, OPTIMIZER, OTHER, COMMUNICATION)\n",
    ),
    Break(  # a collective inside a request for a batch is waiting for data
        ("d13",),
        "core/traintrace/accounts.py",
        '        _only("h2d", "batch_prep", "epoch_boundary", "communication", "resume_skip"),',
        '        _only("h2d", "batch_prep", "epoch_boundary", "resume_skip"),',
    ),
    Break(  # a micro-batch that does not synchronise is marked all the same
        ("d14",),
        "core/traintrace/pytorch/ownwork.py",
        'if ddp.get("require_backward_grad_sync", True) and not is_apart(parameter):',
        "if not is_apart(parameter):",
    ),
    Break(  # the report waits for a rank that is gone
        ("d15",),
        "core/traintrace/runs/folder.py",
        "or all(has_died(files[rank]) for rank in missing):",
        "or not missing:",
    ),
    Break(  # an attempt writes over the one before
        ("d16",),
        "core/traintrace/runs/folder.py",
        '    suffix = f".a{attempt}" if attempt else ""',
        '    suffix = "" if attempt else ""',
    ),
    Break(  # the memory of ranks is not compared
        ("d17",),
        "analysis/traintrace_analysis/rules/memory/__init__.py",
        "        imbalance.RULE,\n",
        "        # imbalance.RULE,\n",
    ),
)
