/* A safetensors file from any bytes; of what opens, everything is read. */
#include "base/alloc.h"
#include "file/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned sink;

static void check(bool ok) {
    if (!ok) abort();
}

static void eat(const void *p, size_t n) {
    const uint8_t *bytes = p;
    for (size_t i = 0; i < n; i++) sink += bytes[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    och_err err = {0};
    och_safetensors *s;
    int64_t live = och_alloc_live();
    och_status st = och_safetensors_open_memory("fuzz.safetensors", data, size, &s, &err);
    check(st == err.status && (st == OCH_OK) == (s != NULL));
    if (st != OCH_OK) {
        check(strstr(err.message, "fuzz.safetensors: ") && strstr(err.message, "expected "));
    } else {
        uint64_t total = 0;
        char text[128];
        for (uint64_t i = 0; i < och_safetensors_n_tensors(s); i++) {
            const och_file_tensor *t = och_safetensors_tensor(s, i);
            check(och_safetensors_find(s, t->name) == t);
            check(t->file_offset + t->size_bytes <= size);
            eat(t->data, t->size_bytes);
            eat(text, strlen(och_file_tensor_shape_str(t, text, sizeof text)));
            (void)!och_file_tensor_check(t, NULL);
            total += t->size_bytes;
        }
        check(total < size); /* no overlap: together they are smaller than the file */
        for (uint64_t i = 0; i < och_safetensors_n_metadata(s); i++) {
            const char *key, *value;
            och_safetensors_metadata_at(s, i, &key, &value);
            check(och_safetensors_metadata(s, key) == value);
        }
        och_safetensors_close(s);
    }
    check(och_alloc_live() == live);
    return 0;
}
