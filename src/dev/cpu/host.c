#include "dev/cpu/host.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/sysinfo.h>

/* Codes of the main identification register: Arm Architecture Reference Manual, MIDR_EL1, field Implementer. */
static const struct {
    unsigned code;
    const char *name;
} implementers[] = {{0x41, "Arm"},    {0x42, "Broadcom"}, {0x43, "Cavium"}, {0x46, "Fujitsu"}, {0x48, "HiSilicon"},
                    {0x4e, "NVIDIA"}, {0x50, "APM"},      {0x51, "Qualcomm"}, {0x53, "Samsung"}, {0x56, "Marvell"},
                    {0x61, "Apple"},  {0x6d, "Microsoft"}, {0xc0, "Ampere"}};

static void copy_text(char *out, size_t n_bytes, const char *s) { snprintf(out, n_bytes, "%s", s); }

/* The value behind "key   : value\n", or NULL. Cuts the line's end. */
static char *value_of(char *line, const char *key) {
    size_t n = strlen(key);
    if (strncmp(line, key, n) != 0) return NULL;
    char *p = line + n + strspn(line + n, " \t");
    if (*p != ':') return NULL;
    p += 1 + strspn(p + 1, " \t");
    p[strcspn(p, "\n")] = 0;
    return *p ? p : NULL;
}

void och_host_cpu_name(const char *cpuinfo_path, char *out_name, size_t name_bytes, char *out_vendor, size_t vendor_bytes) {
    copy_text(out_name, name_bytes, "unknown CPU");
    copy_text(out_vendor, vendor_bytes, "unknown");
    FILE *f = fopen(cpuinfo_path, "re");
    if (!f) return;
    char line[512];
    bool named = false, vendored = false;
    while (fgets(line, sizeof line, f) && !(named && vendored)) {
        char *v;
        if (!named && (v = value_of(line, "model name"))) {
            copy_text(out_name, name_bytes, v);
            named = true;
        } else if (!vendored && (v = value_of(line, "vendor_id"))) {
            copy_text(out_vendor, vendor_bytes, !strcmp(v, "GenuineIntel") ? "Intel" : !strcmp(v, "AuthenticAMD") ? "AMD" : v);
            vendored = true;
        } else if (!vendored && (v = value_of(line, "CPU implementer"))) {
            unsigned long code = strtoul(v, NULL, 0);
            for (size_t i = 0; i < OCH_COUNT(implementers); i++)
                if (implementers[i].code == code) copy_text(out_vendor, vendor_bytes, implementers[i].name);
            vendored = true;
        } else if (!named && (v = value_of(line, "CPU part"))) {
            snprintf(out_name, name_bytes, "%s CPU, part %s", out_vendor, v);
            named = true;
        }
    }
    fclose(f);
}

uint64_t och_host_memory_bytes(void) {
    struct sysinfo s;
    return sysinfo(&s) == 0 ? (uint64_t)s.totalram * s.mem_unit : 0;
}

uint64_t och_host_available_bytes(const char *meminfo_path) {
    FILE *f = fopen(meminfo_path, "re");
    if (!f) return 0;
    char line[256], *v = NULL;
    while (fgets(line, sizeof line, f))
        if ((v = value_of(line, "MemAvailable"))) break;
    uint64_t bytes = v ? strtoull(v, NULL, 10) * 1024 : 0;
    fclose(f);
    return bytes;
}

/* The first words of mount/dir/file as text; false when there is no such file. */
static bool read_text(const char *mount, const char *dir, const char *file, char *out, size_t n_bytes) {
    char path[1024];
    *out = 0;
    int n = snprintf(path, sizeof path, "%s%s/%s", mount, dir, file);
    if (n < 0 || (size_t)n >= sizeof path) return false;
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(out, (int)n_bytes, f) != NULL;
    fclose(f);
    return ok;
}

/* A number; UINT64_MAX for "max" and for what is not one. */
static uint64_t number_of(const char *text) {
    char *end;
    uint64_t v = strtoull(text, &end, 10);
    return end == text || *text == '-' ? UINT64_MAX : v;
}

static void take_memory(och_cgroup_limits *l, const char *limit, const char *used) {
    uint64_t max = number_of(limit), now = number_of(used);
    if (max >= (uint64_t)1 << 62) return; /* version 1 writes "none" as the largest multiple of a page */
    l->memory_bytes = OCH_MIN(l->memory_bytes, max);
    if (now != UINT64_MAX) l->memory_free_bytes = OCH_MIN(l->memory_free_bytes, max > now ? max - now : 0);
}

static void take_cpus(och_cgroup_limits *l, uint64_t quota, uint64_t period) {
    if (quota == UINT64_MAX || period == UINT64_MAX || !quota || !period) return;
    double cpus = (double)quota / (double)period;
    if (l->cpus == 0 || cpus < l->cpus) l->cpus = cpus;
}

static void read_group(och_cgroup_limits *l, const char *mount, const char *dir, const char *controllers) {
    char a[128], b[128];
    if (!*controllers) { /* version 2 */
        if (read_text(mount, dir, "memory.max", a, sizeof a)) {
            read_text(mount, dir, "memory.current", b, sizeof b);
            take_memory(l, a, b);
        }
        if (read_text(mount, dir, "cpu.max", a, sizeof a)) {
            char *space = strchr(a, ' ');
            take_cpus(l, number_of(a), space ? number_of(space + 1) : UINT64_MAX);
        }
        return;
    }
    if (read_text(mount, dir, "memory.limit_in_bytes", a, sizeof a)) {
        read_text(mount, dir, "memory.usage_in_bytes", b, sizeof b);
        take_memory(l, a, b);
    }
    if (read_text(mount, dir, "cpu.cfs_quota_us", a, sizeof a) && read_text(mount, dir, "cpu.cfs_period_us", b, sizeof b))
        take_cpus(l, number_of(a), number_of(b));
}

/* True if `list` ("cpu,cpuacct") holds `name`. */
static bool listed(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && !memcmp(p, name, n)) return true;
    return false;
}

och_cgroup_limits och_host_cgroup_limits(const char *self_path, const char *mount) {
    och_cgroup_limits l = {UINT64_MAX, UINT64_MAX, 0};
    FILE *f = fopen(self_path, "re");
    if (!f) return l;
    char line[1024];
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        /* hierarchy-id:controllers:path */
        char *controllers = strchr(line, ':'), *dir = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!dir) continue;
        controllers++;
        *dir++ = 0;
        char root[512];
        if (!*controllers) snprintf(root, sizeof root, "%s", mount);
        else if (listed(controllers, "memory")) snprintf(root, sizeof root, "%.400s/memory", mount);
        else if (listed(controllers, "cpu")) snprintf(root, sizeof root, "%.400s/cpu", mount);
        else continue;
        /* every ancestor may hold the tighter limit */
        for (;;) {
            read_group(&l, root, strcmp(dir, "/") ? dir : "", controllers);
            char *slash = strrchr(dir, '/');
            if (!slash || !dir[1]) break;
            if (slash == dir) dir[1] = 0;
            else *slash = 0;
        }
    }
    fclose(f);
    return l;
}

uint64_t och_host_mapped_bytes(const char *statm_path) {
    FILE *f = fopen(statm_path, "re");
    if (!f) return 0;
    unsigned long long pages = 0;
    if (fscanf(f, "%llu", &pages) != 1) pages = 0;
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
