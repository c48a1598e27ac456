/* The HIP backend, a process a case: which library it opens, what it makes of its quirks, which devices it shows. */
#include "conform/support/hip_text.h"
#include "dev/dev.h"
#include "dev/hip/hip.h"

#include "base/log.h"
#include "hip/fake_runtime.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#define SIM OCHRE_BUILD_DIR "/sim/"
#define REAL "/usr/lib/x86_64-linux-gnu/libamdhip64.so.5"

static och_err err;
static och_device *d;
static och_queue *q;
static char logged[4096];

#define CHECK(x)                                                                                                               \
    do {                                                                                                                       \
        if (!(x)) fprintf(stderr, "%s:%d: %s\n  message: %s\n  logged: %s\n", __FILE__, __LINE__, #x, err.message, logged), _exit(2); \
    } while (0)
#define HAS(text, part)                                                                                                        \
    do {                                                                                                                       \
        if (!strstr(text, part)) fprintf(stderr, "%s:%d: no \"%s\" in: %s\n", __FILE__, __LINE__, part, text), _exit(2);        \
    } while (0)
#define OK(x) CHECK((x) == OCH_OK)
#define FAILS(want, x)                                                                                                         \
    do {                                                                                                                       \
        och_err_clear(&err);                                                                                                   \
        och_status st_ = (x);                                                                                                  \
        if (st_ != (want) || err.status != (want))                                                                             \
            fprintf(stderr, "%s:%d: %s: expected %s, found %s: %s\n", __FILE__, __LINE__, #x, och_status_name(want),           \
                    och_status_name(st_), err.message), _exit(2);                                                              \
    } while (0)

static void keep_log(void *ctx, och_log_level level, const char *message) {
    (void)ctx;
    if (level >= OCH_LOG_WARN) snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s\n", message);
}

static char tmp[64]; /* a folder of the running case */

static const char *under(const char *path) {
    static char text[4][512];
    static int next;
    char *t = text[next++ & 3];
    snprintf(t, 512, "%s/%s", tmp, path);
    return t;
}

static void make_folders(char *path) {
    for (char *s = path + 1; (s = strchr(s, '/')); s++) {
        *s = 0;
        mkdir(path, 0755);
        *s = '/';
    }
}

/* tmp/at, with its folders, as a link to `to`. */
static void make_link(const char *at, const char *to) {
    char path[512];
    snprintf(path, sizeof path, "%s", under(at));
    make_folders(path);
    CHECK(symlink(to, path) == 0);
}

static void make_file(const char *at, const char *text, mode_t mode) {
    char path[512];
    snprintf(path, sizeof path, "%s", under(at));
    make_folders(path);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, mode) == 0);
}

static void copy_file(const char *from, const char *at) {
    char path[512], bytes[65536];
    size_t n;
    snprintf(path, sizeof path, "%s", under(at));
    make_folders(path);
    FILE *f = fopen(from, "rb"), *t = fopen(path, "wb");
    CHECK(f && t);
    while ((n = fread(bytes, 1, sizeof bytes, f)) > 0) CHECK(fwrite(bytes, 1, n, t) == n);
    CHECK(fclose(t) == 0);
    fclose(f);
}

static void set(const char *name, const char *value) { setenv(name, value, 1); }
static void set_under(const char *name, const char *path) { setenv(name, under(path), 1); }

/* Builds the fake runtime at tmp/at; where there is no C compiler the case is skipped. */
#define SKIPPED 77
static void make_fake(const char *at, const char *const *macros) {
    char source[512], object[512];
    make_file("fake.c", fake_text, 0644);
    snprintf(source, sizeof source, "%s", under("fake.c"));
    snprintf(object, sizeof object, "%s", under(at));
    make_folders(object);
    char *argv[16] = {"cc", "-w", "-shared", "-fPIC", "-o", object, source};
    int n = 7;
    while (macros && *macros) argv[n++] = (char *)(uintptr_t)*macros++;
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) || waitpid(pid, &status, 0) != pid) _exit(SKIPPED);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) _exit(SKIPPED);
    CHECK(status == 0);
}

