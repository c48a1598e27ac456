/* Which library the HIP backend opens, what it asks of it, what it says where there is none or no device, and how the program
 * ends. */
#include "hip/backend.h"

/* ---- where the library is looked for ---- */

/* hip:0 comes from this file. */
static void opens(const char *path) {
    och_err_clear(&err);
    OK(och_device_open("hip:0", NULL, &d, &err));
    HAS(d->info.runtime, path);
    och_device_release(d);
}

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
    const och_attempts *a = och_hip_lib_attempts();
    bool opt = false, debian = false;
    for (size_t i = 0; i < a->n; i++) {
        CHECK(a->at[i].find == OCH_FIND_ABSENT && a->at[i].why[0]);
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
    CHECK(och_hip_lib_attempts()->at[0].find == OCH_FIND_BROKEN);
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

/* A finalizer has a second. A loaded machine may add to that, but not each time. */
static void ends_well(const char *device) {
    char program[] = OCHRE_BUILD_DIR "/ochre", command[] = "devices";
    char *argv[] = {program, command, NULL};
    long ms = 5000;
    set("TSAN_OPTIONS", "atexit_sleep_ms=0"); /* that sanitizer adds a second of its own to every end */
    for (int i = 0; i < 5 && ms >= 5000; i++) {
        CHECK(run_program(argv, &ms) == 0);
        CHECK(out_has(device)); /* all that was said has arrived */
    }
    CHECK(ms < 5000);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(override_names_a_file),
        cmocka_unit_test(override_names_a_folder),
        cmocka_unit_test(override_is_the_only_place),
        cmocka_unit_test(rocm_path_comes_before_packages),
        cmocka_unit_test(the_loaders_path_comes_before_rocm_path),
        cmocka_unit_test(therock_packages_come_before_wheels),
        cmocka_unit_test(a_wheel_of_the_user),
        cmocka_unit_test(packages_of_the_system),
        cmocka_unit_test(newest_rocm_of_the_distribution),
        cmocka_unit_test(folder_of_debian),
        cmocka_unit_test(nothing_anywhere),
        cmocka_unit_test(a_broken_file_is_passed_over),
        cmocka_unit_test(a_broken_file_alone_is_named),
        cmocka_unit_test(too_old),
        cmocka_unit_test(a_missing_call_is_named),
        cmocka_unit_test(the_structure_is_the_releases),
        cmocka_unit_test(the_new_structure),
        cmocka_unit_test(the_new_structure_is_missing),
        cmocka_unit_test(all_of_the_library_api),
        cmocka_unit_test(none_of_the_library_api),
        cmocka_unit_test(three_of_the_library_api),
        cmocka_unit_test(five_of_the_library_api),
        cmocka_unit_test(no_device_nodes),
        cmocka_unit_test(no_permission_on_kfd),
        cmocka_unit_test(no_permission_on_render_nodes),
        cmocka_unit_test(nodes_that_may_be_used),
        cmocka_unit_test(a_finalizer_that_hangs),
        cmocka_unit_test(a_finalizer_that_crashes),
        cmocka_unit_test(a_finalizer_that_aborts),
        cmocka_unit_test(a_finalizer_of_another_kind_that_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
