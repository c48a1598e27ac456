#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "dev/cpu/cpu.h"
#include "dev/cpu/host.h"
#include "dev/dev.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static och_err err;

static int before(void **s) {
    (void)s;
    och_err_clear(&err);
    unsetenv("OCHRE_CPU_ISA");
    unsetenv("OCHRE_THREADS");
    return 0;
}

static och_device *open_ok(const char *name, int n_threads) {
    och_device *d;
    och_err_clear(&err);
    if (och_device_open(name, &(och_dev_options){.n_threads = n_threads}, &d, &err) != OCH_OK) fail_msg("%s", err.message);
    return d;
}

/* ---- names ---- */

static void the_table_holds_each_backend_once(void **s) {
    (void)s;
    assert_true(och_backend_count() >= 2);
    assert_null(och_backend_at(-1));
    assert_null(och_backend_at(och_backend_count()));
    for (int i = 0; i < och_backend_count(); i++) {
        const och_backend *b = och_backend_at(i);
        assert_true(b->name && *b->name && b->count && b->open);
        assert_true(strlen(b->name) < sizeof ((och_dev_info *)0)->backend && !strchr(b->name, ':'));
        assert_string_not_equal(b->name, "auto");
        for (int k = 0; k < i; k++) assert_string_not_equal(b->name, och_backend_at(k)->name);
    }
}

static void names_that_open(void **s) {
    (void)s;
    static const struct {
        const char *name, *backend;
    } good[] = {{"cpu", "cpu"}, {"cpu:0", "cpu"}, {"null", "null"}, {"null:0", "null"}, {"cpu:00", "cpu"}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        och_device *d = open_ok(good[i].name, 1);
        assert_string_equal(d->info.backend, good[i].backend);
        och_device_release(d);
    }
    och_device *d = open_ok("auto", 1); /* something that computes */
    assert_int_not_equal(d->info.kind, OCH_DEV_NULL);
    assert_int_not_equal(d->info.kind, OCH_DEV_SIMULATED);
    och_device_release(d);
    assert_int_equal(och_device_open("cpu", NULL, &d, &err), OCH_OK); /* no options: defaults */
    och_device_release(d);
}

static void names_that_do_not(void **s) {
    (void)s;
    static const struct {
        const char *name;
        och_status st;
    } bad[] = {{NULL, OCH_INVALID},     {"", OCH_INVALID},       {"cpu:", OCH_INVALID},  {"cpu:x", OCH_INVALID},
               {"cpu:-1", OCH_INVALID}, {"cpu:0 ", OCH_INVALID}, {"cpu:1", OCH_RANGE},   {"null:7", OCH_RANGE},
               {"cp", OCH_NOTFOUND},    {"cpux", OCH_NOTFOUND},  {"CPU", OCH_NOTFOUND},  {"auto:0", OCH_NOTFOUND},
               {":0", OCH_NOTFOUND},    {"cpu:99999999999999999999", OCH_INVALID}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        och_device *d = (och_device *)1;
        och_err_clear(&err);
        assert_int_equal(och_device_open(bad[i].name, NULL, &d, &err), bad[i].st);
        assert_null(d);
        if (bad[i].name) assert_non_null(strstr(err.message, bad[i].name));
        assert_non_null(strstr(err.message, "cpu:0")); /* what would work */
        assert_non_null(strstr(err.message, "null:0"));
        assert_non_null(strstr(err.message, "auto"));
    }
}

