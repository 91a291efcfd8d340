# Everything starts from a bare machine: each target makes .venv, installs what is pinned and builds the extension first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements.txt
export PYTHONDONTWRITEBYTECODE := 1
NATIVE := CMakeLists.txt $(shell find csrc -name '*.[ch]' -o -name '*.cpp')

.PHONY: run test test-all test-c test-asan test-tsan python-asan python-tsan bench coverage build wheel clean

run: build $(VENV)/.models
	$(BIN)/python examples/run.py

test: build $(VENV)/.models $(VENV)/.test test-c
	$(BIN)/python tests/run.py

test-all: build $(VENV)/.models $(VENV)/.test test-c test-asan test-tsan
	$(BIN)/python tests/run.py --all
	$(BIN)/python tests/dist/torch_suite.py --write docs/distributed_suite.md
	$(BIN)/python tests/dist/dtensor_suite.py --write docs/distributed_suite.md
	$(BIN)/python tests/dist/failures.py --times $(or $(TIMES),50)
	$(BIN)/python examples/qwen3.py tpu7x:2x2x1
	$(BIN)/python examples/qwen3.py tpu7x:16x16x32

bench: build $(VENV)/.models $(VENV)/.test
	$(BIN)/python bench/run.py

# Runs what the coverage page shows and writes docs/coverage.md, .html and .json.
coverage: build $(VENV)/.test
	$(BIN)/python -m torch_tpu.conformance --page docs

build: $(VENV)/.built

# torch comes first and by itself, so that no other package chooses its version.
$(VENV)/.base: requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(PIP) -r requirements.txt
	touch $@

$(VENV)/.built: $(VENV)/.base pyproject.toml $(NATIVE)
	$(BIN)/cmake -G Ninja -S . -B build -DPython3_EXECUTABLE=$(CURDIR)/$(BIN)/python > /dev/null
	$(BIN)/ninja -C build
	test -d $(BIN)/../lib/python*/site-packages/torch_tpu-*.dist-info || $(PIP) --no-build-isolation --no-deps -e .
	touch $@

$(VENV)/.models: $(VENV)/.base requirements-models.txt
	$(PIP) -r requirements-models.txt
	touch $@

$(VENV)/.test: $(VENV)/.base requirements-test.txt requirements-kernels.txt
	$(PIP) -r requirements-test.txt
	$(PIP) --no-deps -r requirements-kernels.txt
	touch $@

# The core without torch, with injected faults, and the C tests: plain, and under a sanitizer.
comma := ,
SANITIZED := tests/torch/test_endurance.py::test_threads_train_at_once_beside_workers tests/torch/test_compile_steps.py tests/torch/test_fuse.py
test-c test-asan test-tsan: test-%: $(VENV)/.base $(VENV)/.test
	$(BIN)/cmake -G Ninja -S . -B build/$* -DPython3_EXECUTABLE=$(CURDIR)/$(BIN)/python -DTT_TESTS=ON -DTT_EXTENSION=OFF \
	  -DTT_FAULTS=ON -DTT_SANITIZE=$(if $(filter asan,$*),address$(comma)undefined,$(if $(filter tsan,$*),thread)) > /dev/null
	$(BIN)/ninja -C build/$*
	build/$*/tt_tests
	build/$*/tt_hlo_golden tests/hlo/golden

# The core under a sanitizer inside Python: threads that train, autograd's threads, DataLoader's workers, windows, joined steps.
test-asan test-tsan: test-%: python-%
python-asan python-tsan: python-%: build $(VENV)/.test
	$(BIN)/cmake -G Ninja -S . -B build/$*-python -DPython3_EXECUTABLE=$(CURDIR)/$(BIN)/python -DTT_SHIM=$(CURDIR)/build \
	  -DTT_SANITIZE=$(if $(filter asan,$*),address$(comma)undefined,thread) > /dev/null
	$(BIN)/ninja -C build/$*-python
	$(BIN)/python tests/sanitized.py $(if $(filter asan,$*),address,thread) build/$*-python $(SANITIZED)

wheel: $(VENV)/.base
	$(BIN)/pip wheel --quiet --no-build-isolation --no-deps -w dist .
	ls -l dist

clean:
	rm -rf build dist $(VENV) torch_tpu/_C*.so
