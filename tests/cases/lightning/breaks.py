"""Defects of the product that the Lightning cases must notice."""

from tests.cases.breaking import Break

_PLUGIN = "plugins/lightning/traintrace_lightning"
_CALLBACK, _FIT = f"{_PLUGIN}/callback.py", f"{_PLUGIN}/fit.py"
_OPENING = f"{_PLUGIN}/opening.py"

BREAKS = (
    # The transfer never ends: it swallows the rest of the step.
    Break(
        ("l01",),
        _FIT,
        "            self._moving = False\n            self._leave_move()",
        "            self._moving = False",
    ),
    # What runs in the closure of an update is taken for the update.
    Break(
        ("l02", "l16"),
        "core/traintrace/accounts.py",
        '"optimizer step, without what runs inside its closure"),',
        '"optimizer step, without what runs inside its closure", _only()),',
    ),
    # The module's own hooks between steps have no name.
    Break(
        ("l03",),
        _CALLBACK,
        '    Row("LightningModule", "on_train_epoch_end", CALLBACKS, ~CALLBACKS, conditions.is_users),',
        '    Row("LightningModule", "on_train_epoch_end", None, None, conditions.is_users),',
    ),
    # Only the transfer is timed, and the fetch before it is not.
    Break(
        ("l04", "l20", "l28"), _FIT, "        self._enter_wait()\n", "        self._open_step()\n"
    ),
    # An epoch's first fetch is a fetch like any other.
    Break(
        ("l05",),
        _FIT,
        "        self._batch_flags = EPOCH_FIRST\n",
        "        self._batch_flags = 0\n",
    ),
    # A run begins when the callback is made, also in the workers that import the script again.
    Break(
        ("l06",),
        _CALLBACK,
        "        self._session: Session | None = None  # of the newest run\n",
        "        self._session: Session | None = None\n"
        '        (Path(run_dir) / "run").mkdir(parents=True, exist_ok=True)\n',
    ),
    # Of validation only its start is seen.
    Break(
        ("l07", "l19"),
        _CALLBACK,
        '    Wrap("fit_loop.epoch_loop.val_loop", "run", EVALUATION),',
        '    Wrap("fit_loop.epoch_loop.val_loop", "on_run_start", EVALUATION),',
    ),
    # The samples of a group are those of its last micro-batch.
    Break(
        ("l10",),
        _FIT,
        "            capture.count(samples, tokens, padded_tokens)",
        "            capture.samples = samples",
    ),
    # The configured batch size instead of the true one.
    Break(
        ("l11",),
        _FIT,
        "            capture.count(samples, tokens, padded_tokens)",
        "            capture.count(1, tokens, padded_tokens)",
    ),
    # Every micro-batch is a step.
    Break(
        ("l12", "l13"),
        _FIT,
        "        if step == self._step_seen and trainer.lightning_module.automatic_optimization:",
        "        if step < self._step_seen:",
    ),
    # A step for every update of Lightning's own counter, though one batch has two.
    Break(
        ("l14",),
        _FIT,
        "        self._step_seen = capture.framework_step = step\n",
        "        capture.framework_step = self._step_seen = self._step_seen + 1\n",
    ),
    # A batch without a loss was no batch.
    Break(
        ("l18",),
        _CALLBACK,
        "        if fit is None or not fit.session.recording:\n            return\n        try:\n",
        "        if fit is None or not fit.session.recording or not outputs:\n"
        "            return\n        try:\n",
    ),
    # Nobody says that the loop fetches one ahead.
    Break(
        ("l20",),
        _FIT,
        "        if self._holds_batch:\n            capture.flags |= LOOKAHEAD\n",
        "        if self._holds_batch:\n            capture.flags |= 0\n",
    ),
    # Every entry point opens a run, and none is closed.
    Break(
        ("l21",),
        _CALLBACK,
        '        if stage != "fit" or not self._options.enabled:',
        "        if not self._options.enabled:",
    ),
    # An exception is an end like any other.
    Break(
        ("l22",),
        _CALLBACK,
        '        self._end(fit, "interrupted" if is_sigterm else status_of(error), error)',
        '        self._end(fit, "completed")',
    ),
    # Something of every step is kept.
    Break(
        ("l23",),
        _FIT,
        "        samples, tokens, padded_tokens = batch_sizes(batch)\n",
        '        vars(self).setdefault("_batches", []).append(batch)\n'
        "        samples, tokens, padded_tokens = batch_sizes(batch)\n",
    ),
    # The host's clock judges a device that works on its own.
    Break(
        ("l25",), _OPENING, "            device_clock=clock,\n", "            device_clock=None,\n"
    ),
    # The transfer is what the strategy's own method takes, without the hooks before it.
    Break(
        ("l26",),
        _FIT,
        "            self._switch_to_move()\n",
        "            self._leave_wait()\n",
    ),
    # All that Lightning does with a batch is taken for the model's work.
    Break(
        ("l27",),
        _CALLBACK,
        '    Row("Strategy", "training_step", FORWARD, ~FORWARD, conditions.is_all_forward),',
        '    Row("", "run_training_batch", FORWARD, ~FORWARD),',
    ),
)