static void a_long_name_does_not_hurt(void **s) {
    (void)s;
    char name[5000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    och_device *d;
    assert_int_equal(och_device_open(name, NULL, &d, &err), OCH_NOTFOUND);
}

/* ---- the table of functions ---- */

static void an_empty_slot_is_found(void **s) {
    (void)s;
    static const struct {
        size_t offset;
        const char *name;
    } named[] = {{offsetof(och_device_vtable, destroy), "destroy"},
                 {offsetof(och_device_vtable, unified_memory), "unified_memory"},
                 {offsetof(och_device_vtable, event_wait_queue), "event_wait_queue"},
                 {offsetof(och_device_vtable, capture_end), "capture_end"},
                 {offsetof(och_device_vtable, all_reduce_f32), "all_reduce_f32"}};
    och_device *d = open_ok("null", 1);
    assert_int_equal(och_device_check(d, &err), OCH_OK);
    och_device copy = *d;
    size_t n_named = 0;
    for (size_t at = 0; at < sizeof(och_device_vtable); at += sizeof(void (*)(void))) {
        och_device_vtable v = *d->vtable;
        memset((char *)&v + at, 0, sizeof(void (*)(void)));
        copy.vtable = &v;
        och_err_clear(&err);
        assert_int_equal(och_device_check(&copy, &err), OCH_INTERNAL);
        assert_non_null(strstr(err.message, "null:0"));
        for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
            if (named[i].offset == at) {
                char want[64];
                snprintf(want, sizeof want, "slot %s ", named[i].name);
                assert_non_null(strstr(err.message, want));
                n_named++;
            }
    }
    assert_int_equal(n_named, sizeof named / sizeof named[0]);
    copy.vtable = NULL;
    och_err_clear(&err);
    assert_int_equal(och_device_check(&copy, &err), OCH_INTERNAL);
    och_err_clear(&err);
    assert_int_equal(och_device_check(NULL, &err), OCH_INTERNAL);
    och_device_release(d);
}

/* ---- lifetime ---- */

static void *retain_and_release(void *d) {
    for (int i = 0; i < 1000; i++) och_device_release(och_device_retain(d));
    return NULL;
}

static void references_are_counted(void **s) {
    (void)s;
    int64_t live = och_alloc_live();
    och_device *d = open_ok("cpu", 2);
    assert_ptr_equal(och_device_retain(d), d);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, retain_and_release, d), 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    och_device_release(d);
    assert_int_equal(d->info.index, 0); /* still there */
    assert_true(och_alloc_live() > live);
    och_device_release(d);
    assert_int_equal(och_alloc_live(), live);
    och_device_release(NULL);
    assert_null(och_device_retain(NULL));
}

static void buffers_are_accounted_for(void **s) {
    (void)s;
    uint64_t bytes0, count0, bytes, count;
    och_buf_live(&bytes0, &count0);
    och_device *c = open_ok("cpu", 1), *n = open_ok("null", 1);
    och_buf a, b, refused;
    assert_int_equal(och_buf_alloc(c, 1000, OCH_MEM_DEVICE, &a, &err), OCH_OK);
    assert_int_equal(och_buf_alloc(n, 8 << 20, OCH_MEM_PINNED, &b, &err), OCH_OK);
    assert_int_equal(och_buf_alloc(n, UINT64_MAX, OCH_MEM_DEVICE, &refused, &err), OCH_NOMEM);
    och_buf_live(&bytes, &count);
    assert_int_equal(bytes - bytes0, 1000 + (8 << 20));
    assert_int_equal(count - count0, 2);
    och_buf_free(&a);
    och_buf_free(&b);
    och_buf_free(&refused);
    och_buf_free(NULL);
    och_buf_live(&bytes, &count);
    assert_int_equal(bytes, bytes0);
    assert_int_equal(count, count0);
    och_device_release(c);
    och_device_release(n);
}

/* An unfreed buffer goes with the null device; the address sanitizer would tell. */
static void the_null_device_drops_what_is_left(void **s) {
    (void)s;
    int64_t live = och_alloc_live();
    och_device *n = open_ok("null", 1);
    och_buf b = {0};
    assert_int_equal(n->vtable->alloc(n, 100, OCH_MEM_DEVICE, &b, &err), OCH_OK);
    och_device_release(n);
    assert_int_equal(och_alloc_live(), live);
}

