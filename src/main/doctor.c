/* ochre doctor: what of GPUs works on this machine, what does not, and what to do about it. The report is made to be pasted
 * into a message to somebody else. */
#include "main/main.h"

#include "base/env.h"
#include "base/log.h"
#include "dev/cuda/cuda_lib.h"
#include "dev/dev.h"
#include "dev/hip/hip_lib.h"
#include "jit/jit.h"
#include "jit/pack.h"
#include "target/target.h"

#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

static const och_usage usage = {
    "doctor", "[options]",
    "Looks at all that running on a GPU needs, and says in a sentence a problem what is wrong and what to do.\n",
    "  ochre doctor\n  ochre doctor --json\n"};

enum { MAX_DEVICES = 32 };

typedef struct report {
    bool json;
    och_strbuf out, problems; /* problems: lines, or members of an array */
    size_t n_problems;
    hip_lib *lib;   /* NULL: none serves */
    cuda_lib *cuda; /* the same */
    bool tell_hip, tell_cuda; /* it is a problem that it shows no device */
    och_device *devices[MAX_DEVICES]; /* of hip and of cuda, opened */
    int n_devices;
} report;

static void put_string(report *r, const char *name, const char *value) {
    och_strbuf_printf(&r->out, "\"%s\": ", name);
    och_strbuf_json(&r->out, value, strlen(value));
}

static void problem(report *r, const char *fmt, ...) OCH_PRINTF(2, 3);
static void problem(report *r, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (r->json) {
        och_strbuf_puts(&r->problems, r->n_problems ? ", " : "");
        och_strbuf_json(&r->problems, text, strlen(text));
    } else och_strbuf_printf(&r->problems, "  %zu. %s\n", r->n_problems + 1, text);
    r->n_problems++;
}

/* Below OCHRE_SYSTEM_ROOT. */
static bool is_there(const char *at) {
    char path[512];
    struct stat sb;
    return stat(och_system_path(at, path, sizeof path), &sb) == 0;
}

static void heading(report *r, const char *text) {
    if (!r->json) och_strbuf_printf(&r->out, "\n%s\n", text);
}

/* ---- libraries ---- */

/* A kind of library, for what is the same of all. */
typedef struct kind {
    const char *name, *json, *override, *update;
    void (*version_text)(int version, char *out, size_t n_bytes);
} kind;
static const kind hip = {"HIP", "hip_libraries", "OCHRE_HIP_LIBRARY", "HIP 5.2 or newer (ROCm 5.2 or newer)", och_hip_version_text};
static const kind cuda = {"CUDA", "cuda_libraries", "OCHRE_CUDA_LIBRARY", "NVIDIA's driver for CUDA 11 or newer", och_cuda_version_text};

static void attempts(report *r, const kind *k, const och_attempts *a) {
    char text[80];
    snprintf(text, sizeof text, "%s libraries, in the order in which they are looked for", k->name);
    heading(r, text);
    if (r->json) och_strbuf_printf(&r->out, ", \"%s\": [", k->json);
    bool opened = false;
    for (size_t i = 0; i < a->n; i++) {
        const och_attempt *t = &a->at[i];
        char version[32] = "";
        if (t->version) k->version_text(t->version, version, sizeof version);
        const char *state = t->find == OCH_FIND_OPENED    ? "in use"
                            : t->find == OCH_FIND_TOO_OLD ? "too old"
                            : t->find == OCH_FIND_BROKEN  ? "broken"
                            : t->why[0]                   ? "absent"
                            : opened                      ? "not tried"
                                                          : "absent";
        if (t->find == OCH_FIND_OPENED) opened = true;
        if (r->json) {
            och_strbuf_puts(&r->out, i ? ", {" : "{");
            put_string(r, "path", t->path);
            och_strbuf_puts(&r->out, ", ");
            put_string(r, "place", t->place);
            och_strbuf_printf(&r->out, ", \"state\": \"%s\", \"version\": \"%s\", ", state, version);
            put_string(r, "why", t->why);
            och_strbuf_puts(&r->out, "}");
        } else
            och_strbuf_printf(&r->out, "  %-9s  %s%s%s%s%s%s%s (%s)\n", state, t->path, *version ? ": " : "", *version ? k->name : "",
                              *version ? " " : "", version, t->why[0] ? ": " : "", t->why, t->place);
        if (t->find == OCH_FIND_BROKEN) problem(r, "%s %s: repair or remove it, or name another in %s.", t->path, t->why, k->override);
        if (t->find == OCH_FIND_TOO_OLD) problem(r, "%s cannot serve, %s: install %s.", t->path, t->why, k->update);
    }
    if (r->json) och_strbuf_puts(&r->out, "]");
}

