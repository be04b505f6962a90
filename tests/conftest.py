"""What every test gets: our own faults are raised, and nothing of ours is left behind."""

import functools
import gc
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from traintrace.registry import REGISTRY
from traintrace.stages.named import Named


def pytest_configure() -> None:
    """Let what tests start begin with the signals that a terminal would give it, whatever started the tests.

    A shell in the background, or nohup, ignores some; those that a process starts would inherit that.
    """
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGHUP", "SIGINT", "SIGQUIT"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_IGN:
                default = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
                signal.signal(number, default)


# Names that tracing replaces, by module; looked at only if the test has loaded the module.
_PATCHED = {
    "torch.autograd": ("backward", "grad"),
    "torch.distributed": ("all_reduce", "broadcast_object_list"),
    "torch.nn.parallel": ("DistributedDataParallel._sync_buffers",),
    "torch": ("Tensor.to", "Tensor.cuda", "amp.GradScaler.step"),
    "torch.utils.data": ("DataLoader.__iter__",),
    "torch.utils.data.dataloader": ("_BaseDataLoaderIter.__next__",),
    "accelerate.data_loader": ("send_to_device",),
    "transformers.trainer": ("Trainer.train", "skip_first_batches"),
}


def _state() -> dict[str, Any]:
    state: dict[str, Any] = {}
    for module_name, names in _PATCHED.items():
        for name in names if module_name in sys.modules else ():
            target: Any = sys.modules[module_name]
            for part in name.split("."):
                target = getattr(target, part)
            state[f"{module_name}.{name}"] = target
            if module_name == "torch.distributed":
                contents = [cell.cell_contents for cell in target.__closure__ or ()]
                state[f"what {module_name}.{name} holds"] = contents
    # Hypothesis has one of its own.
    state["gc.callbacks"] = [c for c in gc.callbacks if isinstance(c, functools.partial)]
    dynamo: Any = sys.modules.get("torch._dynamo.callback")
    if dynamo is not None:
        handler = dynamo.callback_handler
        state["callbacks of compilations"] = [*handler.start_callbacks, *handler.end_callbacks]
    optimizers: Any = sys.modules.get("torch.optim.optimizer")
    if optimizers is not None:
        state["optimizer step pre-hooks"] = dict(optimizers._global_optimizer_pre_hooks)
        state["optimizer step post-hooks"] = dict(optimizers._global_optimizer_post_hooks)
    return state


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share out the tests among the workers of `make test`."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.labs import workers

    return workers.schedule(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what is slow, if there are workers to share it."""
    if hasattr(config, "workerinput"):
        from tests.labs.workers import turn

        items.sort(key=lambda item: turn(item.nodeid))


@pytest.fixture(scope="session", autouse=True)
def machine_without_a_price(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what `doctor --measure` once wrote on this machine out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def nothing_is_hidden_or_left_behind() -> Iterator[None]:
    """Raise the tracer's own faults, and check that no patch, hook or session outlives its test."""
    before = _state()
    REGISTRY.raise_faults, REGISTRY.named = True, Named()
    yield
    REGISTRY.raise_faults = False
    assert REGISTRY.current() is None, "a session is still active"
    after = _state()
    if any(after[name] is not value and after[name] != value for name, value in before.items()):
        gc.collect()  # a shim that lives as long as a callback goes with it
        after = _state()
    for name, value in before.items():
        assert after[name] == value, f"{name} is still patched"


@pytest.fixture
def faults_are_reported() -> Iterator[None]:
    """Let the tracer treat its faults as it does for users: reported once, never raised."""
    REGISTRY.raise_faults = False
    yield
    REGISTRY.raise_faults = True