/* What makes the null device worth running against. */
static void the_null_device_defers(void **s) {
    (void)s;
    och_device *d = open_ok("null", 1);
    const och_device_vtable *v = d->vtable;
    och_queue *q;
    och_event *e;
    och_buf a, p, b;
    assert_int_equal(v->queue_create(d, &q, &err), OCH_OK);
    assert_int_equal(v->event_create(d, &e, &err), OCH_OK);
    assert_int_equal(och_buf_alloc(d, 64, OCH_MEM_DEVICE, &a, &err), OCH_OK);
    assert_int_equal(och_buf_alloc(d, 64, OCH_MEM_PINNED, &p, &err), OCH_OK);
    memset(p.host, 1, 64);
    assert_int_equal(v->fill(q, a.addr, 7, 64, &err), OCH_OK);
    assert_int_equal(v->copy_to_host(q, p.host, a.addr, 64, &err), OCH_OK);
    assert_int_equal(v->event_record(q, e, &err), OCH_OK);
    assert_int_equal(((char *)p.host)[0], 1); /* not yet */
    bool done = true;
    assert_int_equal(v->event_query(e, &done, &err), OCH_OK);
    assert_false(done);
    assert_int_equal(v->event_wait_host(e, &err), OCH_OK);
    assert_int_equal(((char *)p.host)[0], 7);
    /* a deferred error: told by whoever waits, once by the queue, and it takes the later commands with it */
    och_dev_addr outside = och_dev_addr_add(a.addr, 65);
    assert_int_equal(v->fill(q, outside, 1, 1, &err), OCH_OK);
    assert_int_equal(v->event_record(q, e, &err), OCH_OK);
    assert_int_equal(v->fill(q, a.addr, 9, 64, &err), OCH_OK);
    assert_int_equal(v->event_wait_host(e, &err), OCH_DEVICE);
    assert_non_null(strstr(err.message, "fill of 1 bytes"));
    och_err_clear(&err);
    assert_int_equal(v->fill(q, a.addr, 9, 64, &err), OCH_DEVICE); /* the next call on the queue */
    och_err_clear(&err);
    assert_int_equal(v->copy_to_host(q, p.host, a.addr, 64, &err), OCH_OK);
    assert_int_equal(v->synchronise(q, &err), OCH_OK);
    assert_int_equal(((char *)p.host)[0], 7);
    /* addresses are never given twice */
    uint64_t first = a.addr.value;
    och_buf_free(&a);
    assert_int_equal(och_buf_alloc(d, 64, OCH_MEM_DEVICE, &b, &err), OCH_OK);
    assert_true(b.addr.value > first);
    och_buf_free(&b);
    och_buf_free(&p);
    v->event_destroy(e);
    v->queue_destroy(q);
    och_device_release(d);
}

static void events_stay_with_their_device(void **s) {
    (void)s;
    static const char *const names[] = {"cpu", "null"};
    for (int i = 0; i < 2; i++) {
        och_device *d = open_ok(names[i], 1), *o = open_ok(names[i], 1);
        och_queue *q;
        och_event *e;
        assert_int_equal(d->vtable->queue_create(d, &q, &err), OCH_OK);
        assert_int_equal(o->vtable->event_create(o, &e, &err), OCH_OK);
        assert_int_equal(d->vtable->event_record(q, e, &err), OCH_INVALID);
        assert_int_equal(d->vtable->event_wait_queue(q, e, &err), OCH_INVALID);
        assert_non_null(strstr(err.message, "another device"));
        o->vtable->event_destroy(e);
        d->vtable->queue_destroy(q);
        och_device_release(d);
        och_device_release(o);
    }
}

/* ---- the CPU ---- */