static void missing_calls(report *r, const char *json, size_t n, och_strbuf *missing) {
    if (r->json) {
        och_strbuf_puts(&r->out, ", ");
        put_string(r, json, och_strbuf_str(missing));
    } else if (n) och_strbuf_printf(&r->out, "  optional calls that it lacks: %s\n", och_strbuf_str(missing));
    och_strbuf_deinit(missing);
}

/* Whether anything of a kind is here: a library, a broken one too, or the driver's node. */
static bool is_sign(bool library, const och_attempts *a, const char *driver_node) {
    for (size_t i = 0; i < a->n; i++) library |= a->at[i].find != OCH_FIND_ABSENT;
    return library || is_there(driver_node);
}

/* A machine has one kind of GPU as a rule. That the other shows none is a problem only where there is something of it, or where
 * nothing works at all. */
static void libraries(report *r) {
    och_err hip_err = {0}, cuda_err = {0};
    och_strbuf missing = {0};
    och_status hip_st = och_hip_lib(&r->lib, &hip_err), cuda_st = och_cuda_lib(&r->cuda, &cuda_err);
    bool hip_works = r->lib && r->lib->n_devices, cuda_works = r->cuda && r->cuda->n_devices;
    bool hip_sign = is_sign(r->lib, och_hip_lib_attempts(), "/dev/kfd");
    bool cuda_sign = is_sign(r->cuda, och_cuda_lib_attempts(), "/dev/nvidiactl");
    r->tell_hip = !hip_works && !(cuda_works && !is_there("/dev/kfd"));
    r->tell_cuda = !cuda_works && !(hip_works && !is_there("/dev/nvidiactl")) && (cuda_sign || !hip_sign);
    attempts(r, &hip, och_hip_lib_attempts());
    if (hip_st != OCH_OK && r->tell_hip) problem(r, "No HIP library serves: %s.", hip_err.message);
    size_t n = r->lib ? och_hip_lib_missing(r->lib, &missing) : 0;
    missing_calls(r, "optional_calls_missing", n, &missing);
    if (r->lib && r->lib->simulated)
        problem(r, "The HIP library in use is Ochre's simulator: what runs on hip:... is simulated (LD_LIBRARY_PATH or "
                   "OCHRE_HIP_LIBRARY names it).");
    attempts(r, &cuda, och_cuda_lib_attempts());
    if (cuda_st != OCH_OK && r->tell_cuda) problem(r, "No CUDA library serves: %s.", cuda_err.message);
    n = r->cuda ? och_cuda_lib_missing(r->cuda, &missing) : 0;
    missing_calls(r, "cuda_optional_calls_missing", n, &missing);
}

/* ---- headers ---- */

/* The numbers of hip_version.h; false where it has none. */
static bool header_version(const char *path, int *out_major, int *out_minor) {
    FILE *f = fopen(path, "r");
    char line[256];
    *out_major = *out_minor = -1;
    if (!f) return false;
    while (fgets(line, sizeof line, f)) {
        (void)sscanf(line, "#define HIP_VERSION_MAJOR %d", out_major);
        (void)sscanf(line, "#define HIP_VERSION_MINOR %d", out_minor);
    }
    fclose(f);
    return *out_major >= 0 && *out_minor >= 0;
}

