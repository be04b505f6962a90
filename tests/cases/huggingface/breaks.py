"""Defects that the cases of the Hugging Face Trainer must notice."""

from tests.cases.breaking import Break

_PLUGIN = "plugins/huggingface/traintrace_huggingface"

BREAKS = (
    Break(  # batches that are skipped after a resume are trained on
        cases=("h01",),
        file=f"{_PLUGIN}/seams.py",
        old="        self._boundaries.skip = batches\n",
        new="        self._boundaries.skip = 0\n",
    ),
    Break(  # steps end at an event of each micro-batch
        cases=("h03", "h04", "h20"),
        file=f"{_PLUGIN}/seams.py",
        old='"on_step_end": boundaries.end_step',
        new='"on_substep_end": boundaries.end_step',
    ),
    Break(  # the last micro-batch overwrites the count
        cases=("h03", "h04", "h12", "h20"),
        file=f"{_PLUGIN}/boundaries.py",
        old="capture.micro_batches += 1",
        new="capture.micro_batches = 1",
    ),
    Break(  # a step begins with its first micro-batch, after its input was fetched
        cases=("h05",),
        file=f"{_PLUGIN}/seams.py",
        old='put(trainer, "get_batch_samples", wrappers.collection(boundaries))',
        new='put(trainer, "get_batch_sample", wrappers.collection(boundaries))',
    ),
    Break(  # evaluation inside training is not marked
        cases=("h06",),
        file=f"{_PLUGIN}/events.py",
        old='"evaluate": EVALUATION',
        new='"evaluate_": EVALUATION',
    ),
    Break(  # the wait begins when it is over
        cases=("h07",),
        file="core/traintrace/pytorch/passes.py",
        old="                plain((now(), INPUT_WAIT))\n            batch = fetch(source)\n",
        new="                pass\n            batch = fetch(source)\n            self._enter()\n",
    ),
    Break(  # the fetch that finds the end of the data is a wait like any other
        cases=("h05",),
        file=f"{_PLUGIN}/wrappers.py",
        old="                journal.write_since(began, EPOCH_BOUNDARY)\n",
        new="                pass\n",
    ),
    Break(  # the same in a loop of one's own
        cases=("h07",),
        file="core/traintrace/pytorch/wrapping.py",
        old="        journal.write_since(began, EPOCH_BOUNDARY)\n",
        new="        pass\n",
    ),
    Break(  # making an iterator inside a request is a wait for a batch
        cases=("h07",),
        file="core/traintrace/pytorch/loaders.py",
        old="            if loop.fetching == WRAPPER and get_ident()",
        new="            if loop.paused and get_ident()",
    ),
    Break(  # accelerate's loader is taken for one that delivers what it has just fetched
        cases=("h07",),
        file="core/traintrace/pytorch/wrapping.py",
        old='frozenset(("DataLoaderShard",',
        new='frozenset(("DataLoaderShards",',
    ),
    Break(  # what a failed attempt had completed still counts
        cases=("h08",),
        file=f"{_PLUGIN}/boundaries.py",
        old="            self.session.abandon_steps()\n",
        new="            pass\n",
    ),
    Break(  # clipping is taken for a part of the update
        cases=("h10",),
        file=f"{_PLUGIN}/seams.py",
        old="import BATCH_PREP, CLIP, COMMUNICATION,",
        new="import BATCH_PREP, OPTIMIZER as CLIP, COMMUNICATION,",
    ),
    Break(  # callbacks between the two optimizer events are not told apart
        cases=("h10",),
        file=f"{_PLUGIN}/events.py",
        old='"on_pre_optimizer_step": CALLBACKS',
        new='"on_pre_optimizer_steps": CALLBACKS',
    ),
    Break(  # a short group looks like any other
        cases=("h12", "h20"),
        file=f"{_PLUGIN}/boundaries.py",
        old="            capture.flags |= facts.PARTIAL_GROUP\n",
        new="            pass\n",
    ),
    Break(  # each block of the loop is a step, whether or not it made an update
        cases=("h13",),
        file="plugins/plain_torch/traintrace_plain_torch/blocks.py",
        old="if capture.updated or not self._awaits_update",
        new="if capture.micro_batches or not self._awaits_update",
    ),
    Break(  # padding counts as tokens
        cases=("h14",),
        file="core/traintrace/pytorch/sizes.py",
        old="tokens = int(mask.sum())",
        new="tokens = int(mask.numel())",
    ),
    Break(  # the last micro-batch overwrites the tokens of the others
        cases=("h14", "h15"),
        file="core/traintrace/recording/steps.py",
        old="self.tokens = (self.tokens or 0) + tokens",
        new="self.tokens = tokens",
    ),
    Break(  # writing a checkpoint is a callback like any other
        cases=("h16",),
        file=f"{_PLUGIN}/events.py",
        old='"on_save": CHECKPOINT',
        new='"on_save": CALLBACKS',
    ),
    Break(  # the session of the last training is used again
        cases=("h17",),
        file=f"{_PLUGIN}/callback.py",
        old="session = self._session = open_session(trainer, self._options)\n",
        new="session = self._session = self._session or open_session(trainer, self._options)\n",
    ),
    Break(  # a group that is stopped is published
        cases=("h18",),
        file=f"{_PLUGIN}/boundaries.py",
        old="self.session.capture.abort()",
        new="self.session.capture.complete()",
    ),
    Break(  # nobody makes the report
        cases=("h19",),
        file=f"{_PLUGIN}/opening.py",
        old="on_finish=_report",
        new="on_finish=None",
    ),
)