static void threads(void **s) {
    (void)s;
    och_device *d = open_ok("cpu", 3);
    assert_int_equal(och_pool_size(och_cpu_pool(d)), 3);
    assert_int_equal(d->info.n_compute_units, 3);
    och_device_release(d);
    setenv("OCHRE_THREADS", "2", 1);
    d = open_ok("cpu", 0);
    assert_int_equal(d->info.n_compute_units, 2);
    och_device_release(d);
    d = open_ok("cpu", 1); /* the option is stronger */
    assert_int_equal(d->info.n_compute_units, 1);
    och_device_release(d);
    static const char *const bad[] = {"0", "-1", "two", "1.5", "2 ", "1025", "99999999999999999999", "0x2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("OCHRE_THREADS", bad[i], 1);
        och_err_clear(&err);
        assert_int_equal(och_device_open("cpu", NULL, &d, &err), OCH_INVALID);
        assert_non_null(strstr(err.message, "OCHRE_THREADS"));
        assert_non_null(strstr(err.message, bad[i]));
    }
    setenv("OCHRE_THREADS", "", 1); /* empty is unset */
    d = open_ok("cpu", 0);
    assert_true(d->info.n_compute_units >= 1 && d->info.n_compute_units <= och_cpu_count());
    och_device_release(d);
    unsetenv("OCHRE_THREADS");
    och_err_clear(&err);
    assert_int_equal(och_device_open("cpu", &(och_dev_options){.n_threads = -2}, &d, &err), OCH_RANGE);
    assert_non_null(strstr(err.message, "-2"));
}

#if defined(__x86_64__)
/* The kernel's list of flags, an independent reader of CPUID and XCR0. */
static bool flagged(const char *name) {
    FILE *f = fopen("/proc/cpuinfo", "r");
    static char line[8192];
    bool found = false;
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "flags", 5)) {
            line[strcspn(line, "\n")] = ' ';
            char want[64];
            snprintf(want, sizeof want, " %s ", name);
            found = strstr(line, want) != NULL;
            break;
        }
    if (f) fclose(f);
    return found;
}
static bool all_flagged(const char *const *names) {
    while (*names)
        if (!flagged(*names++)) return false;
    return true;
}

static void the_isa_is_what_the_kernel_lists(void **s) {
    (void)s;
    const char *const avx2[] = {"avx2", "fma", "f16c", "bmi2", NULL};
    const char *const avx512[] = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512vbmi", "avx512_bf16", NULL};
    const char *const amx[] = {"amx_tile", "amx_int8", "amx_bf16", NULL};
    och_cpu_isa want = OCH_CPU_GENERIC, found = och_cpu_isa_detect();
    if (all_flagged(avx2)) want = OCH_CPU_AVX2;
    if (want == OCH_CPU_AVX2 && all_flagged(avx512)) want = OCH_CPU_AVX512;
    /* the process may be refused the tiles though the CPU has them */
    if (want == OCH_CPU_AVX512 && all_flagged(amx) && found == OCH_CPU_AMX) want = OCH_CPU_AMX;
    assert_string_equal(och_cpu_isa_name(found), och_cpu_isa_name(want));
}
#else
static void the_isa_is_what_the_kernel_lists(void **s) {
    (void)s;
    och_cpu_isa found = och_cpu_isa_detect();
    assert_true(found == OCH_CPU_GENERIC || found == OCH_CPU_NEON);
}
#endif

static char logged[2048];
static void keep(void *ctx, och_log_level level, const char *message) {
    (void)ctx;
    if (level == OCH_LOG_WARN) snprintf(logged, sizeof logged, "%s", message);
}