static void header(report *r, const char *path, size_t *n) {
    int major, minor;
    if (!header_version(path, &major, &minor)) return;
    int have = r->lib ? r->lib->version / 100000 : 0;
    bool agrees = !have || have == major * 100 + minor;
    if (r->json) {
        och_strbuf_puts(&r->out, *n ? ", {" : "{");
        put_string(r, "path", path);
        och_strbuf_printf(&r->out, ", \"version\": \"%d.%d\", \"agrees\": %s}", major, minor, agrees ? "true" : "false");
    } else och_strbuf_printf(&r->out, "  %s: HIP %d.%d%s\n", path, major, minor, agrees ? "" : ", not the runtime's");
    (*n)++;
    if (!agrees)
        problem(r, "The headers %s are of HIP %d.%d and the library in use is %d.%d: programs built with them may not fit it; Ochre "
                   "includes none of them.", path, major, minor, have / 100, have % 100);
}

static void headers(report *r) {
    static const char *const patterns[] = {OCH_HIP_ROCM "/include", OCH_HIP_ROCM "-*/include", "/usr/include",
                                           "/usr/local/include"};
    char folder[512], path[600];
    size_t n = 0;
    heading(r, "HIP headers");
    if (r->json) och_strbuf_puts(&r->out, ", \"hip_headers\": [");
    const char *rocm = och_env_foreign("ROCM_PATH");
    if (rocm && snprintf(path, sizeof path, "%s/include/hip/hip_version.h", rocm) < (int)sizeof path) header(r, path, &n);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        glob_t g;
        och_system_path(patterns[i], folder, sizeof folder);
        snprintf(path, sizeof path, "%s/hip/hip_version.h", folder);
        if (glob(path, 0, NULL, &g) != 0) continue;
        for (size_t k = 0; k < g.gl_pathc; k++) header(r, g.gl_pathv[k], &n);
        globfree(&g);
    }
    if (r->json) och_strbuf_puts(&r->out, "]");
    else if (!n) och_strbuf_puts(&r->out, "  none (none is needed)\n");
}

/* ---- the environment and the nodes ---- */

static void environment(report *r) {
    static const char *const names[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
                                        "HSA_OVERRIDE_GFX_VERSION", "HSA_XNACK", "HSA_ENABLE_SDMA", "ROCM_PATH", "HIP_PATH",
                                        "NVIDIA_VISIBLE_DEVICES", "CUDA_PATH", "CUDA_MODULE_LOADING", "LD_LIBRARY_PATH",
                                        "OCHRE_HIP_LIBRARY", "OCHRE_CUDA_LIBRARY", "OCHRE_SYSTEM_ROOT", "OCHRE_SIM_BOARD",
                                        "OCHRE_SIM_QUIRKS", "OCHRE_REQUIRE_GPU", "OCHRE_HIP_SYNC", "OCHRE_CUDA_SYNC"};
    size_t n = 0;
    heading(r, "Environment");
    if (r->json) och_strbuf_puts(&r->out, ", \"environment\": {");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *v = och_env_foreign(names[i]);
        if (!v) continue;
        if (r->json) {
            if (n) och_strbuf_puts(&r->out, ", ");
            put_string(r, names[i], v);
        } else och_strbuf_printf(&r->out, "  %s=%s\n", names[i], v);
        n++;
    }
    if (r->json) och_strbuf_puts(&r->out, "}");
    else if (!n) och_strbuf_puts(&r->out, "  nothing that matters here is set\n");
    const char *v = och_env_foreign("HSA_OVERRIDE_GFX_VERSION");
    if (v)
        problem(r, "HSA_OVERRIDE_GFX_VERSION=%s makes the runtime claim another target than the board has: unset it unless you know "
                   "that the two run the same code.", v);
    och_strbuf hiding = {0};
    if (r->lib || !r->cuda) och_hip_hiding_variables(&hiding);
    if (!hiding.size && r->cuda) och_cuda_hiding_variables(&hiding);
    if (hiding.size) problem(r, "%s hides devices: unset it to see all.", och_strbuf_str(&hiding));
    och_strbuf_deinit(&hiding);
}