/* Runs a case in a process of its own, with a folder of its own and nothing of the environment that matters. */
static int in_process(void (*body)(void)) {
    fflush(NULL);
    snprintf(tmp, sizeof tmp, "/tmp/ochre-test-XXXXXX");
    if (!mkdtemp(tmp)) return -1;
    pid_t pid = fork();
    if (!pid) {
        static const char *const names[] = {"LD_LIBRARY_PATH", "ROCM_PATH", "HIP_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "HIP_VISIBLE_DEVICES",
                                            "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION",
                                            "OCHRE_HIP_LIBRARY", "OCHRE_SYSTEM_ROOT", "OCHRE_SIM_BOARD", "OCHRE_SIM_QUIRKS",
                                            "OCHRE_SIM_HIP_VERSION", "OCHRE_REQUIRE_GPU", "OCHRE_HIP_SYNC", "OCHRE_SIM_LIBRARY"};
        for (int i = 1; i < 32; i++) signal(i, SIG_DFL); /* not cmocka's */
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
        set_under("HOME", "home");
        och_log_set_sink(keep_log, NULL);
        alarm(300);
        body();
        fflush(NULL);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    char *argv[] = {"rm", "-rf", tmp, NULL};
    pid_t rm;
    if (posix_spawnp(&rm, "rm", NULL, NULL, argv, environ) == 0) waitpid(rm, NULL, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define TEST(name)                                                                                                             \
    static void name##_body(void);                                                                                             \
    static void name(void **state) {                                                                                           \
        (void)state;                                                                                                           \
        int rc = in_process(name##_body);                                                                                      \
        if (rc == SKIPPED) skip();                                                                                             \
        assert_int_equal(rc, 0);                                                                                               \
    }                                                                                                                          \
    static void name##_body(void)

static void open_with_queue(const char *name) {
    och_err_clear(&err);
    OK(och_device_open(name, NULL, &d, &err));
    OK(d->vtable->queue_create(d, &q, &err));
}

static void close_device(void) {
    d->vtable->queue_destroy(q);
    och_device_release(d);
}

static och_buf get(uint64_t n, och_mem_kind kind) {
    och_buf b;
    OK(och_buf_alloc(d, n, kind, &b, &err));
    return b;
}

static const char text[] = KERNEL "void put(unsigned *p) { p[__builtin_amdgcn_workitem_id_x()] = 42; }\n"
                           KERNEL "void wild(unsigned *p) { *(volatile unsigned *)0x123456700000ull = 1; }\n"
                           KERNEL "void calm(unsigned *p) { *p += 1; }\n";

static och_module *load(int version) {
    size_t n;
    void *image = hip_text_compile(text, d->info.arch, version, &n);
    if (!image) _exit(SKIPPED);
    och_module *m;
    och_status st = d->vtable->module_load(d, image, n, &m, &err);
    free(image);
    return st == OCH_OK ? m : NULL;
}

static och_function *function(och_module *m, const char *name) {
    och_function *f;
    OK(d->vtable->module_function(m, name, &f, &err));
    return f;
}

static och_status run(och_function *f, och_buf *b) {
    uint64_t p = b->addr.value;
    return d->vtable->launch(q, f, &(och_launch){{1, 1, 1}, {32, 1, 1}, 0, &p, 8}, &err);
}

/* ---- where the library is looked for ---- */

/* hip:0 comes from this file. */
static void opens(const char *path) {
    och_err_clear(&err);
    OK(och_device_open("hip:0", NULL, &d, &err));
    HAS(d->info.runtime, path);
    och_device_release(d);
}

#define SIM_LINK(at) make_link(at, SIM "libamdhip64.so")
TEST(override_names_a_file) {
    SIM_LINK("any/name.so");
    SIM_LINK("rocm/lib/libamdhip64.so.7");
    set_under("OCHRE_HIP_LIBRARY", "any/name.so");
    set_under("ROCM_PATH", "rocm");
    opens("any/name.so");
}
TEST(override_names_a_folder) {
    SIM_LINK("folder/libamdhip64.so.5");
    SIM_LINK("folder/libamdhip64.so.6");
    set_under("OCHRE_HIP_LIBRARY", "folder");
    opens("folder/libamdhip64.so.6"); /* the newest name */
}
TEST(override_is_the_only_place) {
    SIM_LINK("rocm/lib/libamdhip64.so.7");
    set_under("ROCM_PATH", "rocm");
    set_under("OCHRE_HIP_LIBRARY", "no/such.so");
    FAILS(OCH_UNAVAILABLE, och_device_open("hip", NULL, &d, &err));
    HAS(err.message, "no/such.so");
    HAS(err.message, "OCHRE_HIP_LIBRARY");
}
TEST(rocm_path_comes_before_packages) {
    SIM_LINK("rocm/lib/libamdhip64.so.6");
    SIM_LINK("venv/lib/python3.11/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7");
    set_under("ROCM_PATH", "rocm");
    set_under("VIRTUAL_ENV", "venv");
    opens("rocm/lib/libamdhip64.so.6");
}
TEST(the_loaders_path_comes_before_rocm_path) {
    SIM_LINK("rocm/lib/libamdhip64.so.6");
    SIM_LINK("path/libamdhip64.so.6");
    set_under("ROCM_PATH", "rocm");
    set_under("LD_LIBRARY_PATH", "path");
    opens("path/libamdhip64.so.6");
}
TEST(therock_packages_come_before_wheels) {
    SIM_LINK("venv/lib/python3.11/site-packages/torch/lib/libamdhip64.so");
    SIM_LINK("venv/lib/python3.12/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7");
    set_under("VIRTUAL_ENV", "venv");
    opens("_rocm_sdk_core/lib/libamdhip64.so.7");
}
TEST(a_wheel_of_the_user) {
    SIM_LINK("home/.local/lib/python3.11/site-packages/torch/lib/libamdhip64.so");
    SIM_LINK("root/opt/rocm/lib/libamdhip64.so.7");
    set_under("OCHRE_SYSTEM_ROOT", "root");
    opens("torch/lib/libamdhip64.so");
}
TEST(packages_of_the_system) {
    SIM_LINK("root/usr/lib/python3.11/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7");
    SIM_LINK("root/opt/rocm/lib/libamdhip64.so.6");
    set_under("OCHRE_SYSTEM_ROOT", "root");
    opens("_rocm_sdk_core/lib/libamdhip64.so.7");
}
TEST(newest_rocm_of_the_distribution) {
    SIM_LINK("root/opt/rocm-6.3.0/lib/libamdhip64.so.6");
    SIM_LINK("root/opt/rocm-7.10.0/lib/libamdhip64.so.7");
    SIM_LINK("root/opt/rocm-7.2.0/lib/libamdhip64.so.7");
    SIM_LINK("root/usr/lib/x86_64-linux-gnu/libamdhip64.so.5");
    set_under("OCHRE_SYSTEM_ROOT", "root");
    opens("root/opt/rocm-7.10.0/lib/libamdhip64.so.7"); /* by number, not by letter */
}
TEST(folder_of_debian) {
    SIM_LINK("root/usr/lib/x86_64-linux-gnu/libamdhip64.so.5");
    set_under("OCHRE_SYSTEM_ROOT", "root");
    set("OCHRE_SIM_BOARD", "gfx942"); /* what the old structure says has its features */
    opens("x86_64-linux-gnu/libamdhip64.so.5");
    OK(och_device_open("hip:0", NULL, &d, &err));
    assert_string_equal(d->info.arch, "gfx942:sramecc+:xnack-");
    HAS(d->info.runtime, "HIP 5.2.0");
    CHECK(d->info.code_object_version == 4);
}
TEST(nothing_anywhere) {
    set_under("OCHRE_SYSTEM_ROOT", "root");
    set_under("ROCM_PATH", "gone");
    FAILS(OCH_UNAVAILABLE, och_device_open("hip", NULL, &d, &err));
    HAS(err.message, "gone/lib"); /* what was tried, and what to do */
    HAS(err.message, "install");
    HAS(err.message, "OCHRE_HIP_LIBRARY");
    const hip_attempts *a = och_hip_lib_attempts();
    bool opt = false, debian = false;
    for (size_t i = 0; i < a->n; i++) {
        CHECK(a->at[i].find == HIP_ABSENT && a->at[i].why[0]);
        opt |= strstr(a->at[i].path, "root/opt/rocm/lib") != NULL;
        debian |= strstr(a->at[i].path, "root/usr/lib/x86_64-linux-gnu") != NULL;
    }
    CHECK(opt && debian);
}
TEST(a_broken_file_is_passed_over) {
    make_file("rocm/lib/libamdhip64.so.7", "This is no library, and is longer than the header of one, so that nobody takes it for a file cut short.", 0644);
    SIM_LINK("rocm/lib/libamdhip64.so.6");
    set_under("ROCM_PATH", "rocm");
    opens("rocm/lib/libamdhip64.so.6");
    CHECK(och_hip_lib_attempts()->at[0].find == HIP_BROKEN);
    HAS(och_hip_lib_attempts()->at[0].why, "invalid ELF header");
}
TEST(a_broken_file_alone_is_named) {
    make_file("libamdhip64.so.7", "This is no library, and is longer than the header of one, so that nobody takes it for a file cut short.", 0644);
    set_under("OCHRE_HIP_LIBRARY", "libamdhip64.so.7");
    FAILS(OCH_UNAVAILABLE, och_device_open("hip", NULL, &d, &err));
    HAS(err.message, "libamdhip64.so.7");
    HAS(err.message, "invalid ELF header");
}

/* ---- releases ---- */

TEST(too_old) {
    make_fake("libamdhip64.so.4", (const char *[]){"-DVERSION=40500000", NULL});
    set_under("OCHRE_HIP_LIBRARY", "libamdhip64.so.4");
    FAILS(OCH_UNAVAILABLE, och_device_open("hip", NULL, &d, &err));
    HAS(err.message, "libamdhip64.so.4");
    HAS(err.message, "HIP 4.5.0 is older than 5.2");
    HAS(err.message, "install");
}
TEST(a_missing_call_is_named) {
    make_fake("libamdhip64.so.6", (const char *[]){"-DNO_MALLOC", "-DhipModuleUnload=none", NULL});
    set_under("OCHRE_HIP_LIBRARY", "libamdhip64.so.6");
    FAILS(OCH_UNAVAILABLE, och_device_open("hip", NULL, &d, &err));
    HAS(err.message, "HIP 6.3.0 lacks hipMalloc;"); /* the first one of the table */
}
TEST(the_structure_is_the_releases) {
    make_fake("old.so", (const char *[]){"-DVERSION=50700000", NULL});
    set_under("OCHRE_HIP_LIBRARY", "old.so");
    OK(och_device_open("hip", NULL, &d, &err));
    CHECK(!strcmp(d->info.arch, "gfx1030")); /* what the old call says, though the new one is there */
    och_device_release(d);
}
TEST(the_new_structure) {
    make_fake("new.so", (const char *[]){"-DVERSION=70200000", NULL});
    set_under("OCHRE_HIP_LIBRARY", "new.so");
    OK(och_device_open("hip", NULL, &d, &err));
    CHECK(!strcmp(d->info.arch, "gfx1031"));
    CHECK(d->info.kind == OCH_DEV_DISCRETE);
    /* graphs are declined by the name of what is missing */
    OK(d->vtable->queue_create(d, &q, &err));
    FAILS(OCH_UNSUPPORTED, d->vtable->capture_begin(q, &err));
    HAS(err.message, "hipStreamBeginCapture");
    close_device();
}
TEST(the_new_structure_is_missing) {
    make_fake("new.so", (const char *[]){"-DVERSION=70200000", "-DNO_R0600", NULL});
    set_under("OCHRE_HIP_LIBRARY", "new.so");
    FAILS(OCH_UNAVAILABLE, och_device_open("hip", NULL, &d, &err));
    HAS(err.message, "hipGetDevicePropertiesR0600");
}

/* With 0, 3, 5 and all calls of the library API kernels come from the module API, or from the whole of the other. */
static void library_variant(const char *folder, bool used) {
    set("OCHRE_SIM_LIBRARY", folder);
    hip_lib *lib;
    OK(och_hip_sim_lib("gfx1100", &lib, &err));
    CHECK(lib->kernels_of_libraries == used);
    open_with_queue("sim:gfx1100");
    och_module *m = load(5);
    och_buf b = get(128, OCH_MEM_DEVICE);
    uint32_t found[32];
    CHECK(m);
    OK(run(function(m, "put"), &b));
    OK(d->vtable->copy_to_host(q, found, b.addr, 128, &err));
    for (int i = 0; i < 32; i++) CHECK(found[i] == 42);
    och_function *f;
    FAILS(OCH_NOTFOUND, d->vtable->module_function(m, "none", &f, &err));
    d->vtable->module_unload(m);
    och_buf_free(&b);
    close_device();
}
TEST(all_of_the_library_api) { library_variant(SIM "libamdhip64.so", true); }
TEST(none_of_the_library_api) { library_variant(SIM "library0/libamdhip64.so", false); }
TEST(three_of_the_library_api) { library_variant(SIM "library3/libamdhip64.so", false); }
TEST(five_of_the_library_api) { library_variant(SIM "library5/libamdhip64.so", false); }

/* ---- facts of memory ---- */

TEST(policy) {
    for (int i = 0; i < 16; i++) {
        bool integrated = i & 1, managed = i & 2, concurrent = i & 4, pageable = i & 8, unified;
        hip_memory m = och_hip_memory_policy(integrated, managed, concurrent, pageable, &unified);
        bool all = integrated && managed && concurrent;
        CHECK(m == (all ? HIP_MEMORY_MANAGED : HIP_MEMORY_DEVICE));
        CHECK(unified == (all || (integrated && pageable)));
    }
}
TEST(a_probe_that_fails_counts_as_no) {
    make_fake("fake.so", (const char *[]){"-DATTRIBUTE(id)=(id==16||id==24||id==9?-1:id==65?1:8)", NULL});
    set_under("OCHRE_HIP_LIBRARY", "fake.so"); /* it fails, and writes a 1 */
    OK(och_device_open("hip", NULL, &d, &err));
    CHECK(!d->info.integrated && !d->info.managed && !d->info.unified && !d->vtable->unified_memory(d));
    CHECK(d->info.kind == OCH_DEV_DISCRETE);
    och_device_release(d);
}
TEST(integrated_and_pageable_alone) {
    make_fake("fake.so", (const char *[]){"-DATTRIBUTE(id)=(id==16||id==65?1:id==24||id==9?0:8)", NULL});
    set_under("OCHRE_HIP_LIBRARY", "fake.so");
    open_with_queue("hip");
    CHECK(d->info.integrated && !d->info.managed && d->info.unified);
    och_buf b = get(100, OCH_MEM_DEVICE);
    CHECK((uint64_t)(uintptr_t)b.host == b.addr.value);
    och_buf_free(&b);
    close_device();
}
TEST(managed_without_the_call) {
    make_fake("fake.so", (const char *[]){"-DATTRIBUTE(id)=(id==65?0:1)", "-DNO_MANAGED", NULL});
    set_under("OCHRE_HIP_LIBRARY", "fake.so");
    OK(och_device_open("hip", NULL, &d, &err));
    CHECK(d->info.integrated && !d->info.managed && !d->info.unified);
    och_device_release(d);
}
TEST(host_memory_is_not_a_discrete_boards) {
    make_fake("fake.so", (const char *[]){"-DOWN=(8ul<<30)", "-DTOTAL=(64ul<<30)", "-DFREE=(60ul<<30)", NULL});
    set_under("OCHRE_HIP_LIBRARY", "fake.so");
    OK(och_device_open("hip", NULL, &d, &err));
    uint64_t n_free, n_total;
    OK(d->vtable->memory(d, &n_free, &n_total, &err));
    CHECK(d->info.memory_bytes == 8ull << 30 && n_total == 8ull << 30 && n_free == 8ull << 30);
    och_buf b = get(1 << 20, OCH_MEM_DEVICE); /* what is held is not free, whatever the runtime says */
    OK(d->vtable->memory(d, &n_free, &n_total, &err));
    CHECK(n_free == (8ull << 30) - (1 << 20));
    och_buf_free(&b);
    och_device_release(d);
}
TEST(quirk_carveout) {
    set("OCHRE_SIM_QUIRKS", "carveout=536870912:17179869184");
    open_with_queue("sim:gfx1151"); /* the carve-out and the pool, once each */
    CHECK(d->info.memory_bytes == 536870912ull + 17179869184ull);
    och_buf b = get(1ull << 30, OCH_MEM_DEVICE); /* more than the carve-out */
    och_buf_free(&b);
    close_device();
    open_with_queue("sim:gfx1100"); /* a discrete board has no pool */
    CHECK(d->info.memory_bytes == 536870912ull);
    close_device();
}
TEST(quirk_memory) {
    set("OCHRE_SIM_QUIRKS", "memory=268435456");
    open_with_queue("sim:gfx1100");
    CHECK(d->info.memory_bytes == 268435456);
    och_buf a = get(200 << 20, OCH_MEM_DEVICE), b;
    FAILS(OCH_NOMEM, och_buf_alloc(d, 100 << 20, OCH_MEM_DEVICE, &b, &err));
    HAS(err.message, "sim:gfx1100: 104857600 bytes of device memory asked for, 58720256 free of 268435456");
    och_buf_free(&a);
    a = get(200 << 20, OCH_MEM_DEVICE);
    och_buf_free(&a);
    close_device();
}
TEST(quirk_no_pageable) {
    set("OCHRE_SIM_QUIRKS", "no_pageable");
    open_with_queue("sim:gfx1100");
    CHECK(d->info.integrated && d->info.managed && d->info.unified); /* managed memory needs no pageable access */
    och_module *m = load(5);
    och_buf b = get(128, OCH_MEM_DEVICE);
    CHECK(m && b.host);
    OK(run(function(m, "put"), &b));
    OK(d->vtable->synchronise(q, &err));
    for (int i = 0; i < 32; i++) CHECK(((uint32_t *)b.host)[i] == 42);
    och_buf_free(&b);
    d->vtable->module_unload(m);
    close_device();
}
TEST(quirk_no_managed) {
    set("OCHRE_SIM_QUIRKS", "no_managed");
    open_with_queue("sim:gfx1151");
    CHECK(d->info.integrated && !d->info.managed && !d->info.unified);
    och_module *m = load(5);
    och_buf b = get(128, OCH_MEM_DEVICE);
    uint32_t found[32];
    CHECK(m && !b.host && !och_dev_host(d, b.addr));
    OK(run(function(m, "put"), &b));
    OK(d->vtable->copy_to_host(q, found, b.addr, 128, &err));
    OK(d->vtable->synchronise(q, &err));
    for (int i = 0; i < 32; i++) CHECK(found[i] == 42);
    och_buf_free(&b);
    d->vtable->module_unload(m);
    close_device();
}

/* ---- what fails, and by which name ---- */

TEST(quirk_no_object) {
    set("OCHRE_SIM_QUIRKS", "no_object=6");
    open_with_queue("sim:gfx1100");
    och_module *m = load(5);
    CHECK(m);
    d->vtable->module_unload(m);
    och_err_clear(&err);
    CHECK(!load(6) && err.status == OCH_DEVICE);
    HAS(err.message, "code object of version 6 for gfx1100");
    HAS(err.message, "version 5 and older");
    close_device();
}
TEST(quirk_no_object_5) {
    set("OCHRE_SIM_QUIRKS", "no_object=5");
    open_with_queue("sim:gfx1100");
    CHECK(!load(5));
    HAS(err.message, "code object of version 5");
    och_module *m = load(4);
    CHECK(m);
    d->vtable->module_unload(m);
    close_device();
}
TEST(quirk_fail_alloc) {
    set("OCHRE_SIM_QUIRKS", "fail_alloc=2");
    open_with_queue("sim:gfx1100");
    och_buf a = get(4096, OCH_MEM_DEVICE), b;
    FAILS(OCH_NOMEM, och_buf_alloc(d, 8192, OCH_MEM_PINNED, &b, &err));
    HAS(err.message, "8192 bytes of pinned memory");
    b = get(8192, OCH_MEM_PINNED);
    och_buf_free(&a);
    och_buf_free(&b);
    close_device();
}
TEST(quirk_fail_alloc_otherwise) {
    set("OCHRE_SIM_QUIRKS", "fail_alloc=1:999");
    open_with_queue("sim:gfx1151");
    och_buf b;
    FAILS(OCH_DEVICE, och_buf_alloc(d, 8192, OCH_MEM_DEVICE, &b, &err));
    HAS(err.message, "hipMallocManaged of 8192 bytes: hipErrorUnknown (999)");
    close_device();
}
TEST(quirk_fail_copy) {
    set("OCHRE_SIM_QUIRKS", "fail_copy=2");
    open_with_queue("sim:gfx1100");
    uint8_t in[1000], out[1000];
    for (int i = 0; i < 1000; i++) in[i] = (uint8_t)(i * 7);
    och_buf b = get(1000, OCH_MEM_DEVICE);
    OK(d->vtable->copy_to_device(q, b.addr, in, 1000, &err));
    FAILS(OCH_DEVICE, d->vtable->copy_to_host(q, out, b.addr, 1000, &err));
    HAS(err.message, "sim:gfx1100: copy to host of 1000 bytes from 0x");
    HAS(err.message, "hipErrorInvalidValue (1)");
    och_err_clear(&err);
    OK(d->vtable->copy_to_host(q, out, b.addr, 1000, &err)); /* told once, nothing lost */
    OK(d->vtable->synchronise(q, &err));
    CHECK(!memcmp(in, out, 1000));
    och_buf_free(&b);
    close_device();
    CHECK(!logged[0]);
}
TEST(quirk_fail_launch) {
    set("OCHRE_SIM_QUIRKS", "fail_launch=2:1");
    open_with_queue("sim:gfx1100");
    och_module *m = load(5);
    och_buf b = get(128, OCH_MEM_DEVICE);
    uint32_t found = 0;
    CHECK(m);
    OK(d->vtable->fill(q, b.addr, 0, 128, &err));
    OK(run(function(m, "calm"), &b));
    FAILS(OCH_DEVICE, run(function(m, "put"), &b));
    HAS(err.message, "launch of kernel put, grid 1 x 1 x 1 of groups of 32 x 1 x 1");
    och_err_clear(&err);
    OK(run(function(m, "put"), &b));
    OK(d->vtable->copy_to_host(q, &found, b.addr, 4, &err));
    CHECK(found == 42);
    och_buf_free(&b);
    d->vtable->module_unload(m);
    close_device();
}
TEST(quirk_lost_at) {
    set("OCHRE_SIM_QUIRKS", "lost_at=2");
    open_with_queue("sim:gfx1100");
    och_module *m = load(5);
    och_buf b = get(128, OCH_MEM_DEVICE), c;
    uint8_t byte = 0;
    CHECK(m);
    OK(run(function(m, "calm"), &b));
    OK(d->vtable->synchronise(q, &err));
    OK(run(function(m, "put"), &b));
    FAILS(OCH_DEVICE, d->vtable->synchronise(q, &err));
    HAS(err.message, "synchronise: hipErrorLaunchFailure (719)");
    HAS(err.message, "caused by kernel put");
    CHECK(err.native_code == 719);
    FAILS(OCH_DEVICE, d->vtable->copy_to_device(q, b.addr, &byte, 1, &err)); /* and so does all that follows, by its name */
    HAS(err.message, "copy to device");
    FAILS(OCH_DEVICE, och_buf_alloc(d, 100, OCH_MEM_DEVICE, &c, &err));
    FAILS(OCH_DEVICE, run(function(m, "put"), &b));
    HAS(err.message, "launch of kernel put");
    och_buf_free(&b);
    d->vtable->module_unload(m);
    close_device();
}

TEST(a_fault_names_what_was_launched) {
    open_with_queue("sim:gfx1100");
    och_module *m = load(5);
    och_buf b = get(128, OCH_MEM_DEVICE);
    CHECK(m);
    for (int i = 0; i < 12; i++) OK(run(function(m, "calm"), &b));
    OK(d->vtable->synchronise(q, &err));
    OK(run(function(m, "calm"), &b));
    OK(run(function(m, "wild"), &b));
    FAILS(OCH_DEVICE, d->vtable->synchronise(q, &err));
    HAS(err.message, "one of 2 kernels launched since the queue was last done, oldest first: calm, wild");
    HAS(err.message, "OCHRE_HIP_SYNC");
    close_device();
}
TEST(a_fault_in_a_graph) {
    open_with_queue("sim:gfx942");
    och_module *m = load(5);
    och_buf b = get(128, OCH_MEM_DEVICE);
    och_graph *g;
    CHECK(m);
    OK(d->vtable->capture_begin(q, &err));
    OK(run(function(m, "wild"), &b));
    OK(d->vtable->capture_end(q, &g, &err));
    OK(d->vtable->synchronise(q, &err)); /* recorded, not run */
    OK(d->vtable->graph_replay(q, g, &err));
    FAILS(OCH_DEVICE, d->vtable->synchronise(q, &err));
    HAS(err.message, "caused by kernel wild");
}
TEST(in_synchronous_mode_the_launch_tells) {
    set("OCHRE_HIP_SYNC", "1");
    open_with_queue("sim:gfx1100");
    och_module *m = load(5);
    och_buf b = get(128, OCH_MEM_DEVICE);
    CHECK(m);
    OK(run(function(m, "calm"), &b));
    FAILS(OCH_DEVICE, run(function(m, "wild"), &b));
    HAS(err.message, "caused by kernel wild");
}
TEST(a_fault_nobody_asked_for_is_warned_of) {
    open_with_queue("sim:gfx1100");
    och_module *m = load(5);
    och_buf b = get(128, OCH_MEM_DEVICE);
    CHECK(m);
    OK(run(function(m, "wild"), &b));
    close_device();
    HAS(logged, "caused by kernel wild");
}

/* ---- which device ---- */

static void label_of(const char *name, const char *label, const char *arch) {
    och_err_clear(&err);
    OK(och_device_open(name, NULL, &d, &err));
    if (strcmp(d->info.label, label) || strcmp(d->info.arch, arch))
        fprintf(stderr, "%s is %s, %s; expected %s, %s\n", name, d->info.label, d->info.arch, label, arch), _exit(2);
    och_device_release(d);
}
TEST(names_of_devices) {
    set("OCHRE_HIP_LIBRARY", SIM "libamdhip64.so");
    set("OCHRE_SIM_BOARD", "gfx1100+gfx942+gfx1201");
    label_of("hip", "hip:0", "gfx1100");
    label_of("hip:2", "hip:2", "gfx1201");
    label_of("hip:gfx1201", "hip:2", "gfx1201");
    label_of("hip:gfx942", "hip:1", "gfx942:sramecc+:xnack-");
    label_of("hip:gfx942:sramecc+:xnack-", "hip:1", "gfx942:sramecc+:xnack-");
    label_of("hip:0000:04:00.0", "hip:1", "gfx942:sramecc+:xnack-");
    label_of("hip:05:00.0", "hip:2", "gfx1201");
    FAILS(OCH_NOTFOUND, och_device_open("hip:gfx110", NULL, &d, &err));
    HAS(err.message, "hip:1 (0000:04:00.0, gfx942:sramecc+:xnack-)");
    FAILS(OCH_NOTFOUND, och_device_open("hip:0000:07:00.0", NULL, &d, &err));
    FAILS(OCH_RANGE, och_device_open("hip:3", NULL, &d, &err));
    label_of("sim:1", "sim:1", "gfx942:sramecc+:xnack-"); /* what OCHRE_SIM_BOARD says */
    label_of("sim:gfx1151", "sim:gfx1151", "gfx1151");
    label_of("sim:gfx1100x2:1", "sim:gfx1100x2:1", "gfx1100");
    label_of("sim:gfx1201+gfx1103:1", "sim:gfx1201+gfx1103:1", "gfx1103");
    CHECK(!strcmp(getenv("OCHRE_SIM_BOARD"), "gfx1100+gfx942+gfx1201"));
    FAILS(OCH_RANGE, och_device_open("sim:gfx1100x2:2", NULL, &d, &err));
    FAILS(OCH_NOTFOUND, och_device_open("sim:gfx9000", NULL, &d, &err));
    HAS(err.message, "gfx9000");
    FAILS(OCH_INVALID, och_device_open("sim:gfx1100:x", NULL, &d, &err));
    FAILS(OCH_INVALID, och_device_open("sim:", NULL, &d, &err));
}
TEST(hidden_devices) {
    set("OCHRE_HIP_LIBRARY", SIM "libamdhip64.so");
    set("OCHRE_SIM_BOARD", "gfx1100+gfx1201");
    set("HIP_VISIBLE_DEVICES", "1");
    label_of("hip:0", "hip:0", "gfx1201");
    FAILS(OCH_RANGE, och_device_open("hip:1", NULL, &d, &err));
    HAS(err.message, "HIP_VISIBLE_DEVICES=1");
    FAILS(OCH_NOTFOUND, och_device_open("hip:gfx1100", NULL, &d, &err));
    HAS(err.message, "HIP_VISIBLE_DEVICES=1");
}
TEST(all_devices_hidden) {
    set("OCHRE_HIP_LIBRARY", SIM "libamdhip64.so");
    set("ROCR_VISIBLE_DEVICES", "7");
    FAILS(OCH_UNAVAILABLE, och_device_open("hip:0", NULL, &d, &err));
    HAS(err.message, "ROCR_VISIBLE_DEVICES=7 hides devices");
}

/* A copy of the file is a board as far as anybody can tell. */
static void as_boards(const char *boards) {
    copy_file(SIM "libamdhip64.so", "rocm/lib/libamdhip64.so.6");
    set_under("ROCM_PATH", "rocm");
    set("OCHRE_SIM_BOARD", boards);
}
TEST(auto_takes_the_most_bandwidth) {
    as_boards("gfx1200+gfx1100+gfx1201");
    label_of("auto", "hip:1", "gfx1100");
    CHECK(!logged[0]);
}
TEST(auto_takes_no_integrated_one_beside_a_discrete_one) {
    as_boards("gfx1151+gfx906+gfx1103");
    label_of("auto", "hip:1", "gfx906:sramecc+:xnack-");
}
TEST(auto_takes_an_integrated_one) {
    as_boards("gfx1103+gfx1151");
    label_of("auto", "hip:1", "gfx1151");
}
TEST(auto_never_takes_the_simulator) {
    SIM_LINK("rocm/lib/libamdhip64.so.6");
    set_under("ROCM_PATH", "rocm");
    OK(och_device_open("auto", NULL, &d, &err));
    CHECK(!strcmp(d->info.label, "cpu:0"));
    och_device_release(d);
    HAS(logged, "no GPU is used, falling back to the CPU: hip:0 is simulated");
    CHECK(strchr(logged, '\n') == logged + strlen(logged) - 1); /* one line */
    FAILS(OCH_UNAVAILABLE, och_device_open("auto", &(och_dev_options){.require_gpu = true}, &d, &err));
    HAS(err.message, "a GPU is required");
    set("OCHRE_REQUIRE_GPU", "1");
    FAILS(OCH_UNAVAILABLE, och_device_open("auto", NULL, &d, &err));
    OK(och_device_open("hip:0", NULL, &d, &err)); /* by its name it is taken, and called what it is */
    CHECK(d->info.kind == OCH_DEV_SIMULATED && !d->info.integrated);
    och_device_release(d);
}
TEST(preferences) {
    och_dev_info a = {.backend = "hip", .kind = OCH_DEV_DISCRETE, .bandwidth_gbps = 500}, b = a;
    b.bandwidth_gbps = 600;
    CHECK(och_dev_preferred(&b, &a) && !och_dev_preferred(&a, &b));
    b.kind = OCH_DEV_INTEGRATED;
    CHECK(och_dev_preferred(&a, &b) && !och_dev_preferred(&b, &a));
    b.kind = OCH_DEV_SIMULATED;
    CHECK(!och_dev_preferred(&b, &a));
    snprintf(b.backend, sizeof b.backend, "later");
    b.kind = OCH_DEV_DISCRETE;
    CHECK(!och_dev_preferred(&b, &a)); /* the backend that comes first, though it has less */
    a.kind = OCH_DEV_INTEGRATED;
    CHECK(och_dev_preferred(&b, &a));
}
TEST(an_override_of_the_target_is_named) {
    as_boards("gfx1100");
    set("HSA_OVERRIDE_GFX_VERSION", "11.0.0");
    label_of("hip", "hip:0", "gfx1100");
    HAS(logged, "HSA_OVERRIDE_GFX_VERSION=11.0.0");
}

/* ---- a machine without a device, as Debian's library sees it ---- */

TEST(no_device_nodes) {
    if (access(REAL, R_OK) != 0) _exit(SKIPPED);
    set("OCHRE_HIP_LIBRARY", REAL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    och_err_clear(&err);
    if (och_device_open("hip", NULL, &d, &err) == OCH_OK) _exit(SKIPPED); /* a machine that has one */
    CHECK(err.status == OCH_UNAVAILABLE);
    HAS(err.message, "HIP 5.2.");
    HAS(err.message, REAL);
    HAS(err.message, "hipErrorNoDevice (100)");
    HAS(err.message, "root/dev/kfd");
}
static void without_permission(void) {
    if (access(REAL, R_OK) != 0) _exit(SKIPPED);
    set("OCHRE_HIP_LIBRARY", REAL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    CHECK(chmod(tmp, 0755) == 0);
    if (geteuid() == 0) CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    och_err_clear(&err);
    if (och_device_open("hip", NULL, &d, &err) == OCH_OK) _exit(SKIPPED);
    CHECK(err.status == OCH_UNAVAILABLE);
}
TEST(no_permission_on_kfd) {
    make_file("root/dev/kfd", "", 0400);
    make_file("root/dev/dri/renderD128", "", 0666);
    without_permission();
    HAS(err.message, "dev/kfd may not be read and written by this user (mode 400, group ");
    HAS(err.message, "usermod -aG");
}
TEST(no_permission_on_render_nodes) {
    make_file("root/dev/kfd", "", 0666);
    make_file("root/dev/dri/renderD128", "", 0400);
    without_permission();
    HAS(err.message, "renderD128 may not be read and written by this user");
}
TEST(nodes_that_may_be_used) {
    make_file("root/dev/kfd", "", 0666);
    make_file("root/dev/dri/renderD128", "", 0666);
    without_permission();
    HAS(err.message, "may not know the GPU");
}

/* ---- several boards ---- */

TEST(copies_between_two_boards) {
    enum { N = 100000 };
    och_device *o;
    och_queue *oq;
    static uint8_t in[N], out[N];
    open_with_queue("sim:gfx1100x2:0");
    OK(och_device_open("sim:gfx1100x2:1", NULL, &o, &err));
    OK(o->vtable->queue_create(o, &oq, &err));
    och_buf a = get(N, OCH_MEM_DEVICE), b;
    OK(och_buf_alloc(o, N, OCH_MEM_DEVICE, &b, &err));
    for (int i = 0; i < N; i++) in[i] = (uint8_t)(i * 13 + (i >> 8));
    OK(d->vtable->copy_to_device(q, a.addr, in, N, &err));
    OK(d->vtable->copy_peer(q, o, b.addr, d, a.addr, N, &err));
    OK(d->vtable->synchronise(q, &err));
    OK(o->vtable->copy_to_host(oq, out, b.addr, N, &err));
    CHECK(!memcmp(in, out, N));
    float x[2] = {1.5f, 2}, y[2] = {3, -1};
    OK(d->vtable->copy_to_device(q, a.addr, x, sizeof x, &err));
    OK(o->vtable->copy_to_device(oq, b.addr, y, sizeof y, &err));
    OK(d->vtable->all_reduce_f32((och_queue *[]){q, oq}, (och_dev_addr[]){a.addr, b.addr}, 2, 2, OCH_REDUCE_SUM, &err));
    OK(o->vtable->copy_to_host(oq, y, b.addr, sizeof y, &err));
    CHECK(y[0] == 4.5f && y[1] == 1);
    /* a kernel of one board is not launched on the other's queue */
    och_module *m = load(5);
    CHECK(m);
    uint64_t p = b.addr.value;
    FAILS(OCH_INVALID, o->vtable->launch(oq, function(m, "put"), &(och_launch){{1, 1, 1}, {32, 1, 1}, 0, &p, 8}, &err));
    HAS(err.message, "loaded on device sim:gfx1100x2:0");
    d->vtable->module_unload(m);
    och_buf_free(&a);
    och_buf_free(&b);
    o->vtable->queue_destroy(oq);
    och_device_release(o);
    close_device();
}

/* ---- the end ---- */

/* The program's exit status and how long it took, in milliseconds. */
static int run_program(char *const *argv, long *out_ms) {
    struct timespec a, b;
    pid_t pid;
    int status;
    clock_gettime(CLOCK_MONOTONIC, &a);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, under("out"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_addopen(&files, 2, under("err"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(posix_spawn(&pid, argv[0], &files, NULL, argv, environ) == 0 && waitpid(pid, &status, 0) == pid);
    clock_gettime(CLOCK_MONOTONIC, &b);
    *out_ms = (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool out_has(const char *part) {
    char bytes[16384];
    FILE *f = fopen(under("out"), "r");
    size_t n = f ? fread(bytes, 1, sizeof bytes - 1, f) : 0;
    bytes[n] = 0;
    if (f) fclose(f);
    return strstr(bytes, part) != NULL;
}

static void ends_well(const char *device) {
    char program[] = OCHRE_BUILD_DIR "/ochre", command[] = "devices";
    char *argv[] = {program, command, NULL};
    long ms;
    CHECK(run_program(argv, &ms) == 0);
    CHECK(out_has(device)); /* all that was said has arrived */
    CHECK(ms < 2000);
}
TEST(a_finalizer_that_hangs) {
    set("OCHRE_SIM_QUIRKS", "finalizer_hangs");
    set("OCHRE_HIP_LIBRARY", SIM "libamdhip64.so");
    ends_well("hip:0");
}
TEST(a_finalizer_that_crashes) {
    make_fake("fake.so", (const char *[]){"-DEND=*(volatile int *)8 = 1", NULL});
    set_under("OCHRE_HIP_LIBRARY", "fake.so");
    ends_well("hip:0");
}
TEST(a_finalizer_that_aborts) {
    make_fake("fake.so", (const char *[]){"-DEND=abort()", NULL});
    set_under("OCHRE_HIP_LIBRARY", "fake.so");
    ends_well("hip:0");
}
TEST(a_finalizer_of_another_kind_that_hangs) {
    make_fake("fake.so", (const char *[]){"-DEND=for(;;)sleep(1)", NULL});
    set_under("OCHRE_HIP_LIBRARY", "fake.so");
    ends_well("hip:0");
}

int main(void) {
#define T cmocka_unit_test
    const struct CMUnitTest tests[] = {
        T(override_names_a_file), T(override_names_a_folder), T(override_is_the_only_place), T(rocm_path_comes_before_packages),
        T(the_loaders_path_comes_before_rocm_path), T(therock_packages_come_before_wheels), T(a_wheel_of_the_user),
        T(packages_of_the_system), T(newest_rocm_of_the_distribution), T(folder_of_debian), T(nothing_anywhere),
        T(a_broken_file_is_passed_over), T(a_broken_file_alone_is_named), T(too_old), T(a_missing_call_is_named),
        T(the_structure_is_the_releases), T(the_new_structure), T(the_new_structure_is_missing), T(all_of_the_library_api),
        T(none_of_the_library_api), T(three_of_the_library_api), T(five_of_the_library_api), T(policy),
        T(a_probe_that_fails_counts_as_no), T(integrated_and_pageable_alone), T(managed_without_the_call),
        T(host_memory_is_not_a_discrete_boards), T(quirk_carveout), T(quirk_memory), T(quirk_no_pageable), T(quirk_no_managed),
        T(quirk_no_object), T(quirk_no_object_5), T(quirk_fail_alloc), T(quirk_fail_alloc_otherwise), T(quirk_fail_copy),
        T(quirk_fail_launch), T(quirk_lost_at), T(a_fault_names_what_was_launched), T(a_fault_in_a_graph),
        T(in_synchronous_mode_the_launch_tells), T(a_fault_nobody_asked_for_is_warned_of), T(names_of_devices), T(hidden_devices),
        T(all_devices_hidden), T(auto_takes_the_most_bandwidth), T(auto_takes_no_integrated_one_beside_a_discrete_one),
        T(auto_takes_an_integrated_one), T(auto_never_takes_the_simulator), T(preferences), T(an_override_of_the_target_is_named),
        T(no_device_nodes), T(no_permission_on_kfd), T(no_permission_on_render_nodes), T(nodes_that_may_be_used),
        T(copies_between_two_boards), T(a_finalizer_that_hangs), T(a_finalizer_that_crashes), T(a_finalizer_that_aborts),
        T(a_finalizer_of_another_kind_that_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
