#include "jit/pack_priv.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/size.h"
#include "file/cursor.h"
#include "file/mapping.h"

#include <string.h>

struct och_pack {
    och_mapping *file; /* owned */
    och_arena arena;   /* strings and entries */
    och_pack_entry *entries;
    size_t n;
};

int och_pack_compare(const och_pack_entry *a, const och_pack_entry *b) {
    int c = strcmp(a->kernel, b->kernel);
    if (!c) c = strcmp(a->specialisation, b->specialisation);
    if (!c) c = strcmp(a->target_name, b->target_name);
    if (!c) c = a->wave_size - b->wave_size;
    return c ? c : a->code_object_version - b->code_object_version;
}

static och_status corrupt(const och_pack *p, const char *what, uint64_t found, uint64_t at, och_err *err) {
    return och_err_set(err, OCH_CORRUPT, "%s: %s, found %llu (at byte %llu)", p->file->path, what, (unsigned long long)found,
                       (unsigned long long)at);
}

static bool take_hash(och_cursor *c, och_hash128 *out) { return och_cursor_u64(c, &out->low) && och_cursor_u64(c, &out->high); }

static och_status read_string(och_pack *p, och_cursor *c, const char **out, och_err *err) {
    uint16_t n;
    const void *bytes;
    uint64_t at = c->pos;
    if (!och_cursor_u16(c, &n) || !och_cursor_bytes(c, n, &bytes))
        return corrupt(p, "the table ends inside a string", c->size, at, err);
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)bytes)[i] < 32)
            return corrupt(p, "expected text in the table", ((const uint8_t *)bytes)[i], at + 2 + i, err);
    *out = och_arena_strndup(&p->arena, bytes, n);
    return *out ? OCH_OK : och_err_nomem(err, n, "a pack's table");
}

/* Reads one entry; *offset moves past its contents. */
static och_status read_entry(och_pack *p, och_cursor *c, och_pack_entry *e, uint64_t *offset, och_err *err) {
    uint32_t kind, wave, version;
    uint64_t at = c->pos, end;
    if (!och_cursor_u32(c, &kind) || !och_cursor_u32(c, &wave) || !och_cursor_u32(c, &version) ||
        !och_cursor_u64(c, &e->code_bytes) || !och_cursor_u64(c, &e->record_bytes) || !take_hash(c, &e->code_hash) ||
        !take_hash(c, &e->record_hash))
        return corrupt(p, "the table ends inside an entry", c->size, at, err);
    if (kind > OCH_JIT_CUBIN) return corrupt(p, "expected a kind of code of 0 to 2", kind, at, err);
    if (wave != 32 && wave != 64) return corrupt(p, "expected a wave size of 32 or 64", wave, at + 4, err);
    if (kind == OCH_JIT_HSACO ? version < 4 || version > 6 : version != 0)
        return corrupt(p, "expected a code object version of 4 to 6, or 0 where there is none", version, at + 8, err);
    if (!e->code_bytes || e->code_bytes > PACK_MAX_BYTES)
        return corrupt(p, "expected 1 byte to 4 GiB of code", e->code_bytes, at + 12, err);
    if (e->record_bytes > PACK_MAX_BYTES) return corrupt(p, "expected at most 4 GiB of record", e->record_bytes, at + 20, err);
    e->kind = (och_jit_code_kind)kind;
    e->wave_size = (int)wave;
    e->code_object_version = (int)version;
    e->offset = *offset;
    if (!och_u64_add(*offset, e->code_bytes, &end) || !och_u64_add(end, e->record_bytes, &end) || end > p->file->size)
        return corrupt(p, "the contents of an entry end beyond the file", e->code_bytes, at + 12, err);
    *offset = end;
    const char **strings[] = {&e->kernel, &e->specialisation, &e->source_id, &e->target_name, &e->compiler};
    for (size_t i = 0; i < OCH_COUNT(strings); i++) OCH_TRY(read_string(p, c, strings[i], err));
    if (!*e->kernel || !*e->target_name) return corrupt(p, "expected a kernel and a target", 0, at, err);
    if (och_target_find(e->target_name, &e->target, NULL) != OCH_OK) memset(&e->target, 0, sizeof e->target);
    else if ((e->target.target->vendor == OCH_VENDOR_AMD) != (kind == OCH_JIT_HSACO))
        return corrupt(p, "expected code of the target's kind", kind, at, err);
    return OCH_OK;
}

