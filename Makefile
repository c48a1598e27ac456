# The commands that people type. What they do is cmake --preset, ninja, ctest and the scripts in tools/.
#   make demo    a real model answers
#   make test    everything that is tested
JOBS ?= $(shell nproc)
PROMPT ?= What is the capital of France, and what is it known for?
SIM_PROMPT ?= What is the capital of France?
OCHRE := build/release/ochre
MODELS := smollm2-135m gemma3-270m
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
MAKEFLAGS += --no-print-directory

.PHONY: help demo test setup-sim bench bench-sim asan tsan fuzz arm install clean setup release models

help:
	@echo "make demo      build, fetch a small model (98 MB), let it answer: on the CPU, and on a simulated GPU"
	@echo "make test      build, fetch the real models (350 MB) and run every test"
	@echo "make setup-sim install what the simulator's tests need (tools/setup.sh hip: a compiler for HIP programs)"
	@echo "make bench-sim how fast the simulator executes (bench/sim.py)"
	@echo "make bench     Ochre and llama.cpp on the same files, interleaved (builds llama.cpp the first time)"
	@echo "make release   build/release: ochre, libochre.so"
	@echo "make asan      build with AddressSanitizer and UndefinedBehaviorSanitizer, run the quick tests"
	@echo "make tsan      build with ThreadSanitizer, run the quick tests"
	@echo "make fuzz      run each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS) seconds (clang)"
	@echo "make arm       cross-build for 64-bit Arm and run its tests under qemu"
	@echo "make install   install to PREFIX=$(PREFIX)"
	@echo "make clean     remove build/ (models/ stays)"

setup:
	@sh tools/setup.sh

release: setup
	@sh tools/build.sh release $(JOBS)

demo: release
	@python3 tools/fetch-model smollm2-135m >/dev/null
	@echo "\$$ ochre run smollm2-135m --chat --prompt \"$(PROMPT)\""
	@$(OCHRE) run smollm2-135m --chat --stats --max-tokens 128 --prompt "$(PROMPT)"
	@sh tools/demo-sim.sh $(OCHRE) "$(SIM_PROMPT)"

# Tests that need a real model skip themselves without one: say so here, where it is read.
models: setup
	@for m in $(MODELS); do \
	  python3 tools/fetch-model $$m >/dev/null || \
	    echo "make: COULD NOT FETCH $$m: the tests that need it will be skipped" >&2; \
	done

# The simulator's tests compile kernels and compare with LLVM and with HIP's headers; without those they skip themselves.
setup-sim: setup
	@sh tools/setup.sh sim

test: setup-sim release models
	@ctest --test-dir build/release -j $(JOBS) --output-on-failure

bench: release models
	@sh tools/setup.sh bench
	@python3 bench/run.py $(BENCH_ARGS)

bench-sim: setup-sim release
	@python3 bench/sim.py $(BENCH_ARGS)

# libasan 12 takes thread-local storage of a library opened at run time for a block of an older glibc when it lies 16 bytes
# into a page, and its search for leaks then ends in "Tracer caught signal 11": whether it does depends on what was
# allocated before. It learns nothing else by looking there.
ASAN_NO_TLS := intercept_tls_get_addr=0
asan: setup
	@sh tools/build.sh asan $(JOBS)
	@ASAN_OPTIONS=$(ASAN_NO_TLS):$$ASAN_OPTIONS ctest --test-dir build/asan -j $(JOBS) -LE slow --output-on-failure

tsan: setup
	@sh tools/build.sh tsan $(JOBS)
	@ctest --test-dir build/tsan -j $(JOBS) -LE slow --output-on-failure

fuzz:
	@sh tools/setup.sh fuzz
	@sh tools/build.sh fuzz $(JOBS)
	@sh tools/fuzz.sh $(FUZZ_SECONDS)

arm:
	@sh tools/setup-aarch64.sh
	@sh tools/build.sh aarch64 $(JOBS)
	@ctest --test-dir build/aarch64 -j $(JOBS) -L "unit|conform|model" -LE slow --output-on-failure

install: release
	@cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build
