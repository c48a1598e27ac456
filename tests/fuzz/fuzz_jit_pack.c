/* A pack of any content: it opens or it says why not, and what it gives is inside what it was given. The hashes of the header
 * and the table are made right first, in half of the runs, so that what they guard is reached too. */
#include "base/alloc.h"
#include "jit/pack.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
}

static void put(uint8_t *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> (8 * i));
}

static void make_right(uint8_t *b, size_t size) {
    uint64_t table = 0;
    for (int i = 0; i < 8; i++) table |= (uint64_t)b[16 + i] << (8 * i);
    if (table > size - 64) return;
    put(b + 24, size);
    och_hash128 h = och_hash_bytes(b + 64, (size_t)table);
    put(b + 32, h.low), put(b + 40, h.high);
    h = och_hash_bytes(b, 48);
    put(b + 48, h.low), put(b + 56, h.high);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    int64_t live = och_alloc_live();
    uint8_t *bytes = malloc(size); /* of exactly that size: the sanitizers see a read beyond it */
    memcpy(bytes, data, size);
    if (size >= 64 && (data[size - 1] & 1)) make_right(bytes, size);
    och_pack *p;
    och_err e = {0};
    och_status st = och_pack_open_memory("fuzz", bytes, size, &p, &e);
    check(st == e.status);
    if (st != OCH_OK) {
        check(!p && e.message[0] && st == OCH_CORRUPT);
    } else {
        uint64_t end = 0;
        const och_pack_entry *entry;
        for (size_t i = 0; (entry = och_pack_at(p, i)); i++) {
            check(entry->offset <= size && entry->code_bytes <= size - entry->offset);
            check(entry->record_bytes <= size - entry->offset - entry->code_bytes && entry->offset >= end);
            end = entry->offset + entry->code_bytes + entry->record_bytes;
            check(*entry->kernel && strlen(entry->kernel) < size && strlen(entry->compiler) < size);
            uint8_t *block;
            och_err_clear(&e);
            if (och_pack_take(p, entry, &block, &e) == OCH_OK) och_free(block);
            else check(e.status == OCH_CORRUPT && e.message[0]);
            if (!entry->target.target) continue;
            och_jit_request q = {.kernel = entry->kernel, .specialisation = entry->specialisation, .target = entry->target_name, .wave_size = entry->wave_size};
            och_jit_job job;
            bool stale;
            if (och_jit_job_init(&q, &job, NULL) == OCH_OK) check(och_pack_find(p, &job, &stale) != NULL && och_pack_covers(p, &job.target));
        }
        check(!end || end == size);
        och_strbuf targets = {0};
        och_pack_put_targets(p, &targets);
        och_strbuf_deinit(&targets);
        och_pack_close(p);
    }
    free(bytes);
    check(och_alloc_live() == live);
    return 0;
}
