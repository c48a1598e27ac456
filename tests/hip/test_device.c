#include "support.h"

TEST(default_board_is_described, "", NULL) {
    int n = 0, v = 0;
    OK(H(hipInit)(0));
    OK(H(hipGetDeviceCount)(&n));
    CHECK(n == 1);
    hipDeviceProp_tR0600 p;
    OK(H(hipGetDevicePropertiesR0600)(&p, 0));
    CHECK(!strcmp(p.gcnArchName, "gfx1100") && p.warpSize == 32 && p.multiProcessorCount == 48 && p.major == 11 &&
          p.minor == 0);
    CHECK(p.totalGlobalMem == 24ull << 30 && p.sharedMemPerBlock == 65536 && p.maxThreadsPerBlock == 1024 && !p.integrated);
    hipDeviceProp_t old;
    OK(H(hipGetDeviceProperties)(&old, 0));
    CHECK(!strcmp(old.gcnArchName, "gfx1100") && old.gcnArch == 1100 && old.multiProcessorCount == 48 &&
          old.memoryBusWidth == 384);
    OK(H(hipDeviceGetAttribute)(&v, hipDeviceAttributeWarpSize, 0));
    CHECK(v == 32);
    GIVES(hipErrorInvalidDevice, H(hipDeviceGetAttribute)(&v, hipDeviceAttributeWarpSize, 1));
    GIVES(hipErrorInvalidValue, H(hipDeviceGetAttribute)(&v, (hipDeviceAttribute_t)7777, 0));
    GIVES(hipErrorInvalidDevice, H(hipSetDevice)(1));
    char name[64], pci[32];
    OK(H(hipDeviceGetName)(name, sizeof name, 0));
    CHECK(!strcmp(name, "Radeon RX 7900 XTX"));
    OK(H(hipDeviceGetPCIBusId)(pci, sizeof pci, 0));
    int by_pci = 7;
    OK(H(hipDeviceGetByPCIBusId)(&by_pci, pci));
    CHECK(by_pci == 0);
}

TEST(several_boards, "OCHRE_SIM_BOARD=gfx1100x2+gfx1103+gfx942", NULL) {
    int n = 0;
    OK(H(hipGetDeviceCount)(&n));
    CHECK(n == 4);
    static const char *const names[] = {"gfx1100", "gfx1100", "gfx1103", "gfx942:sramecc+:xnack-"};
    for (int i = 0; i < n; i++) {
        hipDeviceProp_tR0600 p;
        OK(H(hipGetDevicePropertiesR0600)(&p, i));
        CHECK(!strcmp(p.gcnArchName, names[i]));
        CHECK(p.integrated == (i == 2));
    }
    int v;
    OK(H(hipDeviceCanAccessPeer)(&v, 0, 3));
    CHECK(v == 1);
    OK(H(hipDeviceEnablePeerAccess)(3, 0));
    GIVES(hipErrorPeerAccessAlreadyEnabled, H(hipDeviceEnablePeerAccess)(3, 0));
    OK(H(hipDeviceDisablePeerAccess)(3));
    GIVES(hipErrorPeerAccessNotEnabled, H(hipDeviceDisablePeerAccess)(3));
    /* memory of one board reaches the other */
    int *a, *b, out = 0, in = 1234;
    OK(H(hipMalloc)((void **)&a, 4));
    OK(H(hipSetDevice)(3));
    OK(H(hipMalloc)((void **)&b, 4));
    OK(H(hipMemcpy)(a, &in, 4, hipMemcpyHostToDevice));
    OK(H(hipMemcpyPeer)(b, 3, a, 0, 4));
    OK(H(hipMemcpy)(&out, b, 4, hipMemcpyDeviceToHost));
    CHECK(out == 1234);
}

TEST(visible_devices_in_their_order,
     "OCHRE_SIM_BOARD=gfx1100+gfx1103+gfx906 ROCR_VISIBLE_DEVICES=0,2 HIP_VISIBLE_DEVICES=1,0,7,0", NULL) {
    int n = 0;
    OK(H(hipGetDeviceCount)(&n));
    CHECK(n == 2);
    hipDeviceProp_tR0600 p;
    OK(H(hipGetDevicePropertiesR0600)(&p, 0));
    CHECK(!strncmp(p.gcnArchName, "gfx906", 6));
    OK(H(hipGetDevicePropertiesR0600)(&p, 1));
    CHECK(!strcmp(p.gcnArchName, "gfx1100"));
}

