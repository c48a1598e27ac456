/* What the host says about itself: name, memory, the limits of its control groups. */
#ifndef OCH_DEV_CPU_HOST_H
#define OCH_DEV_CPU_HOST_H

#include <stddef.h>
#include <stdint.h>

/* Name and vendor from a text in the form of /proc/cpuinfo ("model name" and "vendor_id", or "CPU implementer" and
 * "CPU part"); "unknown CPU" and "unknown" when it says nothing. */
void och_host_cpu_name(const char *cpuinfo_path, char *out_name, size_t name_bytes, char *out_vendor, size_t vendor_bytes);

/* Memory of the machine. */
uint64_t och_host_memory_bytes(void);
/* MemAvailable of a text in the form of /proc/meminfo; 0 when it is not there. */
uint64_t och_host_available_bytes(const char *meminfo_path);
/* Bytes of address space that the process has mapped, from statm; 0 when it cannot be read. */
uint64_t och_host_mapped_bytes(const char *statm_path);

typedef struct och_cgroup_limits {
    uint64_t memory_bytes;      /* least limit on the way to the root; UINT64_MAX: none */
    uint64_t memory_free_bytes; /* least of limit - used over the groups that have a limit; UINT64_MAX: none */
    double cpus;                /* least quota / period; 0: none */
} och_cgroup_limits;

/* Version 2 and version 1 hierarchies. `self_path` has the form of /proc/self/cgroup, `mount` that of /sys/fs/cgroup. A
 * group that the mount does not show (a container without a namespace of its own) is looked up at the mount's root. */
och_cgroup_limits och_host_cgroup_limits(const char *self_path, const char *mount);

#endif
