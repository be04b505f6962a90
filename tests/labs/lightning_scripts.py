"""Lightning scripts in processes of their own, for what only those can show: ranks, workers, signals."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.labs.lightning import COLUMNS, Books
from traintrace import facts, open_run


class Script:
    """A training script in processes of its own; `run_dir` is where its callbacks put their runs."""

    HEAD = """
        import os, signal, sys, time, torch
        import lightning.pytorch as pl
        from traintrace_lightning import TraceCallback

        # A job in the background of a shell inherits it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)

        class Net(torch.nn.Linear):
            pass

        class Model(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = Net(4, 1)
            def training_step(self, batch, batch_idx):
                return self.net(batch).mean()
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=1e-3)

        def loader(count=8, **options):
            return torch.utils.data.DataLoader([torch.ones(4)] * count, **options)

        def trainer(**options):
            callback = TraceCallback(run_dir=os.environ["RUN_DIR"], print_report=False)
            quiet = dict(accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False)
            return pl.Trainer(callbacks=[callback], **{**quiet, **options})
    """

    def __init__(self, folder: Path, body: str) -> None:
        self.run_dir = folder / "runs"
        self._file = folder / "train.py"
        self._file.write_text(textwrap.dedent(self.HEAD) + textwrap.dedent(body), "utf-8")

    def start(self, *launcher: str) -> "subprocess.Popen[str]":
        keep = {k: v for k, v in os.environ.items() if k not in ("LOCAL_RANK", "NODE_RANK")}
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", *launcher, str(self._file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._file.parent,
            start_new_session=True,  # so that `wait` can end it with all that it started
            env=keep | {"OMP_NUM_THREADS": "1", "RUN_DIR": str(self.run_dir)},
        )

    def wait(self, process: "subprocess.Popen[str]", code: int = 0) -> None:
        """Wait for the script's end; the limit is for machines on which much else runs."""
        try:
            _, errors = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        assert process.returncode == code, errors
        assert "traintrace failed" not in errors

    def run(self, *launcher: str, code: int = 0) -> facts.RunFacts:
        """Run it to its end, and read the one run that it must have left."""
        self.wait(self.start(*launcher), code)
        return self.facts()

    def facts(self) -> facts.RunFacts:
        (folder,) = self.run_dir.iterdir()
        return open_run(folder).facts(COLUMNS)

    def ranks(self) -> list[Books]:
        return [Books(rank) for rank in self.facts().ranks]