static void the_isa_can_be_lowered(void **s) {
    (void)s;
    och_cpu_isa have = och_cpu_isa_detect();
    och_log_set_sink(keep, NULL);
    static const char *const names[] = {"generic", "avx2", "avx512", "amx", "neon"};
    for (int i = 0; i <= OCH_CPU_NEON; i++) {
        assert_string_equal(och_cpu_isa_name((och_cpu_isa)i), names[i]);
        bool available = i == OCH_CPU_GENERIC || i == (int)have || (have != OCH_CPU_NEON && i < (int)have);
        setenv("OCHRE_CPU_ISA", names[i], 1);
        *logged = 0;
        och_device *d = open_ok("cpu", 1);
        assert_int_equal(och_cpu_device_isa(d), available ? i : (int)have);
        assert_int_equal(*logged != 0, !available);
        if (available && i == OCH_CPU_AVX2) assert_string_equal(d->info.arch, "x86-64-v3");
        if (available && i == OCH_CPU_AVX512) assert_string_equal(d->info.arch, "x86-64-v4");
        if (available && i == OCH_CPU_AMX) assert_string_equal(d->info.arch, "x86-64-v4+amx");
        och_device_release(d);
    }
    setenv("OCHRE_CPU_ISA", "avx9000", 1);
    *logged = 0;
    assert_int_equal(och_cpu_isa_detect(), have);
    och_log_set_sink(NULL, NULL);
    assert_non_null(strstr(logged, "OCHRE_CPU_ISA"));
    assert_non_null(strstr(logged, "avx9000"));
    assert_non_null(strstr(logged, "generic"));
    assert_non_null(strstr(logged, och_cpu_isa_name(have)));
}

/* Fresh pages read as zero and cost nothing until touched; a limit on the process is a limit of the device. */
static void cpu_memory(void **s) {
    (void)s;
    och_device *d = open_ok("cpu", 1);
    och_buf b;
    assert_int_equal(och_buf_alloc(d, 64 << 20, OCH_MEM_DEVICE, &b, &err), OCH_OK);
    assert_int_equal(b.addr.value % (2 << 20), 0); /* huge pages can back it */
    for (size_t i = 0; i < (64 << 20); i += 1 << 20) assert_int_equal(((char *)b.host)[i], 0);
    ((char *)b.host)[(64 << 20) - 1] = 1;
    och_buf_free(&b);
    /* many buffers together do not exceed the limit either */
    uint64_t piece = d->info.memory_limit_bytes / 4 + 1;
    och_buf many[4] = {{0}};
    int n = 0;
    while (n < 4 && och_buf_alloc(d, piece, OCH_MEM_DEVICE, &many[n], &err) == OCH_OK) n++;
    assert_true(n <= 3);
    assert_int_equal(err.status, OCH_NOMEM);
    while (n) och_buf_free(&many[--n]);
    och_device_release(d);
}

/* ---- what the host says, from texts made by hand ---- */

static char dir[] = "/tmp/ochre-test-XXXXXX";

static const char *put(const char *path, const char *text) {
    static char full[512];
    snprintf(full, sizeof full, "%s/%s", dir, path);
    for (char *p = full + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        (void)mkdir(full, 0700);
        *p = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return full;
}

static void cpu_names(void **s) {
    (void)s;
    static const struct {
        const char *text, *name, *vendor;
    } cases[] = {
        {"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 1\nmodel name\t: AMD EPYC 9654 96-Core\n", "AMD EPYC 9654 96-Core", "AMD"},
        {"vendor_id : GenuineIntel\nmodel name : Xeon\n", "Xeon", "Intel"},
        {"processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n", "Arm CPU, part 0xd4f", "Arm"},
        {"CPU implementer : 0xc0\nCPU part : 0xac3\n", "Ampere CPU, part 0xac3", "Ampere"},
        {"", "unknown CPU", "unknown"},
        {"model name", "unknown CPU", "unknown"},
    };
    char name[128], vendor[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        och_host_cpu_name(put("cpuinfo", cases[i].text), name, sizeof name, vendor, sizeof vendor);
        assert_string_equal(name, cases[i].name);
        assert_string_equal(vendor, cases[i].vendor);
    }
    och_host_cpu_name("/nowhere/cpuinfo", name, sizeof name, vendor, sizeof vendor);
    assert_string_equal(name, "unknown CPU");
    assert_int_equal(och_host_available_bytes(put("meminfo", "MemTotal: 10 kB\nMemAvailable:    7 kB\n")), 7 * 1024);
    assert_int_equal(och_host_available_bytes(put("meminfo", "MemTotal: 10 kB\n")), 0);
    uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), found = och_host_memory_bytes();
    assert_true(found > pages / 2 && found < pages * 2);
}

