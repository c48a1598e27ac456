#include "jit/key.h"

#include <string.h>

static void number(och_hash *h, uint64_t v) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(v >> (8 * i));
    och_hash_part(h, bytes, sizeof bytes);
}

static void string(och_hash *h, const char *s) { och_hash_part(h, s, strlen(s)); }

void och_jit_key(const och_jit_key_parts *p, char out_key[OCH_JIT_KEY_BYTES]) {
    och_hash h;
    och_hash_init(&h);
    number(&h, p->format);
    och_hash_part(&h, p->text, p->text_bytes);
    string(&h, p->file_name);
    string(&h, p->target);
    number(&h, p->dialect);
    number(&h, p->wave_size);
    number(&h, p->code_object_version);
    och_hash_part(&h, p->arguments, p->arguments_bytes);
    string(&h, p->compiler);
    string(&h, p->compiler_version);
    string(&h, p->compiler_path);
    number(&h, p->compiler_file_bytes);
    number(&h, p->compiler_file_mtime_ns);
    och_hash_part(&h, p->record, p->record_bytes);
    och_hash_hex(och_hash_digest(&h), out_key);
}

och_status och_jit_key_of(const och_jit_job *job, const och_candidate *c, char out_key[OCH_JIT_KEY_BYTES], och_err *err) {
    const och_jit_request *q = job->request;
    och_strbuf text = {0}, arguments = {0};
    memset(out_key, 0, OCH_JIT_KEY_BYTES);
    och_status st = och_jit_job_text(job, c->row->needs_prelude, &text, err);
    if (st == OCH_OK) st = c->row->arguments(c, job, &arguments, err);
    if (st == OCH_OK)
        och_jit_key(&(och_jit_key_parts){.format = OCH_JIT_FORMAT,
                                         .text = och_strbuf_str(&text),
                                         .text_bytes = text.size,
                                         .file_name = job->file_name,
                                         .target = job->target.name,
                                         .dialect = q->dialect,
                                         .wave_size = (uint64_t)job->wave_size,
                                         .code_object_version = (uint64_t)job->code_object_version,
                                         .arguments = och_strbuf_str(&arguments),
                                         .arguments_bytes = arguments.size,
                                         .compiler = c->row->name,
                                         .compiler_version = c->version,
                                         .compiler_path = c->path,
                                         .compiler_file_bytes = c->file_bytes,
                                         .compiler_file_mtime_ns = (uint64_t)c->file_mtime_ns,
                                         .record = q->record,
                                         .record_bytes = q->record_bytes},
                    out_key);
    och_strbuf_deinit(&text);
    och_strbuf_deinit(&arguments);
    return st;
}
