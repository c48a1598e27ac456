#include "jit/pack_priv.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "file/write.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
    och_pack_entry entry; /* strings in the arena */
    const uint8_t *code, *record;
} item;

struct och_pack_writer {
    och_arena arena;
    item *items; /* owned */
    size_t n, capacity;
};

och_status och_pack_writer_create(och_pack_writer **out_writer, och_err *err) {
    *out_writer = och_calloc(1, sizeof **out_writer);
    if (!*out_writer) return och_err_nomem(err, sizeof **out_writer, "a pack");
    och_arena_init(&(*out_writer)->arena);
    return OCH_OK;
}

void och_pack_writer_destroy(och_pack_writer *w) {
    if (!w) return;
    och_arena_deinit(&w->arena);
    och_free(w->items);
    och_free(w);
}

/* The table's strings are text of at most 65,535 bytes. */
static och_status copy_string(och_pack_writer *w, const char *s, const char **out, och_err *err) {
    size_t n = strlen(s);
    if (n > UINT16_MAX) return och_err_set(err, OCH_RANGE, "a pack: expected a name of at most 65535 bytes, found %zu", n);
    char *copy = och_arena_strndup(&w->arena, s, n);
    if (!copy) return och_err_nomem(err, n, "a pack");
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p < 32) *p = '?';
    *out = copy;
    return OCH_OK;
}

static och_status copy_bytes(och_pack_writer *w, const void *bytes, size_t n, const uint8_t **out, och_err *err) {
    uint8_t *copy = och_arena_alloc(&w->arena, n ? n : 1, 1);
    if (!copy) return och_err_nomem(err, n, "a pack");
    if (n) memcpy(copy, bytes, n);
    *out = copy;
    return OCH_OK;
}

och_status och_pack_writer_add(och_pack_writer *w, const och_jit_request *q, const och_jit_artifact *a, och_err *err) {
    if (!q->kernel || !*q->kernel) return och_err_set(err, OCH_INVALID, "a pack: expected a kernel with a name, found none");
    if (!a->code_bytes || (uint64_t)a->code_bytes > PACK_MAX_BYTES)
        return och_err_set(err, OCH_RANGE, "a pack: %s: expected 1 byte to 4 GiB of code, found %zu", q->kernel, a->code_bytes);
    if ((uint64_t)a->record_bytes > PACK_MAX_BYTES)
        return och_err_set(err, OCH_RANGE, "a pack: %s: expected at most 4 GiB of record, found %zu", q->kernel, a->record_bytes);
    if (w->n >= PACK_MAX_ENTRIES) return och_err_set(err, OCH_RANGE, "a pack: %s: expected at most %u kernels", q->kernel, PACK_MAX_ENTRIES);
    if (w->n == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 64;
        item *items = och_realloc_array(w->items, capacity, sizeof *items);
        if (!items) return och_err_nomem(err, capacity * sizeof *items, "a pack");
        w->items = items;
        w->capacity = capacity;
    }
    item *i = &w->items[w->n];
    memset(i, 0, sizeof *i);
    och_pack_entry *e = &i->entry;
    OCH_TRY(och_target_find(a->target, &e->target, err));
    OCH_TRY(copy_string(w, q->kernel, &e->kernel, err));
    OCH_TRY(copy_string(w, q->specialisation ? q->specialisation : "", &e->specialisation, err));
    OCH_TRY(copy_string(w, q->source_id ? q->source_id : "", &e->source_id, err));
    OCH_TRY(copy_string(w, e->target.name, &e->target_name, err));
    OCH_TRY(copy_string(w, a->compiler, &e->compiler, err));
    OCH_TRY(copy_bytes(w, a->code, a->code_bytes, &i->code, err));
    OCH_TRY(copy_bytes(w, a->record, a->record_bytes, &i->record, err));
    e->kind = a->kind;
    e->wave_size = a->wave_size;
    e->code_object_version = a->code_object_version;
    e->code_bytes = a->code_bytes;
    e->record_bytes = a->record_bytes;
    e->code_hash = och_hash_bytes(i->code, a->code_bytes);
    e->record_hash = och_hash_bytes(i->record, a->record_bytes);
    for (size_t k = 0; k < w->n; k++)
        if (!och_pack_compare(&w->items[k].entry, e))
            return och_err_set(err, OCH_INVALID, "a pack: %s %s for %s, wave%d, is in it already", e->kernel, e->specialisation,
                               e->target_name, e->wave_size);
    w->n++;
    return OCH_OK;
}

static int in_order(const void *a, const void *b) {
    return och_pack_compare(&((const item *)a)->entry, &((const item *)b)->entry);
}

static void put(och_strbuf *b, uint64_t v, int n_bytes) {
    unsigned char bytes[8];
    for (int i = 0; i < n_bytes; i++) bytes[i] = (unsigned char)(v >> (8 * i));
    och_strbuf_append(b, bytes, (size_t)n_bytes);
}

static void put_hash(och_strbuf *b, och_hash128 h) {
    put(b, h.low, 8);
    put(b, h.high, 8);
}

static void put_string(och_strbuf *b, const char *s) {
    size_t n = strlen(s);
    put(b, n, 2);
    och_strbuf_append(b, s, n);
}

static void put_entry(och_strbuf *table, const och_pack_entry *e) {
    put(table, (uint64_t)e->kind, 4);
    put(table, (uint64_t)e->wave_size, 4);
    put(table, (uint64_t)e->code_object_version, 4);
    put(table, e->code_bytes, 8);
    put(table, e->record_bytes, 8);
    put_hash(table, e->code_hash);
    put_hash(table, e->record_hash);
    put_string(table, e->kernel);
    put_string(table, e->specialisation);
    put_string(table, e->source_id);
    put_string(table, e->target_name);
    put_string(table, e->compiler);
}

och_status och_pack_writer_write(och_pack_writer *w, const char *path, och_err *err) {
    och_strbuf table = {0}, header = {0};
    och_writer *file = NULL;
    uint64_t contents = 0;
    if (w->n) qsort(w->items, w->n, sizeof *w->items, in_order);
    for (size_t i = 0; i < w->n; i++) {
        put_entry(&table, &w->items[i].entry);
        contents += w->items[i].entry.code_bytes + w->items[i].entry.record_bytes;
    }
    och_strbuf_puts(&header, PACK_MAGIC);
    put(&header, PACK_VERSION, 4);
    put(&header, w->n, 4);
    put(&header, table.size, 8);
    put(&header, PACK_HEADER_BYTES + table.size + contents, 8);
    put_hash(&header, och_hash_bytes(och_strbuf_str(&table), table.size));
    put_hash(&header, och_hash_bytes(och_strbuf_str(&header), header.size));
    och_status st = och_strbuf_status(&table, err);
    if (st == OCH_OK) st = och_strbuf_status(&header, err);
    if (st == OCH_OK) st = och_writer_create(path, &file, err);
    if (st == OCH_OK) st = och_writer_append(file, header.data, header.size, err);
    if (st == OCH_OK) st = och_writer_append(file, och_strbuf_str(&table), table.size, err);
    for (size_t i = 0; i < w->n && st == OCH_OK; i++) {
        st = och_writer_append(file, w->items[i].code, (size_t)w->items[i].entry.code_bytes, err);
        if (st == OCH_OK) st = och_writer_append(file, w->items[i].record, (size_t)w->items[i].entry.record_bytes, err);
    }
    if (st == OCH_OK) st = och_writer_commit_take(file, err);
    else och_writer_destroy(file);
    och_strbuf_deinit(&table);
    och_strbuf_deinit(&header);
    return st;
}
