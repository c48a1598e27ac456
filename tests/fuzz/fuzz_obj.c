/* A code object of any content: it parses or it says why not, and all that it gives is inside what it was given. */
#include "base/alloc.h"
#include "obj/obj.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    och_obj *o;
    och_err e = {0};
    int64_t live = och_alloc_live();
    och_status st = och_obj_parse(data, size, &o, &e);
    check(st == e.status);
    if (st != OCH_OK) {
        check(!o && e.message[0] && st != OCH_NOMEM && st != OCH_INTERNAL);
        check(och_alloc_live() == live);
        return 0;
    }
    check(o->version >= 4 && o->version <= 6 && o->target[0]);
    uint64_t before = 0;
    size_t n_text = 0;
    for (size_t i = 0; i < o->n_segments; i++) {
        const och_obj_segment *s = &o->segments[i];
        check(s->file_offset <= size && s->file_bytes <= size - s->file_offset && s->file_bytes <= s->mem_bytes);
        check(s->addr >= before && s->addr + s->mem_bytes >= s->addr);
        before = s->addr + s->mem_bytes;
        n_text += o->text_addr >= s->addr && o->text_addr + o->text_bytes <= s->addr + s->file_bytes;
    }
    check(!o->text_bytes || n_text);
    for (size_t i = 0; i < o->n_kernels; i++) {
        const och_obj_kernel *k = &o->kernels[i];
        check(strlen(k->name) < size && strlen(k->symbol) < size);
        check(k->entry_addr - o->text_addr < o->text_bytes);
        for (size_t a = 0; a < k->n_args; a++) {
            check(k->args[a].size <= k->kernarg_bytes && k->args[a].offset <= k->kernarg_bytes - k->args[a].size);
            check(strlen(k->args[a].name) + strlen(k->args[a].type_name) + strlen(k->args[a].value_kind) < size);
            check(k->args[a].kind <= OCH_ARG_UNKNOWN);
        }
    }
    for (size_t i = 0; i < o->n_symbols; i++) {
        const och_obj_symbol *s = och_obj_find_symbol(o, o->symbols[i].name);
        check(s && !strcmp(s->name, o->symbols[i].name));
    }
    for (size_t i = 0; i < o->n_functions; i++) {
        check(strlen(o->functions[i].name) < size);
        check(!i || o->functions[i].addr >= o->functions[i - 1].addr);
    }
    for (size_t i = 0; i < o->n_relocs; i++) check(strlen(o->relocs[i].symbol) < size && o->relocs[i].addr < before);
    for (size_t i = 0; i < o->n_printf; i++) check(strlen(o->printf_formats[i]) < size);
    och_obj_destroy(o);
    check(och_alloc_live() == live);
    return 0;
}