/* explained: a library that shows no device is a problem with a reason of its own, and the nodes are looked at for it. */
static bool node(report *r, const char *path, bool explained, size_t *n) {
    struct stat sb;
    char owner[64] = "?";
    bool there = stat(path, &sb) == 0, usable = there && faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0;
    const struct group *g = there ? getgrgid(sb.st_gid) : NULL;
    if (g) snprintf(owner, sizeof owner, "%s", g->gr_name);
    else if (there) snprintf(owner, sizeof owner, "%u", (unsigned)sb.st_gid);
    if (r->json) {
        och_strbuf_puts(&r->out, *n ? ", {" : "{");
        put_string(r, "path", path);
        och_strbuf_printf(&r->out, ", \"there\": %s, \"usable\": %s}", there ? "true" : "false", usable ? "true" : "false");
    } else if (there)
        och_strbuf_printf(&r->out, "  %s: %s (mode %03o, group %s)\n", path, usable ? "usable" : "no permission",
                          (unsigned)(sb.st_mode & 0777), owner);
    else och_strbuf_printf(&r->out, "  %s: absent\n", path);
    (*n)++;
    if (there && !usable && !explained)
        problem(r, "%s may not be opened by this user: run sudo usermod -aG %s $USER and log in again.", path, owner);
    return there;
}

/* Those that there are of a pattern; how many. */
static size_t nodes_like(report *r, const char *pattern, bool explained, size_t *n) {
    char path[512];
    glob_t g;
    size_t found = 0;
    och_system_path(pattern, path, sizeof path);
    if (glob(path, 0, NULL, &g) != 0) return 0;
    for (; found < g.gl_pathc; found++) (void)node(r, g.gl_pathv[found], explained, n);
    globfree(&g);
    return found;
}

static void nodes(report *r) {
    char path[512];
    size_t n = 0;
    bool hip_explained = r->lib && !r->lib->n_devices, cuda_explained = r->cuda && !r->cuda->n_devices;
    heading(r, "Device nodes");
    if (r->json) och_strbuf_puts(&r->out, ", \"nodes\": [");
    bool kfd = node(r, och_system_path("/dev/kfd", path, sizeof path), hip_explained, &n);
    if (!nodes_like(r, "/dev/dri/renderD*", hip_explained, &n) && !r->json)
        och_strbuf_printf(&r->out, "  %s: none\n", och_system_path("/dev/dri/renderD*", path, sizeof path));
    if (r->cuda || is_there("/dev/nvidiactl")) {
        (void)node(r, och_system_path("/dev/nvidiactl", path, sizeof path), cuda_explained, &n);
        (void)nodes_like(r, "/dev/nvidia[0-9]*", cuda_explained, &n);
        (void)node(r, och_system_path("/dev/nvidia-uvm", path, sizeof path), cuda_explained, &n);
    }
    if (r->json) och_strbuf_puts(&r->out, "]");
    if (!kfd && r->tell_hip && !hip_explained)
        problem(r, "There is no /dev/kfd: this machine has no AMD GPU with a loaded amdgpu driver, or this is a container that was not "
                   "given it (docker run --device /dev/kfd --device /dev/dri).");
}

/* ---- devices ---- */

/* The n devices of a backend. */
static void devices_of(report *r, const char *backend, int n) {
    int before = r->n_devices;
    for (int i = 0; i < n && r->n_devices < MAX_DEVICES; i++) {
        char name[32];
        och_err err = {0};
        och_device *d;
        snprintf(name, sizeof name, "%s:%d", backend, i);
        if (och_device_open(name, NULL, &d, &err) != OCH_OK) {
            problem(r, "%s cannot be opened: %s.", name, err.message);
            continue;
        }
        if (r->json) {
            if (r->n_devices) och_strbuf_puts(&r->out, ", ");
            och_main_device_json(d, &r->out);
        } else {
            const och_dev_info *f = &d->info;
            if (r->n_devices == before) och_strbuf_puts(&r->out, "  "), och_main_device_heading(&r->out);
            och_strbuf_puts(&r->out, "  ");
            och_main_device_row(d, &r->out);
            och_strbuf_printf(&r->out, "    %s, %d compute units (%d multiprocessors), wave %d, LDS %u KiB, L2 %llu KiB, %.0f GB/s", f->pci,
                              f->n_compute_units, f->n_multiprocessors, f->wave_size, f->lds_bytes / 1024,
                              (unsigned long long)f->l2_bytes / 1024, f->bandwidth_gbps);
            if (f->code_object_version) och_strbuf_printf(&r->out, ", code objects to version %d", f->code_object_version);
            och_strbuf_puts(&r->out, "\n");
        }
        och_target_id id;
        if (och_target_find(d->info.arch, &id, &err) != OCH_OK) problem(r, "%s is of a target that Ochre does not know: %s.", name, err.message);
        r->devices[r->n_devices++] = d;
    }
    if (!r->json && r->n_devices == before) och_strbuf_puts(&r->out, "  none\n");
}

