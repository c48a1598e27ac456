#include "base/env.h"
#include "base/log.h"
#include "dev/cpu/cpu.h"

#include <string.h>

static const char *const names[] = {"generic", "avx2", "avx512", "amx", "neon"};

const char *och_cpu_isa_name(och_cpu_isa isa) { return names[isa]; }

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Intel SDM volume 2, CPUID; volume 1 section 13.3 for the state components of XCR0. */
#define XCR0_AVX 0x06u      /* SSE and AVX state */
#define XCR0_AVX512 0xE6u   /* and opmask, the upper halves, the upper 16 registers */
#define XCR0_AMX 0x60000u   /* tile configuration and tile data */
/* Linux, Documentation/arch/x86/xstate.rst: tile data is off until a process asks for it. */
#define REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18
/* CPUID.(EAX=7,ECX=0):EDX; the header of older clang lacks the names. */
#define EDX_AMX_BF16 (1u << 22)
#define EDX_AMX_TILE (1u << 24)
#define EDX_AMX_INT8 (1u << 25)

static bool has(unsigned reg, unsigned bits) { return (reg & bits) == bits; }

static och_cpu_isa detect(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return OCH_CPU_GENERIC;
    if (!has(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C)) return OCH_CPU_GENERIC;
    unsigned lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    unsigned b7, c7, d7;
    if (!has(lo, XCR0_AVX) || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) return OCH_CPU_GENERIC;
    unsigned n_sub = a, a71 = 0;
    if (!has(b7, bit_AVX2 | bit_BMI2)) return OCH_CPU_GENERIC;
    if (n_sub >= 1 && !__get_cpuid_count(7, 1, &a71, &b, &c, &d)) a71 = 0;
    if (!has(lo, XCR0_AVX512) || !has(b7, bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL) ||
        !has(c7, bit_AVX512VBMI | bit_AVX512VNNI) || !has(a71, bit_AVX512BF16))
        return OCH_CPU_AVX2;
    if (!has(lo, XCR0_AMX) || !has(d7, EDX_AMX_TILE | EDX_AMX_INT8 | EDX_AMX_BF16)) return OCH_CPU_AVX512;
    return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 ? OCH_CPU_AMX : OCH_CPU_AVX512;
}
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

static och_cpu_isa detect(void) {
    unsigned long want = HWCAP_ASIMD | HWCAP_ASIMDDP | HWCAP_FPHP | HWCAP_ASIMDHP;
    return (getauxval(AT_HWCAP) & want) == want ? OCH_CPU_NEON : OCH_CPU_GENERIC;
}
#else
static och_cpu_isa detect(void) { return OCH_CPU_GENERIC; }
#endif

/* True if a CPU of level `have` also runs code of level `want`. */
static bool includes(och_cpu_isa have, och_cpu_isa want) {
    return want == have || want == OCH_CPU_GENERIC || (have != OCH_CPU_NEON && want < have);
}

och_cpu_isa och_cpu_isa_detect(void) {
    och_cpu_isa have = detect();
    const char *wish = och_env_get(OCH_ENV_OCHRE_CPU_ISA);
    if (!wish) return have;
    char choices[64] = "";
    for (int i = 0; i <= OCH_CPU_NEON; i++) {
        if (!includes(have, (och_cpu_isa)i)) continue;
        if (!strcmp(wish, names[i])) return (och_cpu_isa)i;
        if (*choices) strcat(choices, ", ");
        strcat(choices, names[i]);
    }
    och_log(OCH_LOG_WARN, "environment variable OCHRE_CPU_ISA: expected one of %s on this CPU, found '%s'; %s is used",
            choices, wish, names[have]);
    return have;
}
