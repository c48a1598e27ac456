/* The CUDA backend on a driver in host memory (fake_cuda.c): where it is looked for, what is said where there is none or no
 * device, devices by name, memory, faults, launches, graphs, several devices, and how the program ends. */
#include "hip/backend.h"

#include "dev/cuda/cuda_lib.h"

#include <dlfcn.h>
#include <ochre/kernels.h>

/* The fake at tmp/at; where there is no C compiler the case is skipped. */
static void make(const char *at, ...) {
    char object[512], source[] = OCHRE_TEST_DIR "/unit/fake_cuda.c";
    snprintf(object, sizeof object, "%s", under(at));
    make_folders(object);
    char *argv[24] = {"cc", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-o", object, source};
    int n = 9;
    va_list ap;
    va_start(ap, at);
    while ((argv[n] = va_arg(ap, char *))) n++;
    va_end(ap);
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) || waitpid(pid, &status, 0) != pid) _exit(SKIPPED);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) _exit(SKIPPED);
    CHECK(status == 0);
}

/* The one that is used. */
#define FAKE(...)                                                                                                              \
    do {                                                                                                                       \
        make("fake.so", __VA_ARGS__);                                                                                          \
        set_under("OCHRE_CUDA_LIBRARY", "fake.so");                                                                            \
    } while (0)
static void *symbol(const char *name) {
    void *h = dlopen(under("fake.so"), RTLD_NOW | RTLD_NOLOAD), *p = h ? dlsym(h, name) : NULL;
    CHECK(p);
    return p;
}
#define CALL(result, name, params) ((result(*) params)(uintptr_t)symbol(#name))
static void fail_next(const char *call, int result) { CALL(void, fake_fail, (const char *, int))(call, result); }
static unsigned refused(void) { return CALL(unsigned, fake_refused, (void))(); }

#define PTX(kernels) ".version 7.0\n.target sm_80\n.address_size 64\n" kernels "}\n"
static const char code[] = PTX(".visible .entry put() {}\n.visible .entry twice() {}\n.visible .entry fault() {}\n"
                               ".visible .entry hungry() {}\n.visible .entry nothing() {\n");
static och_module *module(void) {
    och_module *m;
    OK(d->vtable->module_load(d, code, sizeof code - 1, &m, &err));
    return m;
}

typedef struct put_args {
    uint64_t p;
    uint32_t n, add;
} put_args;
static och_status give(och_function *f, const void *args, size_t n_bytes) {
    return d->vtable->launch(q, f, &(och_launch){{1, 1, 1}, {32, 1, 1}, 0, args, n_bytes, false, OCH_LDS_BY_DRIVER}, &err);
}
static och_status put(och_function *f, och_buf *b, uint32_t n, uint32_t add) {
    put_args a = {b->addr.value, n, add};
    return give(f, &a, sizeof a);
}
static och_status twice(och_function *f, och_buf *b, uint32_t n) {
    put_args a = {b->addr.value, n, 0};
    return give(f, &a, 12);
}

/* ---- where the library is looked for ---- */