static och_status parse(och_pack *p, och_err *err) {
    const uint8_t *data = p->file->data;
    och_cursor c = och_cursor_view(data, p->file->size);
    const void *magic;
    uint32_t version, n;
    uint64_t table_bytes, file_bytes;
    och_hash128 table_hash, header_hash;
    if (!och_cursor_bytes(&c, 8, &magic) || memcmp(magic, PACK_MAGIC, 8))
        return och_err_set(err, OCH_CORRUPT, "%s: expected a pack of kernels (\"%s\" at its start)", p->file->path, PACK_MAGIC);
    if (!och_cursor_u32(&c, &version) || !och_cursor_u32(&c, &n) || !och_cursor_u64(&c, &table_bytes) ||
        !och_cursor_u64(&c, &file_bytes) || !take_hash(&c, &table_hash) || !take_hash(&c, &header_hash))
        return corrupt(p, "the file ends inside its header", p->file->size, c.pos, err);
    if (version != PACK_VERSION)
        return och_err_set(err, OCH_CORRUPT, "%s: expected a pack of version %d, found version %u", p->file->path, PACK_VERSION,
                           version);
    if (!och_hash_equal(och_hash_bytes(data, PACK_HEADER_HASHED_BYTES), header_hash))
        return corrupt(p, "the header is not the one that was written", n, 0, err);
    if (file_bytes != p->file->size)
        return och_err_set(err, OCH_CORRUPT, "%s: expected a file of %llu bytes, found %llu", p->file->path,
                           (unsigned long long)file_bytes, (unsigned long long)p->file->size);
    if (n > PACK_MAX_ENTRIES) return corrupt(p, "expected at most a million entries", n, 12, err);
    if (table_bytes > PACK_MAX_TABLE_BYTES || table_bytes > och_cursor_left(&c))
        return corrupt(p, "the table ends beyond the file", table_bytes, 16, err);
    if (!och_hash_equal(och_hash_bytes(data + PACK_HEADER_BYTES, (size_t)table_bytes), table_hash))
        return corrupt(p, "the table is not the one that was written", table_bytes, PACK_HEADER_BYTES, err);
    /* an entry takes some 80 bytes at least: a count that the table cannot hold allocates nothing */
    if (n > table_bytes / 70) return corrupt(p, "expected as many entries as the table holds", n, 12, err);
    p->entries = och_arena_alloc(&p->arena, (size_t)n + 1, sizeof *p->entries);
    if (!p->entries) return och_err_nomem(err, (uint64_t)n * sizeof *p->entries, "a pack's table");
    uint64_t offset = PACK_HEADER_BYTES + table_bytes;
    och_cursor table = och_cursor_view(data, offset);
    (void)och_cursor_seek(&table, PACK_HEADER_BYTES);
    for (; p->n < n; p->n++) {
        uint64_t at = table.pos;
        OCH_TRY(read_entry(p, &table, &p->entries[p->n], &offset, err));
        if (p->n && och_pack_compare(&p->entries[p->n - 1], &p->entries[p->n]) >= 0)
            return corrupt(p, "expected the entries in ascending order, each once", p->n, at, err);
    }
    if (och_cursor_left(&table))
        return corrupt(p, "bytes follow the last entry of the table", och_cursor_left(&table), table.pos, err);
    if (offset != p->file->size)
        return corrupt(p, "bytes follow the last entry's contents", p->file->size - offset, offset, err);
    return OCH_OK;
}

/* Takes the mapping. */
static och_status open_mapping(och_mapping *file, och_pack **out_pack, och_err *err) {
    och_pack *p = och_calloc(1, sizeof *p);
    if (!p) {
        och_mapping_close(file);
        return och_err_nomem(err, sizeof *p, "a pack");
    }
    p->file = file;
    och_arena_init(&p->arena);
    och_status st = parse(p, err);
    if (st != OCH_OK) och_pack_close(p);
    else *out_pack = p;
    return st;
}

och_status och_pack_open(const char *path, och_pack **out_pack, och_err *err) {
    *out_pack = NULL;
    och_mapping *file;
    OCH_TRY(och_mapping_open(path, &file, err));
    return open_mapping(file, out_pack, err);
}

