# Each target sets up what it needs: a fresh machine has only Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test coverage environments test-oldest test-pandas test-scanpy test-free-threaded check bench peers docs package clean

demo: $(VENV)/.core
	$(BIN)/python -m ultraspec demo

# Python of an environment, whose kernels are cached by release of numba: environments of equal releases compile them once.
NUMBA_RELEASE = $$($(1)/bin/python -c "import numba; print(numba.__version__)")
WITH_CACHE = NUMBA_CACHE_DIR="$(CURDIR)/.numba/$(NUMBA_RELEASE)" $(1)/bin/python

# Threads of OpenMP (scikit-learn's k-means) wait asleep: the workers of pytest share the cores, and spinning takes them.
test coverage: export OMP_WAIT_POLICY := passive

# All tests, or some: make test TESTS=tests/test_uspec.py, make test TESTS="tests/rows -k parquet"
test: $(VENV)/.test
	$(call WITH_CACHE,$(VENV)) -m pytest -n auto --dist worksteal $(TESTS)

# Lines that the tests run. Kernels are left out: numba compiles them, so that Python sees none of their lines run.
# The estimators, the paper and what is below them must reach 95 %.
COVERED := */_checks.py,*/_estimator.py,*/ultraspec/_input.py,*/uspec.py,*/usenc.py,*/spectral/*,*/ensemble/*,*/cluster/*,*/rows/*,*/engines/*,*/storage/*,*/persistence/*
coverage: $(VENV)/.test
	$(call WITH_CACHE,$(VENV)) -m pytest -n auto --dist worksteal --cov --cov-report= $(TESTS)
	$(BIN)/python -m coverage report
	$(BIN)/python -m coverage report --show-missing --fail-under=95 --include='$(COVERED)'

# Environments beside .venv.
environments: .venv-oldest/.ready .venv-pandas/.ready .venv-scanpy/.ready

# The estimator on the oldest releases that are supported.
OLDEST := numpy==1.26.* scipy==1.11.* scikit-learn==1.6.0 numba==0.60.* threadpoolctl==3.2.* pandas==2.2.*
OLDEST_TESTS := $(addprefix tests/,test_sklearn_api.py spectral/test_neighbors.py engines/test_threads.py _kernels/test_lapack.py persistence/test_model_files.py)
test-oldest: .venv-oldest/.ready
	$(call WITH_CACHE,.venv-oldest) -m pytest -n auto $(OLDEST_TESTS)

.venv-oldest/.ready: pyproject.toml Makefile
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip
	.venv-oldest/bin/python -m pip install --quiet $(OLDEST) -e '.[models]' pytest pytest-xdist hypothesis polars psutil
	@touch $@

# Frames of pandas 3, which anndata keeps out of the environment of `make test`.
PANDAS_TESTS := $(addprefix tests/,test_bad_input.py rows/test_open_rows.py rows/test_open_rows_errors.py ensemble/test_combine.py metrics/test_labels.py test_uspec.py test_usenc.py)
test-pandas: .venv-pandas/.ready
	$(call WITH_CACHE,.venv-pandas) -m pytest -n auto $(PANDAS_TESTS) -k "frame or pandas or names or words or other_things or csv or format"

.venv-pandas/.ready: pyproject.toml Makefile
	$(PYTHON) -m venv .venv-pandas
	.venv-pandas/bin/python -m pip install --quiet --upgrade pip
	.venv-pandas/bin/python -m pip install --quiet 'pandas>=3' -e '.[files,models]' pytest pytest-xdist hypothesis polars psutil
	@touch $@

# scanpy, the newest that this Python takes, and what else tutorials use: BERTopic (without its language models) and FlowIO. Ibis and Hugging Face datasets are tested where they are installed. Releases for Python 3.11 cannot read the graphs of newer pynndescent.
SCANPY_TESTS := $(addprefix tests/,test_tl.py test_scanpy.py test_other_libraries.py)
test-scanpy: .venv-scanpy/.ready
	$(call WITH_CACHE,.venv-scanpy) -m pytest -n auto $(SCANPY_TESTS)

.venv-scanpy/.ready: pyproject.toml Makefile
	$(PYTHON) -m venv .venv-scanpy
	.venv-scanpy/bin/python -m pip install --quiet --upgrade pip
	.venv-scanpy/bin/python -m pip install --quiet scanpy igraph 'pynndescent<0.6' -e '.[files,scanpy,plots,dask]' xarray plotly hdbscan flowio pytest pytest-xdist hypothesis psutil
	.venv-scanpy/bin/python -m pip install --quiet --no-deps bertopic
	@touch $@

# Without the lock, with PYTHON=python3.14t. polars and safetensors have no builds for it: tests that need them stay out.
FREE_TESTS := $(addprefix tests/,_kernels cluster spectral ensemble/test_microclusters.py engines/test_threads.py)
test-free-threaded: .venv-free/.ready
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-free/numba PYTHON_GIL=0 .venv-free/bin/python -m pytest -n auto $(FREE_TESTS)

.venv-free/.ready: pyproject.toml Makefile
	$(PYTHON) -m venv .venv-free
	.venv-free/bin/python -m pip install --quiet --upgrade pip
	.venv-free/bin/python -m pip install --quiet -e . pytest pytest-xdist hypothesis pandas psutil
	@touch $@

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py

# Other clustering libraries on the same data, in an environment of their own: make peers, or make peers PARTS=time on a
# machine that does nothing else. Stop it at any time; the same command continues.
PARTS ?= quality settings time
peers: .venv-peers/.ready
	for part in $(PARTS); do .venv-peers/bin/python benchmarks/peers.py $$part || exit 1; done
	.venv-peers/bin/python benchmarks/peers_report.py

# Secuer may not install everywhere; it is then left out.
.venv-peers/.ready: pyproject.toml Makefile
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --upgrade pip
	.venv-peers/bin/python -m pip install --quiet -e '.[bench]' hdbscan fast_hdbscan evoc umap-learn igraph genieclust faiss-cpu
	-.venv-peers/bin/python -m pip install --quiet secuer scanpy louvain
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -d docs/_build/doctrees -b html docs docs/_build/html

# The wheel and the sdist in dist/, and a check of what they contain.
package: $(VENV)/.package
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python .ci/check_package.py dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# One stamp per set of extras, renewed when the project's requirements change.
$(VENV)/.core: EXTRAS := [cli]
$(VENV)/.test: EXTRAS := [test]
$(VENV)/.check: EXTRAS := [check]
$(VENV)/.bench: EXTRAS := [bench]
$(VENV)/.docs: EXTRAS := [docs]
$(VENV)/.package: EXTRAS := [package]
$(VENV)/.%: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.$(EXTRAS)'
	@touch $@

clean:
	rm -rf $(VENV) .numba .venv-oldest .venv-pandas .venv-scanpy .venv-free .venv-peers dist build docs/_build
