# `make demo` and `make test` work on a fresh machine: both create .venv and install what they need.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo test test-slow benchmark format check clean

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/robustvit demo

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/pytest -n auto --maxprocesses 4 -m "not slow"

test-slow: check
	$(BIN)/pytest -n auto --maxprocesses 4

benchmark: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[benchmark]'
	$(BIN)/python benchmarks/networks.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/corruptions.py
	$(BIN)/python benchmarks/scenes.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/decoding.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/segmentation.py
	$(BIN)/python benchmarks/detection.py
	$(BIN)/python benchmarks/average_precision.py
	$(BIN)/python benchmarks/analysis.py

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv runs out