static void devices(report *r) {
    och_strbuf why = {0};
    char version[80], text[256];
    heading(r, "Devices of HIP");
    if (r->json) och_strbuf_puts(&r->out, ", \"devices\": [");
    devices_of(r, "hip", r->lib ? r->lib->n_devices : 0);
    if (r->lib && r->tell_hip) {
        och_hip_version_text(r->lib->version, version, sizeof version);
        och_hip_explain_no_device(r->lib, &why);
        problem(r, "HIP %s (%s) shows no device: %s (%d)%s%s.", version, r->lib->path, r->lib->api.hipGetErrorName(r->lib->count_error),
                (int)r->lib->count_error, why.size ? "; " : "", och_strbuf_str(&why));
        och_strbuf_deinit(&why);
    }
    heading(r, "Devices of CUDA");
    devices_of(r, "cuda", r->cuda ? r->cuda->n_devices : 0);
    if (r->cuda && r->tell_cuda) {
        och_cuda_lib_text(r->cuda, version, sizeof version);
        och_cuda_error_text(r->cuda, r->cuda->count_error, text, sizeof text);
        och_cuda_explain_no_device(r->cuda, &why);
        problem(r, "%s (%s) shows no device: %s%s%s.", version, r->cuda->path, text, why.size ? "; " : "", och_strbuf_str(&why));
        och_strbuf_deinit(&why);
    }
    if (r->json) och_strbuf_puts(&r->out, "]");
    char path[512];
    och_err err = {0};
    bool sim = och_hip_sim_path(path, sizeof path, &err) == OCH_OK;
    heading(r, "Simulator");
    if (r->json) {
        och_strbuf_puts(&r->out, ", ");
        put_string(r, "simulator", sim ? path : "");
    } else och_strbuf_printf(&r->out, "  %s\n", sim ? path : err.message);
}

/* ---- compilers and packs ---- */

/* A block of lines, each behind two blanks. */
static void put_indented(och_strbuf *out, const char *text) {
    while (*text) {
        size_t n = strcspn(text, "\n");
        och_strbuf_puts(out, "  ");
        och_strbuf_append(out, text, n);
        och_strbuf_puts(out, "\n");
        text += n + (text[n] == '\n');
    }
}

/* A pack that cannot be read is a problem in the report, told once, and no warning beside it. */
static void warning_is_a_problem(void *ctx, och_log_level level, const char *message) {
    if (level >= OCH_LOG_WARN) problem(ctx, "%c%s.", toupper((unsigned char)message[0]), message + 1);
}
static void drop_message(void *ctx, och_log_level level, const char *message) { (void)ctx, (void)level, (void)message; }

