# make run     set up what is missing, then open the panel
# make setup   only set up
# make dev     set up, and what the tests need
# make test    all tests at their short counts (what CI runs)
# make status  what is installed
# make prove   the same tests at full counts; writes tests/results/
# make bench   what the panel costs: memory, CPU, delay of a first token

PYTHON ?= python3
SETUP := $(PYTHON) backend/setup/bootstrap.py
PANEL := .venv/bin/python
export PYTHONUNBUFFERED = 1

.PHONY: run setup status test prove bench dev

run:
	$(SETUP) run $(SETUP_ARGS) -- $(ARGS)

setup:
	$(SETUP) prepare $(SETUP_ARGS)

status:
	$(SETUP) status

dev:
	$(SETUP) prepare --dev --yes $(SETUP_ARGS)

test: dev
	$(PANEL) -m tests.tiers $(TIERS)

prove: dev
	VOLTA_ROUNDS=20 $(PANEL) -m tests.tiers --record tests/results $(TIERS)

bench: dev
	$(PANEL) -m tests.bench
