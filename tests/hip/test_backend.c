/* The HIP backend on simulated boards and their quirks: facts of memory, errors by name, which device a name means. */
#include "hip/backend.h"

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
    och_function *wild = function(m, "wild");
    OK(d->vtable->capture_begin(q, &err));
    OK(run(wild, &b));
    OK(d->vtable->capture_end(q, &g, &err));
    OK(d->vtable->synchronise(q, &err)); /* recorded, not run */
    /* whichever call is told first: the kernel may be done before the replay has returned */
    if (d->vtable->graph_replay(q, g, &err) == OCH_OK) FAILS(OCH_DEVICE, d->vtable->synchronise(q, &err));
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
    int n = -1;
    for (int i = 0; i < och_backend_count(); i++)
        if (!strcmp(och_backend_at(i)->name, "sim")) OK(och_backend_at(i)->count(&n, &err));
    CHECK(n == 3);
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
    FAILS(OCH_INVALID, o->vtable->launch(oq, function(m, "put"), &(och_launch){{1, 1, 1}, {32, 1, 1}, 0, &p, 8, false, OCH_LDS_BY_DRIVER}, &err));
    HAS(err.message, "loaded on device sim:gfx1100x2:0");
    d->vtable->module_unload(m);
    och_buf_free(&a);
    och_buf_free(&b);
    o->vtable->queue_destroy(oq);
    och_device_release(o);
    close_device();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policy),
        cmocka_unit_test(a_probe_that_fails_counts_as_no),
        cmocka_unit_test(integrated_and_pageable_alone),
        cmocka_unit_test(managed_without_the_call),
        cmocka_unit_test(host_memory_is_not_a_discrete_boards),
        cmocka_unit_test(quirk_carveout),
        cmocka_unit_test(quirk_memory),
        cmocka_unit_test(quirk_no_pageable),
        cmocka_unit_test(quirk_no_managed),
        cmocka_unit_test(quirk_no_object),
        cmocka_unit_test(quirk_no_object_5),
        cmocka_unit_test(quirk_fail_alloc),
        cmocka_unit_test(quirk_fail_alloc_otherwise),
        cmocka_unit_test(quirk_fail_copy),
        cmocka_unit_test(quirk_fail_launch),
        cmocka_unit_test(quirk_lost_at),
        cmocka_unit_test(a_fault_names_what_was_launched),
        cmocka_unit_test(a_fault_in_a_graph),
        cmocka_unit_test(in_synchronous_mode_the_launch_tells),
        cmocka_unit_test(a_fault_nobody_asked_for_is_warned_of),
        cmocka_unit_test(names_of_devices),
        cmocka_unit_test(hidden_devices),
        cmocka_unit_test(all_devices_hidden),
        cmocka_unit_test(auto_takes_the_most_bandwidth),
        cmocka_unit_test(auto_takes_no_integrated_one_beside_a_discrete_one),
        cmocka_unit_test(auto_takes_an_integrated_one),
        cmocka_unit_test(auto_never_takes_the_simulator),
        cmocka_unit_test(preferences),
        cmocka_unit_test(an_override_of_the_target_is_named),
        cmocka_unit_test(copies_between_two_boards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
