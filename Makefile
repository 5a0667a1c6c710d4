# Every target works from a fresh clone with make and python3 (3.11 to 3.13).
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
TEMPLATES = find project threads workflows -name '*.html' -print0 | xargs -0 -r

.PHONY: run demo test lint bench soak

run: .venv/.ready
	$(BIN)/python manage.py up $(ARGS)

demo: .venv/.ready
	$(BIN)/python manage.py demo $(ARGS)

test: .venv/.ready
	$(BIN)/python -m pytest -n 3 --dist loadfile $(ARGS)

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(TEMPLATES) $(BIN)/djade --check
	$(TEMPLATES) $(BIN)/djlint --lint --quiet
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/python manage.py check --fail-level WARNING
	$(BIN)/python manage.py makemigrations --check --dry-run

bench: .venv/.ready
	$(BIN)/python -m tests.bench $(if $(PEERS),--peers) $(ARGS)

soak: .venv/.ready
	$(BIN)/python -m pytest tests/soak $(ARGS)

# Cleared first, so that neither an install cut short nor another Python lives on in it.
.venv/.ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 14) else "Threadwork needs Python 3.11 to 3.13; name one with PYTHON=python3.13.")'
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "This Python cannot make virtual environments: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@
