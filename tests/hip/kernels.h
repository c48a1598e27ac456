/* The code objects of tests/golden/sim/hip. */
#ifndef TESTS_HIP_KERNELS_H
#define TESTS_HIP_KERNELS_H

#include "support.h"

static inline void *read_file(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/sim/hip/%s", OCHRE_TEST_DIR, name);
    FILE *f = fopen(path, "rb");
    CHECK(f);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    void *p = malloc((size_t)n);
    CHECK(p && fread(p, 1, (size_t)n, f) == (size_t)n);
    fclose(f);
    return p;
}

static inline hipModule_t load(void) {
    hipModule_t m;
    void *image = read_file("kernels.hipfb");
    OK(H(hipModuleLoadData)(&m, image));
    free(image); /* a module keeps its own */
    return m;
}
static inline hipFunction_t get(hipModule_t m, const char *name) {
    hipFunction_t f;
    OK(H(hipModuleGetFunction)(&f, m, name));
    return f;
}

#endif
