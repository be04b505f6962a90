# Two commands on a fresh machine: `make demo` and `make test`. Each makes .venv first if needed.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PARTS  := core analysis reporting plugins/plain_torch plugins/lightning plugins/huggingface

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
# Most tests wait for sleeps and for processes of their own: two at a time fill two cores.
IN_PAIRS := -n 2 --dist loadfile

# The oldest transformers that the Hugging Face plugin supports.
OLD_VENV  := .venv-transformers-4.46.1
OLD_PINS  := constraints-transformers-4.46.1.txt
OLD_PARTS := core analysis reporting plugins/plain_torch plugins/huggingface
OLD_TESTS := tests/plugins/huggingface tests/cases/huggingface

.PHONY: help demo test lint check check-long docs old-huggingface dist clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY)  ## Train on real digits with a slow dataset, print the report, say where the files are
	$(BIN)/python examples/digits_plain.py --run-dir runs
	@echo
	@echo "The same network with other frameworks:"
	@echo "  $(BIN)/python examples/digits_lightning.py"
	@echo "  $(BIN)/python examples/digits_huggingface.py"
	@echo "Four ranks, one of them slow:"
	@echo "  $(BIN)/torchrun --nproc-per-node 4 examples/ddp_straggler.py --phase backward"
	@echo "Read a run again with: $(BIN)/traintrace report runs/digits-plain"

test: $(READY)  ## Run the tests
	$(PYTEST) $(IN_PAIRS) -m "not long"

lint: $(READY)  ## Lint, format, types and import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)  ## Make docs/findings.md anew from the rules and the scenarios
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.scenarios.findings_page

check: lint test  ## All that a change must pass

check-long: check old-huggingface  ## Everything, the slow tests too
	$(PYTEST) -m long

# Old libraries warn about new ones; our own warnings stay errors. transformers 4.46 cannot load its own
# random states with a torch that unpickles tensors only.
old-huggingface: $(OLD_VENV)/.ready  ## The Hugging Face plugin's tests with transformers 4.46.1
	OMP_NUM_THREADS=1 TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 $(OLD_VENV)/bin/python -m pytest $(OLD_TESTS) \
		-W default -W error::traintrace.TraintraceWarning --disable-warnings
	OMP_NUM_THREADS=1 $(OLD_VENV)/bin/python -W ignore -m traintrace.testing.conformance \
		tests.conformance.huggingface:HUGGINGFACE

$(OLD_VENV)/.ready: $(OLD_PINS) $(wildcard */pyproject.toml plugins/*/pyproject.toml)
	$(PYTHON) -m venv $(OLD_VENV)
	$(OLD_VENV)/bin/python -m pip install --quiet -c $(OLD_PINS) torch optuna packaging pytest $(OLD_PARTS:%=-e ./%)
	touch $@

$(READY): requirements-dev.txt constraints.txt $(wildcard */pyproject.toml plugins/*/pyproject.toml)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $@

dist: $(READY)  ## Build a wheel and an sdist of every distribution into dist/
	for part in $(PARTS); do $(BIN)/python -m build --no-isolation --outdir dist $$part || exit 1; done

clean:  ## Remove what the targets above made
	rm -rf $(VENV) $(OLD_VENV) dist runs
