# The front door. CMake with presets does the work; see `make help`.

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

sources = $(shell git ls-files -co --exclude-standard '*.c' '*.h')

MINUTES ?= 10

.PHONY: all setup configure test test-sanitize test-devices soak faults demo bench install deb wheel clean format tidy help
.DEFAULT_GOAL := all

## all       build the program: build/zinc
all: configure
	@cmake --build build -j $(JOBS) --target zinc

configure:
	@scripts/setup.sh --check
	@test -f build/build.ninja || cmake --preset release --log-level=WARNING >/dev/null

## setup     install what is missing (Debian, Ubuntu)
setup:
	@scripts/setup.sh

## test      all tests; ends with "N passed, N failed, N skipped"
test: setup
	@JOBS=$(JOBS) scripts/test.sh release

## test-sanitize  the tests under sanitizers, and the fuzzers
test-sanitize: setup
	@JOBS=$(JOBS) scripts/test.sh sanitize

## test-devices  every kernel, stage and placement on an OpenCL device and on a stand-in for CUDA, and the kernels on oclgrind
test-devices: setup
	@JOBS=$(JOBS) scripts/test_devices.sh

## soak      random configurations, kills, faults and fuzzers (MINUTES=10, SEED=, ONLY=)
soak: all
	@JOBS=$(JOBS) MINUTES=$(MINUTES) SEED=$(SEED) ONLY="$(ONLY)" scripts/soak.sh

## faults    an error at every call site of a short run for memory, files and storage, one after the other
faults: all
	@cmake --build build -j $(JOBS) --target fail_sites >/dev/null
	@python3 tests/soak/sweep.py --zinc build/zinc --source . --library build/tests/libfail_sites.so

## demo      train a small model on the text that comes with the repository
demo: setup all
	@scripts/demo.sh

## bench     measure all, beside the machine's limits and the peers, as one table: docs/benchmarks.md, build/bench.json (an hour)
bench: all
	@cmake --build build -j $(JOBS) --target bench_programs
	@python3 bench/table.py --output docs/benchmarks.md

## install   program, library, headers and manual (PREFIX=/usr/local, DESTDIR=)
install: configure
	@cmake -B build -DCMAKE_INSTALL_PREFIX=$(PREFIX) --log-level=WARNING >/dev/null
	@cmake --build build -j $(JOBS) --target zinc zinc_shared zinc_archive zinc_manual
	@DESTDIR=$(DESTDIR) cmake --install build

## deb       a Debian package: build/zinc-train_VERSION_ARCH.deb
deb: configure
	@cmake -B build -DCMAKE_INSTALL_PREFIX=/usr --log-level=WARNING >/dev/null
	@cmake --build build -j $(JOBS) --target zinc zinc_shared zinc_archive zinc_manual
	@rm -f build/*.deb
	@cd build && cpack -G DEB >cpack.log 2>&1 || { cat cpack.log; exit 1; }
	@ls build/*.deb

## wheel     a wheel of the Python package with the library in it: build/zinc_train-VERSION-py3-none-PLATFORM.whl
wheel: configure
	@cmake --build build -j $(JOBS) --target zinc_shared
	@rm -f build/*.whl
	@python3 scripts/make_wheel.py $$(sed -n 's/^project(zinc VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt) build/libzinc.so build

## clean     remove everything that was built
clean:
	@rm -rf build demo-out

## format    lay out the sources with clang-format
format:
	@clang-format -i $(sources)

## tidy      read the sources with clang-tidy
tidy: configure
	@clang-tidy --quiet -p build $(filter src/%.c,$(sources))

## help      this list
help:
	@sed -n 's/^## /  make /p' Makefile
