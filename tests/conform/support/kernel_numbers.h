/* What tests of kernels make numbers with, hold them against, and run by: groups on each device of OCHRE_TEST_DEVICES, else on a simulated
 * board of each wave size. */
#ifndef OCH_TESTS_KERNEL_NUMBERS_H
#define OCH_TESTS_KERNEL_NUMBERS_H

#include "conform/support/kernel_rig.h"

#include "base/size.h"
#include "quant/planes.h"

#include <math.h>

static uint64_t state;

static inline uint64_t random_u64(void) { /* splitmix64: Steele, Lea, Flood 2014 */
    uint64_t z = (state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
static inline double unit(void) { return ((double)(random_u64() >> 11) + 0.5) * 0x1p-53; }
static inline float gauss(void) { return (float)(sqrt(-2.0 * log(unit())) * cos(6.283185307179586 * unit())); }
static inline void fill(float *x, size_t n, double scale) {
    for (size_t i = 0; i < n; i++) x[i] = (float)(scale * gauss());
}

static inline void near(double found, double expected, double tolerance, const char *what, int64_t row, int64_t col) {
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%s: [%lld, %lld]: expected %.9g within %.3g, found %.9g", what, (long long)row, (long long)col, expected,
                 tolerance, found);
}

/* A row as codes: each block's d is its greatest magnitude by 127, codes are the nearest numbers, sum is theirs. */
static inline void codes_are(const uint8_t *row, const double *v, int d, const char *what, int r) {
    uint64_t at[3], bytes;
    for (int i = 0; i < 3; i++) assert_true(och_planes_act_plane((uint64_t)d, i, &at[i], &bytes));
    for (int b = 0; b < d / 32; b++) {
        double top = 0;
        bool finite = true;
        int32_t total = 0, sum;
        float by;
        memcpy(&by, row + at[1] + 4 * b, 4);
        memcpy(&sum, row + at[2] + 4 * b, 4);
        for (int j = 0; j < 32; j++) {
            double e = fabs(v[32 * b + j]);
            finite &= isfinite(e) != 0;
            top = fmax(top, e);
        }
        if (!finite && !isfinite(by)) continue;
        if (!finite) fail_msg("%s: row %d, block %d: an odd number, and d is %.9g", what, r, b, (double)by);
        near(by, top / 127, 4e-7 * top / 127, what, r, b);
        for (int j = 0; j < 32; j++) {
            int q = (int8_t)row[at[0] + (uint64_t)(32 * b + j)];
            total += q;
            if (top > 0) near(q, v[32 * b + j] / top * 127, 0.5 + 2e-4, what, r, 32 * b + j);
            else assert_int_equal(q, 0);
        }
        assert_int_equal(sum, total);
    }
}

typedef struct kernel_group {
    const char *name;
    void (*run)(kernel_rig *k);
} kernel_group;

typedef struct kernel_job {
    const char *device;
    void (*run)(kernel_rig *k);
} kernel_job;

static inline void kernel_job_run(void **state_) {
    const kernel_job *j = *state_;
    kernel_rig k;
    kernel_rig_open(&k, j->device);
    j->run(&k);
    kernel_rig_close(&k);
}

/* Those whose "name:device" holds `filter`. */
static inline int kernel_groups_run(const char *what, const kernel_group *groups, size_t n_groups, const char *filter) {
    enum { GROUPS = 32, DEVICES = 16 };
    static struct CMUnitTest tests[GROUPS * DEVICES];
    static char names[GROUPS * DEVICES][64], list[1024];
    static kernel_job jobs[GROUPS * DEVICES];
    setenv("OCHRE_SIM_LIBRARY", OCHRE_BUILD_DIR "/sim/libamdhip64.so", 0);
    setenv("OCHRE_CACHE_DIR", OCHRE_BUILD_DIR "/kernel-cache", 0);
    const char *asked = och_env_get(OCH_ENV_OCHRE_TEST_DEVICES);
    snprintf(list, sizeof list, "%s", asked ? asked : "sim:gfx1151,sim:gfx942");
    size_t n = 0;
    int n_devices = 0;
    if (n_groups > GROUPS) abort();
    for (char *rest = list, *device; (device = strtok_r(rest, ",", &rest)) && n_devices < DEVICES; n_devices++)
        for (size_t g = 0; g < n_groups; g++) {
            if (!strcmp(device, "null")) continue; /* loads no code */
            snprintf(names[n], sizeof names[n], "%s:%s", groups[g].name, device);
            if (!strstr(names[n], filter)) continue;
            jobs[n] = (kernel_job){device, groups[g].run};
            tests[n] = (struct CMUnitTest){.name = names[n], .test_func = kernel_job_run, .initial_state = &jobs[n]};
            n++;
        }
    return n ? _cmocka_run_group_tests(what, tests, n, NULL, NULL) : 0;
}

#endif