static void opens(const char *path) {
    och_err_clear(&err);
    OK(och_device_open("cuda:0", NULL, &d, &err));
    HAS(d->info.runtime, path);
    och_device_release(d);
}
TEST(override_names_a_file) {
    make("any/name.so", NULL);
    make("root/usr/lib64/libcuda.so.1", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    set_under("OCHRE_CUDA_LIBRARY", "any/name.so");
    opens("any/name.so");
}
TEST(override_names_a_folder) {
    make("folder/libcuda.so.1", NULL);
    set_under("OCHRE_CUDA_LIBRARY", "folder");
    opens("folder/libcuda.so.1");
}
TEST(override_is_the_only_place) {
    make("root/usr/lib64/libcuda.so.1", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    set_under("OCHRE_CUDA_LIBRARY", "no/such.so");
    FAILS(OCH_UNAVAILABLE, och_device_open("cuda", NULL, &d, &err));
    HAS(err.message, "no/such.so");
    HAS(err.message, "OCHRE_CUDA_LIBRARY");
}
TEST(the_loaders_path_comes_first) {
    make("path/libcuda.so.1", NULL);
    make("root/usr/lib64/libcuda.so.1", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    set("LD_LIBRARY_PATH", under("path"));
    opens("path/libcuda.so.1");
}
TEST(folders_of_containers_and_of_wsl) {
    make("root/usr/lib/wsl/lib/libcuda.so.1", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    opens("wsl/lib/libcuda.so.1");
}
TEST(the_drivers_release_is_told) {
    make("folder/libcuda.so.580.12.3", NULL);
    make_link("folder/libcuda.so.1", "libcuda.so.580.12.3");
    set_under("OCHRE_CUDA_LIBRARY", "folder");
    opens("CUDA 13.0 (driver 580.12.3), ");
}
TEST(nothing_anywhere) {
    set_under("OCHRE_SYSTEM_ROOT", "root");
    FAILS(OCH_UNAVAILABLE, och_device_open("cuda", NULL, &d, &err));
    HAS(err.message, "root/usr/lib64");
    HAS(err.message, "install NVIDIA's driver");
    HAS(err.message, "--gpus all");
    HAS(err.message, "OCHRE_CUDA_LIBRARY");
    const och_attempts *a = och_cuda_lib_attempts();
    for (size_t i = 0; i < a->n; i++) CHECK(a->at[i].find == OCH_FIND_ABSENT && a->at[i].why[0]);
    CHECK(a->n >= 2);
}
TEST(a_broken_file_is_named) {
    make_file("root/usr/lib64/libcuda.so.1",
              "This is no library, and is longer than the header of one, so that nobody takes it for a file cut short.",
              0644);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    FAILS(OCH_UNAVAILABLE, och_device_open("cuda", NULL, &d, &err));
    HAS(err.message, "usr/lib64/libcuda.so.1 cannot serve: cannot be opened: invalid ELF header");
}
TEST(a_missing_call_is_named) {
    FAKE("-DNO_cuMemAlloc_v2", "-DNO_cuDevicePrimaryCtxRelease_v2", NULL);
    FAILS(OCH_UNAVAILABLE, och_device_open("cuda", NULL, &d, &err));
    HAS(err.message, "CUDA 13.0 lacks cuDevicePrimaryCtxRelease_v2;"); /* the first one of the table */
}
TEST(too_old) {
    FAKE("-DVERSION=10020", NULL);
    FAILS(OCH_UNAVAILABLE, och_device_open("cuda", NULL, &d, &err));
    HAS(err.message, "CUDA 10.2 is older than 11.0");
    HAS(err.message, "install NVIDIA's driver");
}

/* ---- why there is no device ---- */

static void none(const char *say) {
    FAILS(OCH_UNAVAILABLE, och_device_open("cuda", NULL, &d, &err));
    HAS(err.message, "shows no device");
    HAS(err.message, say);
}
TEST(a_stub) {
    FAKE("-DINIT=34", NULL);
    none("CUDA_ERROR_STUB_LIBRARY (34)");
    HAS(err.message, "it is a stub");
}
TEST(a_driver_of_another_release) {
    FAKE("-DINIT=803", NULL);
    none("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
    HAS(err.message, "restart the machine");
}
TEST(hidden_by_a_variable) {
    FAKE("-DINIT=100", NULL);
    set("CUDA_VISIBLE_DEVICES", ""); /* empty: none */
    none("CUDA_VISIBLE_DEVICES= hides devices");
}
TEST(hidden_by_the_container) {
    FAKE("-DDEVICES=0", NULL);
    set("NVIDIA_VISIBLE_DEVICES", "void");
    none("NVIDIA_VISIBLE_DEVICES=void hides devices");
}
TEST(no_nodes) {
    FAKE("-DINIT=100", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    set("NVIDIA_VISIBLE_DEVICES", "all"); /* hides none */
    none("there is no ");
    HAS(err.message, "root/dev/nvidiactl");
    HAS(err.message, "--gpus all");
}
TEST(no_permission) {
    FAKE("-DINIT=100", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    make_file("root/dev/nvidiactl", "", 0666);
    make_file("root/dev/nvidia0", "", 0400);
    CHECK(chmod(tmp, 0755) == 0);
    if (geteuid() == 0) CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    none("dev/nvidia0 may not be read and written by this user (mode 400, group ");
}
TEST(no_card) {
    FAKE("-DINIT=100", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    make_file("root/dev/nvidiactl", "", 0666);
    none("root/dev/nvidia[0-9]*: no GPU");
}
TEST(no_uvm) {
    FAKE("-DINIT=999", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    make_file("root/dev/nvidiactl", "", 0666);
    make_file("root/dev/nvidia0", "", 0666);
    none("root/dev/nvidia-uvm: load the module nvidia_uvm");
    HAS(err.message, "an error without a name (999)");
}

/* ---- which device ---- */

static void label_of(const char *name, const char *label) {
    och_err_clear(&err);
    OK(och_device_open(name, NULL, &d, &err));
    CHECK(!strcmp(d->info.label, label));
    och_device_release(d);
}
TEST(names_of_devices) {
    FAKE("-DDEVICES=3", NULL);
    label_of("cuda", "cuda:0");
    label_of("cuda:2", "cuda:2");
    label_of("cuda:sm_90", "cuda:0");
    label_of("cuda:0000:0b:00.0", "cuda:1");
    label_of("cuda:0c:00.0", "cuda:2");
    FAILS(OCH_NOTFOUND, och_device_open("cuda:sm_80", NULL, &d, &err));
    HAS(err.message, "cuda:1 (0000:0b:00.0, sm_90)");
    set("CUDA_VISIBLE_DEVICES", "0,1,2");
    FAILS(OCH_RANGE, och_device_open("cuda:3", NULL, &d, &err));
    HAS(err.message, "there are 3 devices, counted from 0; some may be hidden by CUDA_VISIBLE_DEVICES=0,1,2");
}
TEST(facts) {
    FAKE(NULL);
    OK(och_device_open("cuda", NULL, &d, &err));
    const och_dev_info *i = &d->info;
    CHECK(i->kind == OCH_DEV_DISCRETE && i->wave_size == 32 && i->n_compute_units == 132 && i->lds_bytes == 232448);
    CHECK(i->memory_bytes == 1ul << 30 && !i->unified && i->managed && i->graphs && i->bandwidth_gbps == 4800);
    CHECK(!strcmp(i->pci, "0000:0a:00.0") && !strcmp(i->vendor, "NVIDIA"));
    CHECK(CALL(int, fake_retained, (int))(0) == 0); /* looking made no context */
    och_buf b = get(1000, OCH_MEM_DEVICE);
    CHECK(CALL(int, fake_retained, (int))(0) == 1);
    och_buf_free(&b);
    int (*retained)(int) = CALL(int, fake_retained, (int));
    och_device_release(d);
    CHECK(retained(0) == 0);
}
TEST(a_board_of_no_row) {
    FAKE("-DNAME=\"NVIDIA of no row\"", NULL);
    OK(och_device_open("cuda", NULL, &d, &err));
    CHECK(d->info.bandwidth_gbps > 4916 && d->info.bandwidth_gbps < 4917); /* two edges of 3201 MHz, 6144 bits */
}
TEST(targets) {
    char name[64];
    static const struct {
        int major, minor;
        const char *target;
    } known[] = {{8, 0, "sm_80"}, {8, 6, "sm_80"}, {8, 7, "sm_80"}, {8, 9, "sm_89"}, {9, 0, "sm_90"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        OK(och_cuda_target(known[i].major, known[i].minor, name, sizeof name, &err));
        CHECK(!strcmp(name, known[i].target));
    }
    FAILS(OCH_NOTFOUND, och_cuda_target(7, 5, name, sizeof name, &err));
    FAKE("-DCAPABILITY=120", NULL);
    FAILS(OCH_NOTFOUND, och_device_open("cuda:0", NULL, &d, &err));
    HAS(err.message, "cuda:0 (NVIDIA H200): compute capability 12.0");
    HAS(err.message, "sm_80, sm_89, sm_90");
}
TEST(auto_takes_it) {
    FAKE("-DDEVICES=2", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root"); /* no HIP */
    OK(och_device_open("auto", &(och_dev_options){.require_gpu = true}, &d, &err));
    CHECK(!strcmp(d->info.label, "cuda:0"));
}
TEST(auto_says_why_not) {
    FAKE("-DINIT=803", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    FAILS(OCH_UNAVAILABLE, och_device_open("auto", &(och_dev_options){.require_gpu = true}, &d, &err));
    HAS(err.message, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
    HAS(err.message, "no libamdhip64");
}

/* ---- memory ---- */

TEST(memory) {
    FAKE(NULL);
    uint64_t n_free, n_total;
    open_with_queue("cuda");
    och_buf b = get(300ul << 20, OCH_MEM_DEVICE), p = get(5000, OCH_MEM_PINNED), c;
    OK(d->vtable->memory(d, &n_free, &n_total, &err));
    CHECK(n_total == 1ul << 30 && n_free == 724ul << 20);
    FAILS(OCH_NOMEM, och_buf_alloc(d, 800ul << 20, OCH_MEM_DEVICE, &c, &err));
    HAS(err.message, "838860800 bytes of device memory asked for, 759169024 free of 1073741824");
    fail_next("cuMemHostAlloc", 2);
    FAILS(OCH_NOMEM, och_buf_alloc(d, 100, OCH_MEM_PINNED, &c, &err));
    HAS(err.message, "100 bytes of pinned memory");
    fail_next("cuMemHostGetDevicePointer_v2", 1);
    FAILS(OCH_DEVICE, och_buf_alloc(d, 100, OCH_MEM_PINNED, &c, &err));
    fail_next("cuMemAlloc_v2", 1);
    FAILS(OCH_DEVICE, och_buf_alloc(d, 100, OCH_MEM_DEVICE, &c, &err));
    HAS(err.message, "cuMemAlloc of 100 bytes: CUDA_ERROR_INVALID_VALUE (1)");
    CHECK(CALL(int, fake_blocks, (void))() == 2);
    och_buf_free(&b);
    och_buf_free(&p);
    CHECK(CALL(int, fake_blocks, (void))() == 0);
    close_device();
}

/* ---- faults ---- */

TEST(a_fault_loses_the_device) {
    FAKE(NULL);
    open_with_queue("cuda");
    och_module *m = module();
    och_function *f_put = function(m, "put"), *f_twice = function(m, "twice");
    och_buf b = get(400, OCH_MEM_DEVICE), c;
    och_queue *other;
    och_event *e;
    uint8_t byte = 0;
    uint64_t n;
    OK(d->vtable->queue_create(d, &other, &err));
    OK(d->vtable->event_create(d, &e, &err));
    OK(put(f_put, &b, 100, 0));
    OK(d->vtable->synchronise(q, &err));
    OK(twice(f_twice, &b, 100));
    OK(give(function(m, "fault"), NULL, 0));
    FAILS(OCH_DEVICE, d->vtable->synchronise(q, &err));
    HAS(err.message, "device cuda:0: synchronise: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered");
    HAS(err.message, "one of 2 kernels launched since the queue was last done, oldest first: twice, fault (OCHRE_CUDA_SYNC=1");
    CHECK(err.native_code == 700);
    /* whatever comes next says what happened, and reaches no driver */
    fail_next("cuMemcpyHtoDAsync_v2", 999);
    FAILS(OCH_DEVICE, d->vtable->copy_to_device(q, b.addr, &byte, 1, &err));
    HAS(err.message, "copy to device: the device is lost: synchronise: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
    HAS(err.message, "twice, fault");
    FAILS(OCH_DEVICE, och_buf_alloc(d, 100, OCH_MEM_DEVICE, &c, &err));
    HAS(err.message, "allocation: the device is lost");
    FAILS(OCH_DEVICE, d->vtable->memory(d, &n, &n, &err));
    FAILS(OCH_DEVICE, d->vtable->fill(other, b.addr, 0, 1, &err));
    FAILS(OCH_DEVICE, put(f_put, &b, 1, 0));
    HAS(err.message, "launch: the device is lost");
    FAILS(OCH_DEVICE, d->vtable->event_record(q, e, &err));
    FAILS(OCH_DEVICE, d->vtable->capture_begin(q, &err));
    FAILS(OCH_DEVICE, d->vtable->synchronise(other, &err));
    och_buf_free(&b); /* all of this is still allowed */
    d->vtable->event_destroy(e);
    d->vtable->module_unload(m);
    d->vtable->queue_destroy(other);
    close_device();
    CHECK(!logged[0]); /* it was told */
}
TEST(in_synchronous_mode_the_launch_tells) {
    FAKE(NULL);
    set("OCHRE_CUDA_SYNC", "1");
    open_with_queue("cuda");
    och_module *m = module();
    och_function *f_put = function(m, "put");
    och_buf b = get(400, OCH_MEM_DEVICE);
    OK(put(f_put, &b, 100, 0));
    FAILS(OCH_DEVICE, give(function(m, "fault"), NULL, 0));
    HAS(err.message, "caused by kernel fault");
}
TEST(a_fault_in_a_graph) {
    FAKE(NULL);
    open_with_queue("cuda");
    och_module *m = module();
    och_graph *g;
    och_function *f = function(m, "fault");
    OK(d->vtable->capture_begin(q, &err));
    OK(give(f, NULL, 0));
    OK(d->vtable->capture_end(q, &g, &err));
    OK(d->vtable->synchronise(q, &err)); /* recorded, not run */
    och_status st = d->vtable->graph_replay(q, g, &err);
    if (st == OCH_OK) st = d->vtable->synchronise(q, &err);
    CHECK(st == OCH_DEVICE);
    HAS(err.message, "CUDA_ERROR_ILLEGAL_ADDRESS");
    FAILS(OCH_DEVICE, d->vtable->graph_destroy(g, &err)); /* and it is gone */
    HAS(err.message, "the device is lost");
}
TEST(a_fault_nobody_asked_for_is_warned_of) {
    FAKE(NULL);
    open_with_queue("cuda");
    OK(give(function(module(), "fault"), NULL, 0));
    close_device();
    HAS(logged, "caused by kernel fault");
}
TEST(other_errors_lose_nothing) {
    FAKE(NULL);
    open_with_queue("cuda");
    fail_next("cuStreamSynchronize", 1);
    FAILS(OCH_DEVICE, d->vtable->synchronise(q, &err));
    OK(d->vtable->synchronise(q, &err));
    fail_next("cuDeviceGetName", 1);
    och_device *again;
    FAILS(OCH_DEVICE, och_device_open("cuda", NULL, &again, &err));
    HAS(err.message, "cuDeviceGetName: CUDA_ERROR_INVALID_VALUE (1)");
    close_device();
    OK(och_device_open("cuda", NULL, &d, &err));
    fail_next("cuDevicePrimaryCtxRetain", 2); /* no memory for a context: it is tried again */
    FAILS(OCH_NOMEM, d->vtable->queue_create(d, &q, &err));
    HAS(err.message, "queue create: cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2)");
    OK(d->vtable->queue_create(d, &q, &err));
    close_device();
}

/* ---- code ---- */

TEST(code_that_is_refused) {
    FAKE(NULL);
    open_with_queue("cuda");
    och_module *m = (och_module *)1;
    static const char bad[] = "this is no PTX";
    FAILS(OCH_CORRUPT, d->vtable->module_load(d, bad, sizeof bad - 1, &m, &err));
    CHECK(!m);
    HAS(err.message, "CUDA 13.0 refused PTX for sm_90: ptxas application ptx input, line 3; fatal   : nonsense: "
                     "CUDA_ERROR_INVALID_PTX (218)");
    FAILS(OCH_CORRUPT, d->vtable->module_load(d, "a\0b", 3, &m, &err));
    unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    elf[18] = 224; /* AMD */
    FAILS(OCH_UNSUPPORTED, d->vtable->module_load(d, elf, sizeof elf, &m, &err));
    HAS(err.message, "is an ELF file of another machine: expected a cubin or PTX for sm_90");
    elf[18] = 190;
    elf[40] = 64, elf[58] = 64, elf[60] = 3; /* three sections behind the end */
    FAILS(OCH_CORRUPT, d->vtable->module_load(d, elf, sizeof elf, &m, &err));
    HAS(err.message, "cut short");
    FAILS(OCH_CORRUPT, d->vtable->module_load(d, elf, 20, &m, &err));
    och_function *f;
    m = module();
    FAILS(OCH_NOTFOUND, d->vtable->module_function(m, "none", &f, &err));
    HAS(err.message, "kernel none in PTX");
    d->vtable->module_unload(m);
    close_device();
}
TEST(launches_that_cannot_be) {
    FAKE(NULL);
    open_with_queue("cuda");
    och_module *m = module();
    och_function *hungry = function(m, "hungry"), *nothing = function(m, "nothing");
    FAILS(OCH_RANGE, d->vtable->launch(q, hungry, &(och_launch){{1, 1, 1}, {512, 1, 1}, 0, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    HAS(err.message, "kernel hungry: a group of 512 work-items, at most 256 (255 registers a work-item, 65536 a group)");
    OK(d->vtable->launch(q, nothing, &(och_launch){{1, 1, 1}, {512, 1, 1}, 0, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    FAILS(OCH_RANGE, d->vtable->launch(q, nothing, &(och_launch){{1, 65536, 1}, {1, 1, 1}, 0, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    HAS(err.message, "dimension 1 has 65536 groups");
    FAILS(OCH_RANGE, d->vtable->launch(q, nothing, &(och_launch){{1, 1, 1}, {1, 1, 128}, 0, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    fail_next("cuLaunchKernel", 701);
    FAILS(OCH_DEVICE, d->vtable->launch(q, hungry, &(och_launch){{1, 2, 3}, {32, 1, 1}, 0, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    HAS(err.message, "launch of kernel hungry, grid 1 x 2 x 3 of groups of 32 x 1 x 1");
    HAS(err.message, "255 registers and 1024 bytes of local memory a work-item: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)");
    /* more shared memory than any kernel may have is asked for first: the fake launches nothing without */
    OK(d->vtable->launch(q, nothing, &(och_launch){{1, 1, 1}, {1, 1, 1}, 49152, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    OK(d->vtable->launch(q, nothing, &(och_launch){{1, 1, 1}, {1, 1, 1}, 232448, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    FAILS(OCH_RANGE, d->vtable->launch(q, nothing, &(och_launch){{1, 1, 1}, {1, 1, 1}, 232449, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    fail_next("cuFuncSetAttribute", 1);
    FAILS(OCH_DEVICE, d->vtable->launch(q, hungry, &(och_launch){{1, 1, 1}, {1, 1, 1}, 60000, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    HAS(err.message, "kernel hungry: asking for 232448 bytes of shared memory");
    d->vtable->module_unload(m);
    close_device();
}
/* Unless it was asked not to, where the launch says so and where the driver has the call; recorded launches too. */
static void launch_twice(const char *overlap, unsigned early) {
    if (overlap) setenv("OCHRE_CUDA_OVERLAP", overlap, 1);
    open_with_queue("cuda");
    unsetenv("OCHRE_CUDA_OVERLAP");
    och_module *m = module();
    och_function *nothing = function(m, "nothing");
    och_graph *g;
    unsigned before = early ? CALL(unsigned, fake_early, (void))() : 0;
    OK(d->vtable->launch(q, nothing, &(och_launch){{1, 1, 1}, {32, 1, 1}, 0, NULL, 0, true, OCH_LDS_BY_DRIVER}, &err));
    OK(d->vtable->launch(q, nothing, &(och_launch){{1, 1, 1}, {32, 1, 1}, 0, NULL, 0, false, OCH_LDS_BY_DRIVER}, &err));
    OK(d->vtable->capture_begin(q, &err));
    OK(d->vtable->launch(q, nothing, &(och_launch){{1, 1, 1}, {32, 1, 1}, 0, NULL, 0, true, OCH_LDS_BY_DRIVER}, &err));
    OK(d->vtable->capture_end(q, &g, &err));
    OK(d->vtable->graph_replay(q, g, &err));
    OK(d->vtable->synchronise(q, &err));
    OK(d->vtable->graph_destroy(g, &err));
    if (early) CHECK(CALL(unsigned, fake_early, (void))() - before == early);
    d->vtable->module_unload(m);
    close_device();
}
TEST(launches_that_start_early) {
    FAKE(NULL);
    launch_twice("1", 2);
    launch_twice(NULL, 2);
    unsigned before = CALL(unsigned, fake_early, (void))();
    launch_twice("0", 0);
    CHECK(CALL(unsigned, fake_early, (void))() == before);
}
/* Where it was asked to: a launch for itself, and others that do as the one before; and where the driver knows of it. */
static unsigned roomy_launches(const char *room) {
    static const och_lds_share shares[] = {OCH_LDS_AS_BEFORE, OCH_LDS_MOST, OCH_LDS_AS_BEFORE, OCH_LDS_AS_BEFORE, OCH_LDS_BY_DRIVER, OCH_LDS_AS_BEFORE};
    if (room) setenv("OCHRE_CUDA_ROOM", room, 1);
    open_with_queue("cuda");
    unsetenv("OCHRE_CUDA_ROOM");
    och_module *m = module();
    och_function *nothing = function(m, "nothing");
    unsigned before = CALL(unsigned, fake_roomy, (void))();
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        OK(d->vtable->launch(q, nothing, &(och_launch){{1, 1, 1}, {32, 1, 1}, 0, NULL, 0, true, shares[i]}, &err));
    OK(d->vtable->synchronise(q, &err));
    unsigned after = CALL(unsigned, fake_roomy, (void))();
    d->vtable->module_unload(m);
    close_device();
    return after - before;
}
TEST(launches_that_ask_for_shared_memory) {
    FAKE(NULL);
    CHECK(roomy_launches("1") == 3);
    CHECK(roomy_launches(NULL) == 0);
    CHECK(roomy_launches("0") == 0);
}
TEST(a_driver_that_shares_out_by_itself) {
    FAKE("-DVERSION=12070", NULL);
    CHECK(roomy_launches("1") == 0);
}
TEST(a_driver_that_starts_nothing_early) {
    FAKE("-DNO_cuLaunchKernelEx", NULL);
    launch_twice("1", 0);
}
TEST(a_driver_that_records_nothing_early) {
    FAKE("-DVERSION=12020", NULL);
    launch_twice("1", 0);
    CHECK(CALL(unsigned, fake_early, (void))() == 0);
}

/* ---- graphs ---- */

TEST(what_cannot_be_recorded) {
    FAKE("-DDEVICES=2", NULL);
    open_with_queue("cuda");
    och_module *m = module(), *m2;
    och_function *f_put = function(m, "put");
    och_buf b = get(400, OCH_MEM_DEVICE), c;
    och_event *e, *e2;
    och_queue *q2;
    och_graph *g, *g2;
    och_function *f;
    och_device *other;
    OK(och_device_open("cuda:1", NULL, &other, &err));
    och_buf far;
    OK(och_buf_alloc(other, 400, OCH_MEM_DEVICE, &far, &err));
    bool done;
    char pageable[400];
    OK(d->vtable->event_create(d, &e, &err));
    OK(d->vtable->event_record(q, e, &err));
    OK(put(f_put, &b, 100, 0));
    OK(d->vtable->capture_begin(q, &err));
    OK(d->vtable->capture_end(q, &g, &err));
    for (int i = 0;; i++) {
        OK(d->vtable->capture_begin(q, &err));
        OK(put(f_put, &b, 100, 0));
        och_err_clear(&err);
        const char *call = NULL;
        och_status st = OCH_OK;
        switch (i) {
            case 0: call = "allocation", st = och_buf_alloc(d, 100, OCH_MEM_DEVICE, &c, &err); break;
            case 1: call = "allocation", st = och_buf_alloc(d, 100, OCH_MEM_PINNED, &c, &err); break;
            case 2: call = "queue create", st = d->vtable->queue_create(d, &q2, &err); break;
            case 3: call = "synchronise", st = d->vtable->synchronise(q, &err); break;
            case 4:
                call = "copy to device of pageable memory",
                st = d->vtable->copy_to_device(q, b.addr, pageable, 400, &err);
                break;
            case 5:
                call = "copy to host of pageable memory", st = d->vtable->copy_to_host(q, pageable, b.addr, 400, &err);
                break;
            case 6: call = "peer copy", st = d->vtable->copy_peer(q, d, b.addr, other, far.addr, 400, &err); break;
            case 7: call = "event create", st = d->vtable->event_create(d, &e2, &err); break;
            case 8: call = "event record", st = d->vtable->event_record(q, e, &err); break;
            case 9: call = "event query", st = d->vtable->event_query(e, &done, &err); break;
            case 10: call = "event wait", st = d->vtable->event_wait_host(e, &err); break;
            case 11: call = "event wait on a queue", st = d->vtable->event_wait_queue(q, e, &err); break;
            case 12: call = "module load", st = d->vtable->module_load(d, code, sizeof code - 1, &m2, &err); break;
            case 13: call = "module function", st = d->vtable->module_function(m, "twice", &f, &err); break;
            case 14: call = "graph capture begin", st = d->vtable->capture_begin(q, &err); break;
            case 15: call = "graph replay", st = d->vtable->graph_replay(q, g, &err); break;
            case 16: call = "all-reduce", st = d->vtable->all_reduce_f32(&q, &b.addr, 1, 100, OCH_REDUCE_SUM, &err); break;
            default: break;
        }
        if (!call) break;
        CHECK(st == OCH_INVALID);
        HAS(err.message, call);
        FAILS(OCH_INVALID, d->vtable->capture_end(q, &g2, &err));
        HAS(err.message, call);
        OK(put(f_put, &b, 100, 1)); /* an ordinary queue again */
        OK(d->vtable->synchronise(q, &err));
    }
    OK(d->vtable->capture_end(q, &g2, &err));
    CHECK(refused() == 0); /* the driver was asked for nothing that a capture forbids */
    OK(d->vtable->graph_destroy(g2, &err));
    OK(d->vtable->graph_destroy(g, &err));
    d->vtable->event_destroy(e);
    och_buf_free(&b);
    och_buf_free(&far);
    d->vtable->module_unload(m);
    och_device_release(other);
    close_device();
}
TEST(replays_read_what_memory_holds_then) {
    FAKE(NULL);
    open_with_queue("cuda");
    och_module *m = module();
    och_buf b = get(400, OCH_MEM_DEVICE), p = get(400, OCH_MEM_PINNED), r = get(400, OCH_MEM_PINNED);
    och_graph *g;
    och_queue *q2;
    uint32_t *in = p.host, *out = r.host;
    och_function *f_twice = function(m, "twice");
    memset(out, 0, 400);
    OK(d->vtable->capture_begin(q, &err));
    OK(d->vtable->copy_to_device(q, b.addr, in, 400, &err));
    OK(twice(f_twice, &b, 100));
    OK(d->vtable->copy_to_host(q, out, b.addr, 400, &err));
    OK(d->vtable->capture_end(q, &g, &err));
    CHECK(out[99] == 0);
    OK(d->vtable->queue_create(d, &q2, &err));
    for (uint32_t round = 1; round < 5; round++) {
        for (uint32_t i = 0; i < 100; i++) in[i] = i * round;
        OK(d->vtable->graph_replay(round & 1 ? q : q2, g, &err));
        OK(d->vtable->synchronise(round & 1 ? q : q2, &err));
        for (uint32_t i = 0; i < 100; i++) CHECK(out[i] == 2 * i * round);
    }
    OK(d->vtable->graph_destroy(g, &err));
    fail_next("cuStreamEndCapture", 901);
    OK(d->vtable->capture_begin(q, &err));
    FAILS(OCH_DEVICE, d->vtable->capture_end(q, &g, &err));
    HAS(err.message, "graph capture end: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)");
    fail_next("cuGraphInstantiateWithFlags", 2);
    OK(d->vtable->capture_begin(q, &err));
    FAILS(OCH_NOMEM, d->vtable->capture_end(q, &g, &err));
    fail_next("cuEventCreate", 2);
    OK(d->vtable->capture_begin(q, &err));
    FAILS(OCH_NOMEM, d->vtable->capture_end(q, &g, &err));
    CHECK(!g);
    d->vtable->queue_destroy(q2);
    och_buf_free(&b), och_buf_free(&p), och_buf_free(&r);
    d->vtable->module_unload(m);
    close_device();
}
TEST(a_driver_without_graphs) {
    FAKE("-DNO_cuStreamBeginCapture_v2", NULL);
    open_with_queue("cuda");
    CHECK(!d->info.graphs);
    FAILS(OCH_UNSUPPORTED, d->vtable->capture_begin(q, &err));
    HAS(err.message, "CUDA 13.0");
    HAS(err.message, "lacks cuStreamBeginCapture_v2");
    cuda_lib *lib;
    och_strbuf missing = {0};
    OK(och_cuda_lib(&lib, &err));
    CHECK(och_cuda_lib_missing(lib, &missing) == 1);
    HAS(och_strbuf_str(&missing), "cuStreamBeginCapture_v2 (CUDA 10.1)");
    och_strbuf_deinit(&missing);
    close_device();
}

/* ---- two devices ---- */

static void between_two(bool peers) {
    och_device *o;
    och_queue *oq;
    och_buf theirs;
    float host[64], found[64];
    open_with_queue("cuda:0");
    OK(och_device_open("cuda:1", NULL, &o, &err));
    OK(o->vtable->queue_create(o, &oq, &err));
    OK(och_buf_alloc(o, sizeof host, OCH_MEM_DEVICE, &theirs, &err));
    och_buf mine = get(sizeof host, OCH_MEM_DEVICE);
    for (int i = 0; i < 64; i++) host[i] = (float)i;
    OK(d->vtable->copy_to_device(q, mine.addr, host, sizeof host, &err));
    OK(d->vtable->copy_peer(q, o, theirs.addr, d, mine.addr, sizeof host, &err));
    OK(d->vtable->synchronise(q, &err));
    OK(o->vtable->copy_to_host(oq, found, theirs.addr, sizeof found, &err));
    OK(o->vtable->synchronise(oq, &err));
    CHECK(!memcmp(host, found, sizeof host));
    if (peers) CHECK(CALL(unsigned, fake_peers, (int))(0) == 2 && CALL(unsigned, fake_peers, (int))(1) == 1);
    och_queue *const queues[] = {q, oq};
    const och_dev_addr at[] = {mine.addr, theirs.addr};
    OK(d->vtable->all_reduce_f32(queues, at, 2, 64, OCH_REDUCE_SUM, &err));
    for (int k = 0; k < 2; k++) {
        OK(queues[k]->device->vtable->copy_to_host(queues[k], found, at[k], sizeof found, &err));
        OK(queues[k]->device->vtable->synchronise(queues[k], &err));
        for (int i = 0; i < 64; i++) CHECK(found[i] == 2 * host[i]);
    }
    och_event *e; /* of the other device */
    OK(o->vtable->event_create(o, &e, &err));
    FAILS(OCH_INVALID, d->vtable->event_record(q, e, &err));
    HAS(err.message, "the event belongs to device cuda:1");
    och_module *m;
    OK(o->vtable->module_load(o, code, sizeof code - 1, &m, &err));
    och_function *f;
    OK(o->vtable->module_function(m, "nothing", &f, &err));
    FAILS(OCH_INVALID, give(f, NULL, 0));
    HAS(err.message, "it was loaded on device cuda:1");
    o->vtable->module_unload(m);
    o->vtable->event_destroy(e);
    och_buf_free(&theirs), och_buf_free(&mine);
    o->vtable->queue_destroy(oq);
    och_device_release(o);
    close_device();
}
TEST(two_devices) {
    FAKE("-DDEVICES=2", NULL);
    between_two(true);
}
TEST(two_devices_without_peer_copies) {
    FAKE("-DDEVICES=2", "-DNO_cuMemcpyPeerAsync", NULL);
    between_two(false);
}

/* ---- the program ---- */

/* What `NAME WORD` of the build prints, its exit status and how long it took, in milliseconds. */
static const char *program_of(const char *at, const char *word, int *out_status, long *out_ms) {
    static char bytes[32768];
    char name[512];
    snprintf(name, sizeof name, OCHRE_BUILD_DIR "/%s", at);
    if (access(name, X_OK) != 0) _exit(SKIPPED);
    char *argv[] = {name, (char *)(uintptr_t)word, NULL};
    struct timespec a, b;
    pid_t pid;
    int status;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, under("out"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    clock_gettime(CLOCK_MONOTONIC, &a);
    CHECK(posix_spawn(&pid, name, &files, NULL, argv, environ) == 0 && waitpid(pid, &status, 0) == pid);
    clock_gettime(CLOCK_MONOTONIC, &b);
    *out_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    *out_ms = (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
    FILE *f = fopen(under("out"), "r");
    size_t n = f ? fread(bytes, 1, sizeof bytes - 1, f) : 0;
    bytes[n] = 0;
    if (f) fclose(f);
    return bytes;
}
static const char *program(const char *word, int *out_status, long *out_ms) {
    return program_of("ochre", word, out_status, out_ms);
}
/* A finalizer has a second. A loaded machine may add to that, but not each time. */
static void ends_well(void) {
    int status;
    long ms = 5000;
    set("TSAN_OPTIONS", "atexit_sleep_ms=0"); /* that sanitizer adds a second of its own to every end */
    set_under("OCHRE_SYSTEM_ROOT", "root");
    for (int i = 0; i < 5 && ms >= 5000; i++) {
        const char *text_ = program("devices", &status, &ms);
        HAS(text_, "cuda:0");
        CHECK(status == 0);
    }
    CHECK(ms < 5000);
}
TEST(a_finalizer_that_hangs) {
    FAKE("-DEND=for(;;)sleep(1)", NULL);
    ends_well();
}
TEST(a_finalizer_that_crashes) {
    FAKE("-DEND=*(volatile int *)8 = 1", NULL);
    ends_well();
}
TEST(doctor_finds_it) {
    int status;
    long ms;
    FAKE(NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    set_under("OCHRE_CACHE_DIR", "cache");
    const char *text_ = program("doctor", &status, &ms);
    CHECK(status == 0);
    HAS(text_, "CUDA 13.0 (OCHRE_CUDA_LIBRARY)");
    HAS(text_, "NVIDIA H200");
    HAS(text_, "No problem was found."); /* that there is no HIP is none */
}
TEST(doctor_says_why_not) {
    int status;
    long ms;
    FAKE("-DINIT=803", NULL);
    set_under("OCHRE_SYSTEM_ROOT", "root");
    set_under("OCHRE_CACHE_DIR", "cache");
    const char *text_ = program("doctor", &status, &ms);
    HAS(text_, "No HIP library serves");
    HAS(text_, "shows no device: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
    HAS(text_, "restart the machine");
}

/* Kernels of one's own: what the public interface reads of code that is not AMD's. */
TEST(programs) {
    FAKE(NULL);
    set("OCHRE_JIT_COMPILER", "clang"); /* PTX */
    set_under("OCHRE_CACHE_DIR", "cache");
    static const char of_cuda[] = "extern \"C\" __global__ void mix(float *y, char c, double a, int n) { if (n > c) *y += (float)a; }\n";
    ochre_device *od;
    ochre_program *p;
    ochre_kernel *k;
    ochre_error e = {0};
    CHECK(ochre_device_open("cuda:0", &od, &e) == OCHRE_OK);
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    o.language = OCHRE_LANGUAGE_CUDA;
    ochre_status st = ochre_program_compile(od, of_cuda, strlen(of_cuda), &o, &p, &e);
    if (st == OCHRE_UNAVAILABLE || st == OCHRE_UNSUPPORTED) _exit(SKIPPED); /* no clang that knows the target */
    if (st != OCHRE_OK) fprintf(stderr, "%s\n", e.message), _exit(2);
    CHECK(ochre_program_kernel(p, "mix", &k, &e) == OCHRE_OK);
    static const size_t sizes[] = {8, 1, 8, 4}, offsets[] = {0, 8, 16, 24};
    CHECK(ochre_kernel_argument_count(k) == 4);
    for (size_t i = 0; i < 4; i++) {
        ochre_argument_info info;
        CHECK(ochre_kernel_argument(k, i, &info, &e) == OCHRE_OK);
        CHECK(info.size_bytes == sizes[i] && info.offset_bytes == offsets[i]);
    }
    ochre_program_destroy(p);
    ochre_device_close(od);
}

TEST(the_seams_suite) {
    int status;
    long ms;
    FAKE(NULL);
    const char *text_ = program_of("tests/conform_test_seam", "cuda", &status, &ms);
    if (status) fprintf(stderr, "%s", text_), _exit(2);
}

static int setup(void **state) {
    (void)state;
    unsetenv("OCHRE_CUDA_LIBRARY");
    unsetenv("OCHRE_CUDA_SYNC");
    unsetenv("NVIDIA_VISIBLE_DEVICES");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(override_names_a_file),
        cmocka_unit_test(override_names_a_folder),
        cmocka_unit_test(override_is_the_only_place),
        cmocka_unit_test(the_loaders_path_comes_first),
        cmocka_unit_test(folders_of_containers_and_of_wsl),
        cmocka_unit_test(the_drivers_release_is_told),
        cmocka_unit_test(nothing_anywhere),
        cmocka_unit_test(a_broken_file_is_named),
        cmocka_unit_test(a_missing_call_is_named),
        cmocka_unit_test(too_old),
        cmocka_unit_test(a_stub),
        cmocka_unit_test(a_driver_of_another_release),
        cmocka_unit_test(hidden_by_a_variable),
        cmocka_unit_test(hidden_by_the_container),
        cmocka_unit_test(no_nodes),
        cmocka_unit_test(no_permission),
        cmocka_unit_test(no_card),
        cmocka_unit_test(no_uvm),
        cmocka_unit_test(names_of_devices),
        cmocka_unit_test(facts),
        cmocka_unit_test(a_board_of_no_row),
        cmocka_unit_test(targets),
        cmocka_unit_test(auto_takes_it),
        cmocka_unit_test(auto_says_why_not),
        cmocka_unit_test(memory),
        cmocka_unit_test(a_fault_loses_the_device),
        cmocka_unit_test(in_synchronous_mode_the_launch_tells),
        cmocka_unit_test(a_fault_in_a_graph),
        cmocka_unit_test(a_fault_nobody_asked_for_is_warned_of),
        cmocka_unit_test(other_errors_lose_nothing),
        cmocka_unit_test(code_that_is_refused),
        cmocka_unit_test(launches_that_cannot_be), cmocka_unit_test(launches_that_start_early), cmocka_unit_test(launches_that_ask_for_shared_memory),
        cmocka_unit_test(a_driver_that_shares_out_by_itself), cmocka_unit_test(a_driver_that_starts_nothing_early),
        cmocka_unit_test(a_driver_that_records_nothing_early),
        cmocka_unit_test(what_cannot_be_recorded),
        cmocka_unit_test(replays_read_what_memory_holds_then),
        cmocka_unit_test(a_driver_without_graphs),
        cmocka_unit_test(two_devices),
        cmocka_unit_test(two_devices_without_peer_copies),
        cmocka_unit_test(a_finalizer_that_hangs),
        cmocka_unit_test(a_finalizer_that_crashes),
        cmocka_unit_test(doctor_finds_it),
        cmocka_unit_test(doctor_says_why_not),
        cmocka_unit_test(programs),
        cmocka_unit_test(the_seams_suite),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
