#include "exec/title.h"

#include "base/alloc.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ROOM 4096

typedef char *demangle_fn(const char *mangled, char *buf, size_t *n, int *status);

const char *sim_kernel_title(const char *symbol, char *buf, size_t n) {
    snprintf(buf, n, "%s", symbol);
    if (strncmp(symbol, "_Z", 2) != 0) return buf;
    demangle_fn *demangle = (demangle_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "__cxa_demangle");
    char *room = demangle ? och_malloc(ROOM) : NULL;
    if (!room) return buf;
    size_t size = ROOM;
    int status = -1;
    char *text = demangle(symbol, room, &size, &status); /* may have made it larger, with realloc */
    if (text && !status) snprintf(buf, n, "%s", text);
    och_free(text ? text : room);
    return buf;
}
