/* Ops on devices that are not the CPU: the cases of test_ops.c by each provider of such devices, held against the reference
 * on the CPU too (normalised mean square error, with the bound that a case declares).
 *
 * Devices: OCHRE_TEST_DEVICES, as och_device_open takes them, separated by commas; else one simulated board whose waves have
 * 32 lanes and one whose waves have 64, and the null device, which tests the way there and back (op_emulated.h). An argument
 * keeps the tests whose name contains it: conform_test_ops_devices linear, conform_test_ops_devices rope:sim:gfx942; several stand
 * between commas, and -threads leaves those out. */
#include "base/env.h"
#include "conform/support/op_suite.h"

static const char *const defaults = "null,sim:gfx1151,sim:gfx942";

static suite all;

static void add_subject(const char *device, const char *provider) {
    for (int s = 0; s < all.n_subjects; s++)
        if (!strcmp(all.subjects[s].device, device) && !strcmp(all.subjects[s].provider, provider)) return;
    subject *s = suite_subject(&all, device, provider, NULL);
    snprintf(s->label, sizeof s->label, "%s/%s", device, provider);
}

int main(int argc, char **argv) {
    /* The simulator and the cache of this build, unless others are asked for. */
    setenv("OCHRE_SIM_LIBRARY", OCHRE_BUILD_DIR "/sim/libamdhip64.so", 0);
    setenv("OCHRE_CACHE_DIR", OCHRE_BUILD_DIR "/kernel-cache", 0);
    const char *list = och_env_get(OCH_ENV_OCHRE_TEST_DEVICES);
    static char names[1024];
    snprintf(names, sizeof names, "%s", list ? list : defaults);
    for (char *rest = names, *device; (device = strtok_r(rest, ",", &rest));) {
        bool any = false;
        if (!strcmp(device, "null")) {
            add_subject(device, "emulated");
            continue;
        }
        for (int i = 0; i < och_op_provider_count(); i++) {
            const och_op_provider *p = och_op_provider_at(i);
            if (!strcmp(p->backend, "*") || !strcmp(p->backend, "cpu")) continue;
            /* boards in software have no library but one that is named */
            if (!strcmp(p->name, "blas") && !strncmp(device, "sim", 3) && !och_env_get(OCH_ENV_OCHRE_HIPBLASLT)) continue;
            add_subject(device, p->name);
            any = true;
        }
        if (!any) add_subject(device, "kernel"); /* whose cases then say that there is none yet */
    }
    return suite_run(&all, argc > 1 ? argv[1] : NULL);
}