static och_cgroup_limits limits_of(const char *self) {
    char root[256], path[512];
    snprintf(root, sizeof root, "%s/cg", dir);
    snprintf(path, sizeof path, "%s", put("self", self));
    return och_host_cgroup_limits(path, root);
}

static void control_groups(void **s) {
    (void)s;
    och_cgroup_limits l = limits_of("0::/\n"); /* nothing is mounted */
    assert_true(l.memory_bytes == UINT64_MAX && l.memory_free_bytes == UINT64_MAX && l.cpus == 0);

    put("cg/a/b/memory.max", "max\n"); /* version 2: the parent holds the limit */
    put("cg/a/b/memory.current", "5\n");
    put("cg/a/memory.max", "1000000\n");
    put("cg/a/memory.current", "400000\n");
    put("cg/a/cpu.max", "150000 100000\n");
    put("cg/a/b/cpu.max", "max 100000\n");
    l = limits_of("0::/a/b\n");
    assert_int_equal(l.memory_bytes, 1000000);
    assert_int_equal(l.memory_free_bytes, 600000);
    assert_true(l.cpus == 1.5);
    put("cg/a/b/memory.max", "300\n");
    l = limits_of("0::/a/b\n");
    assert_int_equal(l.memory_bytes, 300);
    assert_int_equal(l.memory_free_bytes, 295);

    l = limits_of("0::/elsewhere\n"); /* not shown here: the mount's root is what limits */
    assert_int_equal(l.memory_bytes, UINT64_MAX);
    put("cg/memory.max", "777\n");
    put("cg/memory.current", "999\n"); /* over its limit: nothing is free */
    l = limits_of("0::/elsewhere\n");
    assert_int_equal(l.memory_bytes, 777);
    assert_int_equal(l.memory_free_bytes, 0);

    put("cg/memory.max", "max\n"); /* version 1, and both */
    put("cg/memory/x/memory.limit_in_bytes", "2048\n");
    put("cg/memory/x/memory.usage_in_bytes", "1024\n");
    put("cg/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("cg/cpu,cpuacct/none", "");
    put("cg/cpu/x/cpu.cfs_quota_us", "-1\n");
    put("cg/cpu/x/cpu.cfs_period_us", "100000\n");
    put("cg/cpu/cpu.cfs_quota_us", "250000\n");
    put("cg/cpu/cpu.cfs_period_us", "100000\n");
    l = limits_of("9:name=systemd:/x\n4:memory:/x\n2:cpu,cpuacct:/x\n1:cpuset:/x\n0::/\n");
    assert_int_equal(l.memory_bytes, 2048);
    assert_int_equal(l.memory_free_bytes, 1024);
    assert_true(l.cpus == 2.5);
    l = limits_of("4:memory:/\n");
    assert_int_equal(l.memory_bytes, UINT64_MAX);
    l = limits_of("rubbish\n:\n\n4:memory\n4:memory:relative\n");
    assert_int_equal(l.memory_free_bytes, UINT64_MAX);
}

static int make_dir(void **s) {
    (void)s;
    return mkdtemp(dir) ? 0 : -1;
}
static int remove_dir(void **s) {
    (void)s;
    char command[256];
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    return system(command);
}

#define CASE(f) cmocka_unit_test_setup(f, before)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(the_table_holds_each_backend_once),
        CASE(names_that_open),
        CASE(names_that_do_not),
        CASE(a_long_name_does_not_hurt),
        CASE(an_empty_slot_is_found),
        CASE(references_are_counted),
        CASE(buffers_are_accounted_for),
        CASE(the_null_device_drops_what_is_left),
        CASE(the_null_device_defers),
        CASE(events_stay_with_their_device),
        CASE(threads),
        CASE(the_isa_is_what_the_kernel_lists),
        CASE(the_isa_can_be_lowered),
        CASE(cpu_memory),
        CASE(cpu_names),
        CASE(control_groups),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
