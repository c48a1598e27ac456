/* The devices there are: hip:N, hip:PCI-ADDRESS, hip:ARCH of the machine's libamdhip64; sim:BOARDS[:N] and sim:N of the
 * simulator's. */
#include "dev/hip/hip.h"

#include "base/env.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- why there is none ---- */

void och_hip_hiding_variables(och_strbuf *out) {
    static const char *const names[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
                                        "GPU_DEVICE_ORDINAL"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *v = och_env_foreign(names[i]);
        if (v) och_strbuf_printf(out, "%s%s=%s", n++ ? " and " : "", names[i], v);
    }
}

void och_hip_explain_no_device(const hip_lib *lib, och_strbuf *out) {
    char path[512], pattern[512];
    struct stat sb;
    och_strbuf hiding = {0};
    och_hip_hiding_variables(&hiding);
    if (hiding.size) {
        och_strbuf_printf(out, "%s hides devices", och_strbuf_str(&hiding));
        och_strbuf_deinit(&hiding);
        return;
    }
    if (lib && lib->simulated) return;
    och_system_path("/dev/kfd", path, sizeof path);
    if (stat(path, &sb) != 0) {
        och_strbuf_printf(out, "there is no %s: no AMD GPU with a loaded amdgpu driver, or a container that was not given it (docker "
                          "run --device /dev/kfd --device /dev/dri)", path);
        return;
    }
    if (!och_node_usable(path)) {
        och_node_explain(path, out);
        return;
    }
    glob_t g;
    och_system_path("/dev/dri/renderD*", pattern, sizeof pattern);
    if (glob(pattern, 0, NULL, &g) != 0) {
        och_strbuf_printf(out, "there is a %s and no %s: no GPU, or a container that was not given /dev/dri", path, pattern);
        return;
    }
    bool any = false;
    for (size_t i = 0; i < g.gl_pathc; i++) any |= och_node_usable(g.gl_pathv[i]);
    if (!any) och_node_explain(g.gl_pathv[0], out);
    else och_strbuf_puts(out, "the device nodes are there and may be used: this release of HIP may not know the GPU");
    globfree(&g);
}

static och_status no_device(const hip_lib *lib, const char *name, och_err *err) {
    och_strbuf why = {0};
    char version[32];
    och_hip_explain_no_device(lib, &why);
    och_hip_version_text(lib->version, version, sizeof version);
    och_status st = och_err_set_native(err, OCH_UNAVAILABLE, (int64_t)lib->count_error, "device %s: HIP %s (%.200s) shows no device: %s "
                                       "(%d)%s%.380s", name, version, lib->path, lib->api.hipGetErrorName(lib->count_error),
                                       (int)lib->count_error, why.size ? "; " : "", och_strbuf_str(&why));
    och_strbuf_deinit(&why);
    return st;
}

/* ---- hip ---- */

static och_status hip_count(int *out_n, och_err *err) {
    hip_lib *lib;
    *out_n = 0;
    OCH_TRY(och_hip_lib(&lib, err));
    *out_n = lib->n_devices;
    if (!lib->n_devices) return no_device(lib, "hip", err);
    return OCH_OK;
}

static och_status out_of_range(const hip_lib *lib, const char *label, och_err *err) {
    och_strbuf hiding = {0};
    och_hip_hiding_variables(&hiding);
    och_status st = och_err_set(err, OCH_RANGE, "device %s: there are %d devices, counted from 0%s%s", label, lib->n_devices,
                                hiding.size ? "; some may be hidden by " : "", och_strbuf_str(&hiding));
    och_strbuf_deinit(&hiding);
    return st;
}

static och_status open_at(const hip_lib *lib, int ordinal, och_device **out_device, och_err *err) {
    char label[64];
    snprintf(label, sizeof label, "hip:%d", ordinal);
    if (ordinal < 0 || ordinal >= lib->n_devices) return out_of_range(lib, label, err);
    return och_hip_open(lib, ordinal, "hip", ordinal, label, out_device, err);
}

static och_status hip_open(int index, const och_dev_options *options, och_device **out_device, och_err *err) {
    (void)options;
    hip_lib *lib;
    *out_device = NULL;
    OCH_TRY(och_hip_lib(&lib, err));
    if (!lib->n_devices) return no_device(lib, "hip", err);
    return open_at(lib, index, out_device, err);
}

/* A whole target name, or its part before the features. */
static bool same_arch(const char *wanted, const char *arch) {
    size_t n = strlen(wanted);
    return !strncasecmp(wanted, arch, n) && (!arch[n] || arch[n] == ':');
}

