/* Reads a file of tests/golden/obj. The copy ends where the allocation ends, so that a checker sees a read past it. */
#ifndef TESTS_OBJ_FILE_H
#define TESTS_OBJ_FILE_H

#include "base/alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct obj_file {
    uint8_t *bytes; /* owned */
    size_t n_bytes;
} obj_file;

static inline obj_file obj_file_read(const char *name) {
    char path[512];
    obj_file f = {0};
    snprintf(path, sizeof path, "%s/golden/obj/%s", OCHRE_TEST_DIR, name);
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("cannot open %s", path);
    fseek(in, 0, SEEK_END);
    f.n_bytes = (size_t)ftell(in);
    rewind(in);
    f.bytes = och_malloc(f.n_bytes);
    if (!f.bytes || fread(f.bytes, 1, f.n_bytes, in) != f.n_bytes) fail_msg("cannot read %s", path);
    fclose(in);
    return f;
}

static inline void obj_file_free(obj_file *f) {
    och_free(f->bytes);
    *f = (obj_file){0};
}

#endif