TEST(no_visible_device, "HIP_VISIBLE_DEVICES=-1", NULL) {
    int n = 5;
    void *p;
    GIVES(hipErrorNoDevice, H(hipGetDeviceCount)(&n));
    CHECK(n == 0);
    GIVES(hipErrorNoDevice, H(hipMalloc)(&p, 4));
}

TEST(unknown_board_is_refused, "OCHRE_SIM_BOARD=gfx9999", NULL) {
    int n;
    GIVES(hipErrorNotInitialized, H(hipGetDeviceCount)(&n));
}

TEST(a_plus_without_a_board_is_refused, "OCHRE_SIM_BOARD=gfx1100+", NULL) {
    int n;
    GIVES(hipErrorNotInitialized, H(hipGetDeviceCount)(&n));
}

TEST(last_error_before_7, "OCHRE_SIM_HIP_VERSION=6.3", NULL) {
    int v;
    GIVES(hipErrorInvalidDevice, H(hipSetDevice)(9));
    GIVES(hipErrorInvalidDevice, H(hipPeekAtLastError)());
    OK(H(hipGetDevice)(&v)); /* a success wipes the error */
    OK(H(hipGetLastError)());
    GIVES(hipErrorInvalidDevice, H(hipSetDevice)(9));
    GIVES(hipErrorInvalidDevice, H(hipGetLastError)());
    OK(H(hipGetLastError)());
}

TEST(last_error_stays_from_7_on, "OCHRE_SIM_HIP_VERSION=7.2", NULL) {
    int v;
    GIVES(hipErrorInvalidDevice, H(hipSetDevice)(9));
    OK(H(hipGetDevice)(&v));
    OK(H(hipExtGetLastError)());
    GIVES(hipErrorInvalidDevice, H(hipGetLastError)());
    OK(H(hipGetLastError)());
}

static int version(void) {
    int v = 0;
    OK(H(hipRuntimeGetVersion)(&v));
    return v / 100000;
}
TEST(name_5_claims_5_2, "", "libamdhip64.so.5") { CHECK(version() == 502); }
TEST(name_6_claims_6_3, "", "libamdhip64.so.6") { CHECK(version() == 603); }
TEST(name_7_claims_7_2, "", "libamdhip64.so.7") { CHECK(version() == 702); }
TEST(setting_beats_name, "OCHRE_SIM_HIP_VERSION=5.2", "libamdhip64.so.7") { CHECK(version() == 502); }

TEST(every_call_is_exported, "", NULL) {
#define HIP_API(node, flags, name, params, args) CHECK(hip_symbol(#name));
#define HIP_ALIAS(node, flags, name, body, params, args) CHECK(hip_symbol(#name));
#define HIP_SPT(node, flags, name, body, params, args) CHECK(hip_symbol(#name));
#define HIP_RET(node, ret, name, params, args) CHECK(hip_symbol(#name));
#define HIP_VOID(node, name, params, args) CHECK(hip_symbol(#name));
#define HIP_NOT(node, name, why) GIVES(hipErrorNotSupported, H(name)());
#include "hip/hip_syms.def"
    /* under the node that programs linked against Debian's library ask for */
    CHECK(dlvsym(hip_library, "hipMalloc", "hip_4.2") && dlvsym(hip_library, "hipMallocAsync", "hip_5.1"));
    CHECK(!dlvsym(hip_library, "hipMalloc", "hip_6.0") && dlvsym(hip_library, "hipGetDevicePropertiesR0600", "hip_6.0"));
    CHECK(!dlsym(hip_library, "sim_hipMalloc") && !dlsym(hip_library, "och_malloc"));
}

TEST(library_0_has_no_library_calls, "", "library0/libamdhip64.so") {
    CHECK(!dlsym(hip_library, "hipLibraryLoadData") && !dlsym(hip_library, "hipKernelGetFunction"));
    CHECK(dlsym(hip_library, "hipModuleLoadData"));
}
TEST(library_3_has_three, "", "library3/libamdhip64.so") {
    CHECK(dlsym(hip_library, "hipLibraryLoadData") && dlsym(hip_library, "hipLibraryUnload") && dlsym(hip_library,
            "hipLibraryGetKernel"));
    CHECK(!dlsym(hip_library, "hipLibraryGetKernelCount") && !dlsym(hip_library, "hipKernelGetFunction"));
}
TEST(library_5_has_five, "", "library5/libamdhip64.so") {
    CHECK(dlsym(hip_library, "hipLibraryGetKernelCount") && dlsym(hip_library, "hipLibraryLoadFromFile"));
    CHECK(!dlsym(hip_library, "hipLibraryEnumerateKernels") && !dlsym(hip_library, "hipKernelGetFunction"));
}