static och_status hip_open_named(const char *which, const och_dev_options *options, och_device **out_device, och_err *err) {
    (void)options;
    hip_lib *lib;
    och_strbuf have = {0};
    *out_device = NULL;
    OCH_TRY(och_hip_lib(&lib, err));
    if (!lib->n_devices) return no_device(lib, "hip", err);
    och_status st = OCH_OK;
    int found = -1;
    for (int i = 0; i < lib->n_devices && found < 0; i++) {
        och_dev_info info = {0};
        char label[64];
        hip_memory memory;
        och_err why;
        och_err_clear(&why);
        snprintf(label, sizeof label, "hip:%d", i);
        if (och_hip_describe(lib, i, label, &info, &memory, &why) != OCH_OK) {
            och_strbuf_printf(&have, "%s%s (%s)", i ? ", " : "", label, why.message);
            continue;
        }
        if (och_pci_same(which, info.pci) || same_arch(which, info.arch)) found = i;
        och_strbuf_printf(&have, "%s%s (%s, %s)", i ? ", " : "", label, info.pci, info.arch);
    }
    if (found >= 0) st = open_at(lib, found, out_device, err);
    else {
        och_strbuf hiding = {0};
        och_hip_hiding_variables(&hiding);
        st = och_err_set(err, OCH_NOTFOUND, "device hip:%.80s: expected an index, a PCI address or a target name of one of %s%s%s",
                         which, och_strbuf_str(&have), hiding.size ? "; some may be hidden by " : "", och_strbuf_str(&hiding));
        och_strbuf_deinit(&hiding);
    }
    och_strbuf_deinit(&have);
    return st;
}

const och_backend och_backend_hip = {"hip", hip_count, hip_open, hip_open_named};

/* ---- sim ---- */

/* Any board can be opened by its name; those that OCHRE_SIM_BOARD names are shown among the machine's devices. */
static och_status sim_count(int *out_n, och_err *err) {
    *out_n = 0;
    if (!och_env_get(OCH_ENV_OCHRE_SIM_BOARD)) return OCH_OK;
    hip_lib *lib;
    OCH_TRY(och_hip_sim_lib(NULL, &lib, err));
    *out_n = lib->n_devices;
    return lib->n_devices ? OCH_OK : no_device(lib, "sim", err);
}

static och_status sim_open(int index, const och_dev_options *options, och_device **out_device, och_err *err) {
    (void)options;
    hip_lib *lib;
    char label[64];
    *out_device = NULL;
    OCH_TRY(och_hip_sim_lib(NULL, &lib, err));
    snprintf(label, sizeof label, "sim:%d", index);
    if (!lib->n_devices) return no_device(lib, label, err);
    if (index < 0 || index >= lib->n_devices) return out_of_range(lib, label, err);
    return och_hip_open(lib, index, "sim", index, label, out_device, err);
}

static och_status sim_open_named(const char *which, const och_dev_options *options, och_device **out_device, och_err *err) {
    (void)options;
    hip_lib *lib;
    char boards[64], label[64];
    int index = 0;
    *out_device = NULL;
    const char *colon = strrchr(which, ':');
    size_t n = colon ? (size_t)(colon - which) : strlen(which);
    size_t n_digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (colon && (!n_digits || n_digits > 3 || colon[1 + n_digits]))
        return och_err_set(err, OCH_INVALID, "device sim:%.80s: expected sim:BOARDS or sim:BOARDS:N with a small whole number", which);
    for (size_t i = 0; i < n_digits; i++) index = index * 10 + (colon[1 + i] - '0');
    if (!n || n + 8 >= sizeof boards)
        return och_err_set(err, OCH_INVALID, "device sim:%.80s: expected boards as in gfx1151, gfx1100x4 or gfx1201+gfx1103", which);
    snprintf(boards, sizeof boards, "%.*s", (int)n, which);
    OCH_TRY(och_hip_sim_lib(boards, &lib, err));
    if (colon) snprintf(label, sizeof label, "sim:%.50s:%d", boards, index);
    else snprintf(label, sizeof label, "sim:%.50s", boards);
    if (!lib->n_devices) return no_device(lib, label, err);
    if (index >= lib->n_devices) return out_of_range(lib, label, err);
    return och_hip_open(lib, index, "sim", index, label, out_device, err);
}

const och_backend och_backend_sim = {"sim", sim_count, sim_open, sim_open_named};