static void packs(report *r) {
    och_packs found = {0};
    och_err err = {0};
    if (r->json) och_strbuf_puts(&r->out, ", \"packs\": [");
    och_log_set_sink(drop_message, NULL); /* the compilers' part has told of what cannot be read */
    och_status st = och_packs_open(NULL, 0, false, &found, &err);
    och_log_set_sink(NULL, NULL);
    if (st != OCH_OK) problem(r, "The packs cannot be looked at: %s.", err.message);
    for (size_t i = 0; i < found.n; i++) {
        if (r->json) {
            och_strbuf_puts(&r->out, i ? ", {" : "{");
            put_string(r, "path", och_pack_path(found.items[i]));
            och_strbuf_puts(&r->out, ", \"covers\": [");
        }
        size_t n = 0;
        for (int k = 0; k < r->n_devices; k++) {
            och_target_id id;
            och_err ignored = {0};
            if (och_target_find(r->devices[k]->info.arch, &id, &ignored) != OCH_OK) continue;
            bool covers = och_pack_covers(found.items[i], &id);
            if (r->json && covers) och_strbuf_printf(&r->out, "%s\"%s\"", n++ ? ", " : "", r->devices[k]->info.label);
            if (!r->json)
                och_strbuf_printf(&r->out, "  %s %s %s (%s)\n", och_pack_path(found.items[i]), covers ? "covers" : "does not cover",
                                  r->devices[k]->info.label, id.name);
        }
        if (r->json) och_strbuf_puts(&r->out, "]}");
    }
    for (int k = 0; found.n && k < r->n_devices; k++) {
        och_target_id id;
        och_err ignored = {0};
        bool covered = och_target_find(r->devices[k]->info.arch, &id, &ignored) != OCH_OK;
        for (size_t i = 0; !covered && i < found.n; i++) covered = och_pack_covers(found.items[i], &id);
        if (!covered) problem(r, "No pack has kernels for %s (%s): they are compiled when first used, which needs a compiler.",
                              r->devices[k]->info.label, id.name);
    }
    if (r->json) och_strbuf_puts(&r->out, "]");
    och_packs_close(&found);
}

static void compilers(report *r) {
    och_jit *jit = NULL;
    och_err err = {0};
    och_strbuf text = {0};
    och_jit_options o = {.hiprtc_library = r->lib ? r->lib->path : NULL};
    och_log_set_sink(warning_is_a_problem, r);
    och_status st = och_jit_create(&o, &jit, &err);
    och_log_set_sink(NULL, NULL);
    if (st == OCH_OK) och_jit_describe(jit, &text);
    else problem(r, "Kernels cannot be compiled or loaded: %s.", err.message);
    heading(r, "Compilers, packs and the cache");
    if (r->json) {
        och_strbuf_puts(&r->out, ", ");
        put_string(r, "compilers", och_strbuf_str(&text));
    } else put_indented(&r->out, och_strbuf_str(&text));
    och_strbuf_deinit(&text);
    och_jit_destroy(jit);
    packs(r);
}

static void blas(report *r) {
    heading(r, "Vendor libraries of products");
    if (r->json) och_strbuf_puts(&r->out, ", \"blas\": [");
    och_main_blas((const och_device *const *)r->devices, r->n_devices, r->json, &r->out);
    if (r->json) och_strbuf_puts(&r->out, "]");
}

int och_cmd_doctor(int argc, char **argv) {
    report r = {0};
    const och_opt opts[] = {{"json", 0, OCH_OPT_FLAG, &r.json, 0, 0, NULL, "one JSON object", NULL}};
    int n_args, rc = och_opts_parse(&usage, opts, 1, argc, argv, NULL, 0, &n_args);
    if (rc >= 0) return rc;
    struct utsname u;
    if (uname(&u) != 0) memset(&u, 0, sizeof u);
    if (r.json) {
        och_strbuf_puts(&r.out, "{");
        put_string(&r, "ochre", ochre_version());
        och_strbuf_puts(&r.out, ", ");
        put_string(&r, "kernel", u.release);
        och_strbuf_puts(&r.out, ", ");
        put_string(&r, "machine", u.machine);
    } else och_strbuf_printf(&r.out, "ochre %s on %s %s %s\n", ochre_version(), u.sysname, u.release, u.machine);
    libraries(&r);
    headers(&r);
    environment(&r);
    nodes(&r);
    devices(&r);
    compilers(&r);
    blas(&r);
    if (r.json) och_strbuf_printf(&r.out, ", \"problems\": [%s]}\n", och_strbuf_str(&r.problems));
    else if (r.n_problems) och_strbuf_printf(&r.out, "\nProblems\n%s", och_strbuf_str(&r.problems));
    else och_strbuf_puts(&r.out, "\nNo problem was found.\n");
    for (int i = 0; i < r.n_devices; i++) och_device_release(r.devices[i]);
    if (r.out.failed || r.problems.failed) rc = och_main_error("out of memory");
    else {
        fputs(och_strbuf_str(&r.out), stdout);
        rc = OCH_EXIT_OK;
    }
    och_strbuf_deinit(&r.out);
    och_strbuf_deinit(&r.problems);
    return rc;
}