TEST(entry_points, "", NULL) {
    void *p = NULL;
    hipDriverProcAddressQueryResult r;
    OK(H(hipGetProcAddress)("hipGetDeviceProperties", &p, 602, 0, &r));
    CHECK(p == hip_symbol("hipGetDevicePropertiesR0600") && r == HIP_GET_PROC_ADDRESS_SUCCESS);
    OK(H(hipGetProcAddress)("hipGetDeviceProperties", &p, 502, 0, &r));
    CHECK(p == hip_symbol("hipGetDeviceProperties"));
    GIVES(hipErrorInvalidValue, H(hipGetProcAddress)("hipNoSuchCall", &p, 602, 0, &r));
    CHECK(r == HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST(contexts_follow_devices, "OCHRE_SIM_BOARD=gfx1100x2", NULL) {
    hipCtx_t a, b, now;
    int d;
    OK(H(hipDevicePrimaryCtxRetain)(&a, 0));
    OK(H(hipDevicePrimaryCtxRetain)(&b, 1));
    OK(H(hipCtxPushCurrent)(b));
    OK(H(hipGetDevice)(&d));
    CHECK(d == 1);
    OK(H(hipCtxGetCurrent)(&now));
    CHECK(now == b && a != b);
    OK(H(hipCtxSetCurrent)(a));
    OK(H(hipCtxGetDevice)(&d));
    CHECK(d == 0);
}

/* tools/device-libs.sh: the module that the installed device libraries lack holds the target's number. */
static void device_libraries_of_other_targets(void **state) {
    (void)state;
    static const struct {
        const char *digits;
        int number; /* 1000 * major + 100 * minor + stepping */
    } rows[] = {{"1151", 11501}, {"942", 9402}, {"1201", 12001}, {"90a", 9010}, {"1030", 10300}};
    const char *script = "sh " OCHRE_SOURCE_DIR "/tools/device-libs.sh";
    char folder[] = "/tmp/ochre-bitcode-XXXXXX", command[1024], said[512];
    if (system("ls /usr/lib/*/amdgcn/bitcode/ocml.bc >/dev/null 2>&1 && command -v llvm-dis-19 >/dev/null")) skip();
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "%s %s gfx1151 gfx942 gfx1201 gfx90a gfx1030 >/dev/null", script, folder);
    assert_int_equal(system(command), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(command, sizeof command, "llvm-dis-19 -o - %s/oclc_isa_version_%s.bc", folder, rows[i].digits);
        FILE *f = popen(command, "r");
        char wanted[64];
        bool found = false;
        snprintf(wanted, sizeof wanted, "constant i32 %d,", rows[i].number);
        while (f && fgets(said, sizeof said, f)) found |= strstr(said, "@__oclc_ISA_version") && strstr(said, wanted);
        assert_true(f && pclose(f) == 0);
        if (!found) fail_msg("%s: no \"%s\"", command, wanted);
    }
    snprintf(command, sizeof command, "test -e %s/ocml.bc && ! %s %s gfx 2>/dev/null && ! %s %s gfx11x1 2>/dev/null && rm -r %s", folder,
             script, folder, script, folder, folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_board_is_described), cmocka_unit_test(several_boards),
        cmocka_unit_test(visible_devices_in_their_order), cmocka_unit_test(no_visible_device),
        cmocka_unit_test(unknown_board_is_refused), cmocka_unit_test(a_plus_without_a_board_is_refused), cmocka_unit_test(last_error_before_7),
        cmocka_unit_test(last_error_stays_from_7_on), cmocka_unit_test(name_5_claims_5_2), cmocka_unit_test(name_6_claims_6_3),
        cmocka_unit_test(name_7_claims_7_2), cmocka_unit_test(setting_beats_name), cmocka_unit_test(every_call_is_exported),
        cmocka_unit_test(library_0_has_no_library_calls), cmocka_unit_test(library_3_has_three),
            cmocka_unit_test(library_5_has_five),
        cmocka_unit_test(entry_points), cmocka_unit_test(contexts_follow_devices),
        cmocka_unit_test(device_libraries_of_other_targets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
