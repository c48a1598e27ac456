/* What the fuzz targets of the simulator share: small memory that a kernel may touch, each piece an allocation of the host's
 * own, so that AddressSanitizer sees the first byte past it. */
#ifndef TESTS_FUZZ_SIM_H
#define TESTS_FUZZ_SIM_H

#include "base/alloc.h"
#include "board/board.h"
#include "exec/program.h"
#include "mem/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { FUZZ_BUFFER_BYTES = 1024, FUZZ_N_BUFFERS = 3 };
#define FUZZ_BUDGET "20000"

static sim_space *fuzz_space;
static uint8_t *fuzz_buffers[FUZZ_N_BUFFERS];

static inline void fuzz_check(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    och_err err = {0};
    setenv("OCHRE_SIM_THREADS", "1", 1);
    setenv("OCHRE_SIM_DETERMINISTIC", "1", 1);
    setenv("OCHRE_SIM_BUDGET", FUZZ_BUDGET, 1);
#ifdef FUZZ_ISA
    setenv("OCHRE_SIM_ISA", FUZZ_ISA, 0);
#endif
    fuzz_check(sim_space_create(&fuzz_space, &err) == OCH_OK, err.message);
    for (int i = 0; i < FUZZ_N_BUFFERS; i++) {
        fuzz_buffers[i] = och_malloc_aligned(FUZZ_BUFFER_BYTES, 256);
        fuzz_check(fuzz_buffers[i], "no memory");
        memset(fuzz_buffers[i], 0, FUZZ_BUFFER_BYTES);
        fuzz_check(sim_space_register(fuzz_space, fuzz_buffers[i], FUZZ_BUFFER_BYTES, &err) == OCH_OK, err.message);
    }
    return 0;
}

/* The optional checks and the counters read instructions in their own way: one input in a few is watched by all of them. */
static inline void fuzz_watch(bool on) {
    setenv("OCHRE_SIM_CHECK", on ? "all" : "", 1);
    setenv("OCHRE_SIM_COUNT", on ? "/dev/null" : "", 1);
}

#endif
