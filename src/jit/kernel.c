#include "jit/kernel.h"

#include "kl/ast.h"

#include <stdlib.h>
#include <string.h>

static int by_offset(const void *a, const void *b) {
    uint32_t x = ((const och_jit_arg *)a)->offset_bytes, y = ((const och_jit_arg *)b)->offset_bytes;
    return (x > y) - (x < y);
}

static void lay_out(och_jit_kernel *k) {
    const och_kl_signature *s = &k->signature;
    size_t n = 0;
    for (int i = 0; i < s->n_args; i++) {
        const och_kl_arg *a = &s->args[i];
        k->args[n++] = (och_jit_arg){a->offset, a->bytes};
        for (int r = 0; r + 1 < a->rank; r++) k->args[n++] = (och_jit_arg){a->stride_offset[r], 8};
    }
    for (int i = 0; i < s->n_sizes; i++) k->args[n++] = (och_jit_arg){s->size_offset[i], 8};
    qsort(k->args, n, sizeof k->args[0], by_offset);
    k->request.n_args = n;
    k->request.kernarg_bytes = n ? k->args[n - 1].offset_bytes + k->args[n - 1].size_bytes : 0;
}

void och_jit_source_id(const och_kl_unit *unit, char out_hex[OCH_HASH_HEX_BYTES]) {
    och_hash h;
    const unsigned char emitter[] = {OCH_KL_EMITTER & 255, OCH_KL_EMITTER >> 8};
    och_hash_init(&h);
    och_hash_part(&h, emitter, sizeof emitter);
    for (const och_kl_file *f = unit->files; f; f = f->next) och_hash_part(&h, f->text, f->n_bytes);
    och_hash_hex(och_hash_digest(&h), out_hex);
}

och_status och_jit_kernel_init(och_jit_kernel *k, const och_kl_unit *unit, const char *kernel,
                               const och_kl_binding *bindings, int n_bindings, const och_kl_profile *profile,
                               och_strbuf *diag, och_err *err) {
    och_kl_code *code;
    memset(k, 0, sizeof *k);
    OCH_TRY(och_kl_specialise(unit, kernel, bindings, n_bindings, profile, &code, diag, err));
    k->signature = *och_kl_code_signature(code);
    bool own_target = och_kl_code_own_target(code);
    och_status st = och_kl_emit(code, &k->text, err);
    och_kl_code_destroy(code);
    if (st == OCH_OK) st = och_kl_signature_write(&k->signature, &k->record, err);
    if (st == OCH_OK) st = och_strbuf_status(&k->text, err);
    if (st == OCH_OK) st = och_strbuf_status(&k->record, err);
    if (st != OCH_OK) return st;
    och_jit_source_id(unit, k->source_id);
    const och_kl_signature *s = &k->signature;
    k->request = (och_jit_request){
        .kernel = s->kernel,
        .specialisation = s->spec,
        .source_id = k->source_id,
        .text = k->text.data,
        .text_bytes = k->text.size,
        .file_name = unit->files->name,
        .dialect = profile->target.target->vendor == OCH_VENDOR_AMD ? OCH_JIT_HIP : OCH_JIT_CUDA,
        .target = s->target,
        .own_target = own_target,
        .clang_min = OCH_KL_CLANG_MIN,
        .wave_size = s->wave,
        .symbol = s->entry,
        .has_layout = true,
        .args = k->args,
        .record = k->record.data,
        .record_bytes = k->record.size,
    };
    lay_out(k);
    return OCH_OK;
}

void och_jit_kernel_deinit(och_jit_kernel *k) {
    och_strbuf_deinit(&k->text);
    och_strbuf_deinit(&k->record);
}
