# Every target does its own set-up: scripts/uv finds a Python and fetches uv, uv makes the environment from uv.lock.
UV := ./scripts/uv
RUN := $(UV) run --locked
PYTEST := $(RUN) --group test pytest
# Tests start many processes that import PyMC: 4 seconds each where Python keeps what it has compiled, 12 where it may not.
export PYTHONDONTWRITEBYTECODE :=
# Waiting threads of BLAS keep their cores busy: with two of them on two cores that also run something else, small matrices
# took sixteen times the processor time. pmgp limits its own threads; what the pages compute beside it has as many as cores.
docs notebooks check-notebooks: export OPENBLAS_NUM_THREADS := 1
# Files go to the workers as they are collected: by number of tests, the few long ones would come last and alone.
IN_TWO := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help demo test quick lint format types docs notebooks check-notebooks check-wheel check-data bench bench-peers study clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/'

demo:  ## classify the Wisconsin breast cancer data, end to end; report in runs/breast
	$(RUN) --extra cli --extra data pmgp run breast --out runs/breast --overwrite

test:  ## all tests, the long ones included; what CI runs
	$(PYTEST) $(IN_TWO)

quick:  ## the developer's loop, two minutes: all tests that take less than a tenth of a second
	$(PYTEST) $(IN_TWO) -m "not slow" --durations=10 --durations-min=1

lint:  ## style and formatting, and the workflows against their schema
	$(RUN) --group lint ruff check .
	$(RUN) --group lint ruff format --check .
	$(RUN) --with check-jsonschema==0.39.0 check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

format:  ## apply the formatter and the safe fixes
	$(RUN) --group lint ruff check --fix .
	$(RUN) --group lint ruff format .

types:  ## static types
	$(RUN) --group lint --extra cli --extra data mypy

docs:  ## the documentation, warnings as errors, its code cells executed; opens at docs/_build/html/index.html
	$(RUN) --group docs sphinx-build -W --keep-going -b html docs docs/_build/html

notebooks:  ## execute the case studies' notebooks and store what they show; make notebooks NAMES="volatility" for some
	$(RUN) --group docs python -m case_studies.tools.notebooks store $(NAMES)

check-notebooks:  ## execute them and compare with what is stored
	$(RUN) --group docs python -m case_studies.tools.notebooks check $(NAMES)

check-wheel:  ## the wheel, installed into a bare environment, where the README's lines run
	scripts/check_wheel

check-data:  ## the tests of the articles' data; make check-data DATA=folder
	PMGP_DATA=$(DATA) $(PYTEST) -q tests/test_datasets.py tests/marginal/test_route_agreement.py \
		tests/marginal/test_orthant_agreement.py::test_they_agree_on_the_articles_data \
		tests/case_studies/test_iterative_curves.py::test_rivals_with_all_inputs_have_the_exact_density_and_predictions

bench:  ## speed and efficiency figures, printed as tables; nutpie and GPy for comparison, nutpie does not go with the zarr of the tests
	$(RUN) --group bench --with nutpie==0.16.11 --with GPy==1.15.0 python -m benchmarks

bench-peers:  ## the same model, data and budget of time for this package and for others: hours; stopped, it goes on
	$(RUN) --group bench --with nutpie==0.16.11 --with numpyro==0.22.0 python -m benchmarks --only peers --out benchmarks/results --resume

study:  ## the comparison of the latent operators at the article's scale: hours, and can be stopped and resumed
	$(RUN) --group bench python -m case_studies.latent_operators --scale paper

clean:  ## remove what can be made again in minutes; runs/, which holds results that took longer, stays
	rm -rf .venv .venv-uv docs/_build docs/_generated docs/_static/gallery docs/api/generated docs/case_studies/*.ipynb build dist .pytest_cache .ruff_cache .mypy_cache
