# Everything here works from a fresh clone with Python >= 3.11 and make; the environment is .venv.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo test test-slow lint clean

$(VENV)/made-base: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[examples]"
	touch $@

$(VENV)/made-dev: $(VENV)/made-base
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: $(VENV)/made-base  ## audit an example; the report is ampaudit-report/report.html
	$(BIN)/ampaudit examples/bert_classifier.py --target A100-SXM4-80GB

test: $(VENV)/made-dev  ## the quick tests
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile -q

test-slow: $(VENV)/made-dev  ## the rest
	$(BIN)/python -m pytest -m slow -n 2 -q

lint: $(VENV)/made-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist ampaudit.egg-info ampaudit-report
