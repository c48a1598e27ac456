/* Ops against the contract of op.h: each provider that serves the CPU, the reference first, at each instruction set that the
 * machine reaches. An argument keeps the tests whose name contains it: conform_test_ops linear, conform_test_ops cpu/avx2,
 * conform_test_ops attention:cpu/avx512. Boards: test_ops_devices.c. */
#include "conform/support/op_suite.h"

static suite all;

int main(int argc, char **argv) {
    snprintf(suite_subject(&all, "cpu", "reference", NULL)->label, sizeof all.subjects[0].label, "reference");
    static const och_cpu_isa levels[] = {OCH_CPU_GENERIC, OCH_CPU_AVX2, OCH_CPU_AVX512, OCH_CPU_AMX, OCH_CPU_NEON};
    for (int i = 0; i < och_op_provider_count(); i++) {
        const och_op_provider *p = och_op_provider_at(i);
        bool known = strcmp(p->backend, "cpu") != 0;
        for (int s = 0; s < all.n_subjects; s++) known |= strcmp(all.subjects[s].provider, p->name) == 0;
        for (int l = 0; l < 5 && !known; l++) {
#if defined(__aarch64__)
            if (levels[l] != OCH_CPU_GENERIC && levels[l] != OCH_CPU_NEON) continue;
#else
            if (levels[l] == OCH_CPU_NEON) continue;
#endif
            subject *s = suite_subject(&all, "cpu", p->name, och_cpu_isa_name(levels[l]));
            snprintf(s->label, sizeof s->label, "%s/%s", s->provider, s->isa);
        }
    }
    return suite_run(&all, argc > 1 ? argv[1] : NULL);
}