och_status och_pack_open_memory(const char *name, const void *bytes, size_t n_bytes, och_pack **out_pack, och_err *err) {
    *out_pack = NULL;
    och_mapping *file;
    OCH_TRY(och_mapping_open_memory(name, bytes, n_bytes, &file, err));
    return open_mapping(file, out_pack, err);
}

void och_pack_close(och_pack *p) {
    if (!p) return;
    och_arena_deinit(&p->arena);
    och_mapping_close(p->file);
    och_free(p);
}

const char *och_pack_path(const och_pack *p) { return p->file->path; }
const och_pack_entry *och_pack_at(const och_pack *p, size_t i) { return i < p->n ? &p->entries[i] : NULL; }

/* ---- finding ---- */

static int order(const och_pack_entry *e, const och_jit_job *job) {
    int c = strcmp(e->kernel, job->kernel);
    return c ? c : strcmp(e->specialisation, job->specialisation);
}

/* 0: it does not serve; more is better. */
static int rank(const och_pack_entry *e, const och_jit_job *job) {
    if (!e->target.target || e->wave_size != job->wave_size || !och_target_serves(&e->target, &job->target)) return 0;
    int asked = job->request->code_object_version, newest = job->request->newest_code_object_version;
    if (e->kind == OCH_JIT_HSACO && ((asked && e->code_object_version != asked) || (newest && e->code_object_version > newest)))
        return 0;
    int named =
        (e->target.sramecc != OCH_FEATURE_ANY) + (e->target.xnack != OCH_FEATURE_ANY); /* what it was compiled knowing */
    return (e->target.target == job->target.target ? 4 : 1) + named;
}

const och_pack_entry *och_pack_find(const och_pack *p, const och_jit_job *job, bool *out_stale) {
    *out_stale = false;
    if (!*job->kernel) return NULL;
    size_t low = 0, high = p->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (order(&p->entries[middle], job) < 0) low = middle + 1;
        else high = middle;
    }
    const och_pack_entry *best = NULL;
    int best_rank = 0;
    bool stale = false;
    for (size_t i = low; i < p->n && !order(&p->entries[i], job); i++) {
        const och_pack_entry *e = &p->entries[i];
        int r = rank(e, job);
        bool other = *job->source_id && *e->source_id && strcmp(job->source_id, e->source_id);
        stale |= r && other;
        if (other || r <= best_rank) continue;
        best = e;
        best_rank = r;
    }
    *out_stale = !best && stale;
    return best;
}

bool och_pack_covers(const och_pack *p, const och_target_id *target) {
    for (size_t i = 0; i < p->n; i++)
        if (p->entries[i].target.target && och_target_serves(&p->entries[i].target, target)) return true;
    return false;
}

void och_pack_put_targets(const och_pack *p, och_strbuf *out) {
    for (size_t i = 0; i < p->n; i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++) seen = !strcmp(p->entries[j].target_name, p->entries[i].target_name);
        if (!seen) och_strbuf_printf(out, " %s", p->entries[i].target_name);
    }
}

och_status och_pack_take(const och_pack *p, const och_pack_entry *e, uint8_t **out_block, och_err *err) {
    *out_block = NULL;
    size_t n = (size_t)(e->code_bytes + 1 + e->record_bytes);
    uint8_t *block = och_malloc(n);
    if (!block) return och_err_nomem(err, n, "a pack's code");
    const uint8_t *from = p->file->data + e->offset;
    memcpy(block, from, (size_t)e->code_bytes);
    block[e->code_bytes] = 0;
    memcpy(block + e->code_bytes + 1, from + e->code_bytes, (size_t)e->record_bytes);
    bool code = och_hash_equal(och_hash_bytes(block, (size_t)e->code_bytes), e->code_hash);
    bool record = och_hash_equal(och_hash_bytes(block + e->code_bytes + 1, (size_t)e->record_bytes), e->record_hash);
    if (!code || !record) {
        och_free(block);
        return och_err_set(err, OCH_CORRUPT, "%s: the %s of %s%s%s for %s is not what was written", p->file->path,
                           code ? "record" : "code", e->kernel, *e->specialisation ? " " : "", e->specialisation,
                           e->target_name);
    }
    *out_block = block;
    return OCH_OK;
}

och_status och_pack_verify(const och_pack *p, och_err *err) {
    for (size_t i = 0; i < p->n; i++) {
        uint8_t *block;
        OCH_TRY(och_pack_take(p, &p->entries[i], &block, err));
        och_free(block);
    }
    return OCH_OK;
}
