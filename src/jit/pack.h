/* Packs: one file with the kernels of a list of targets, for machines without a compiler.
 *
 *   header   64 bytes: "OCHREPAK", u32 version (1), u32 entries, u64 bytes of the table, u64 bytes of the file, hash of the
 *            table, hash of the 48 bytes before
 *   table    an entry: u32 kind, u32 wave size, u32 code object version, u64 code bytes, u64 record bytes, hash of the code, of
 *            the record; u16 length and bytes of kernel, specialisation, source id, target, compiler. Ascending by kernel,
 *            specialisation, target, wave size, version; no two the same
 *   contents code and record of each entry, in the table's order, nothing between them
 *
 * Integers have their low byte first; hashes are XXH3's 128 bits, low half first. Header and table are checked when a pack is
 * opened, an entry's bytes whenever they are taken. */
#ifndef OCH_JIT_PACK_H
#define OCH_JIT_PACK_H

#include "base/hash.h"
#include "jit/job.h"

#define OCH_PACK_SUFFIX ".okpack"

typedef struct och_pack och_pack;

typedef struct och_pack_entry {
    const char *kernel, *specialisation, *source_id, *compiler;
    const char *target_name;
    och_target_id target; /* .target NULL: one that this version does not know; it is never given out */
    och_jit_code_kind kind;
    int wave_size, code_object_version;
    uint64_t code_bytes, record_bytes;
    uint64_t offset; /* of the code in the file; the record follows */
    och_hash128 code_hash, record_hash;
} och_pack_entry;

/* NOTFOUND, IO, CORRUPT: what was expected, found, and where. */
och_status och_pack_open(const char *path, och_pack **out_pack, och_err *err) OCH_WARN_UNUSED;
/* `bytes` is borrowed for the pack's life; `name` stands for the path. */
och_status och_pack_open_memory(const char *name, const void *bytes, size_t n_bytes, och_pack **out_pack, och_err *err)
    OCH_WARN_UNUSED;
void och_pack_close(och_pack *pack); /* NULL is allowed */
const char *och_pack_path(const och_pack *pack);
const och_pack_entry *och_pack_at(const och_pack *pack, size_t i); /* NULL past the end */

/* The entry that serves the job best: of a code object version that the request allows; for the job's base target before a
 * generic one, and of those the one that names more features. NULL for none; *out_stale then says that one would have served
 * but for its source id. */
const och_pack_entry *och_pack_find(const och_pack *pack, const och_jit_job *job, bool *out_stale);
/* Whether any entry is for what serves the target. */
bool och_pack_covers(const och_pack *pack, const och_target_id *target);
/* The targets that it has, once each, after a blank. */
void och_pack_put_targets(const och_pack *pack, och_strbuf *out);

/* Copies an entry's bytes, checked: one block, to be freed with och_free: the code, a NUL, the record. CORRUPT. */
och_status och_pack_take(const och_pack *pack, const och_pack_entry *entry, uint8_t **out_block, och_err *err) OCH_WARN_UNUSED;
/* Checks the bytes of every entry. */
och_status och_pack_verify(const och_pack *pack, och_err *err) OCH_WARN_UNUSED;

/* ---- making one ---- */

typedef struct och_pack_writer och_pack_writer;

och_status och_pack_writer_create(och_pack_writer **out_writer, och_err *err) OCH_WARN_UNUSED;
/* Adds what och_jit_get gave for the request (the artifact's target is the entry's); everything is copied. INVALID: no kernel
 * name, or that entry is there already. RANGE: more than the format holds. */
och_status och_pack_writer_add(och_pack_writer *writer, const och_jit_request *request, const och_jit_artifact *artifact,
                               och_err *err) OCH_WARN_UNUSED;
/* Writes the file, atomically. Any number of times. */
och_status och_pack_writer_write(och_pack_writer *writer, const char *path, och_err *err) OCH_WARN_UNUSED;
void och_pack_writer_destroy(och_pack_writer *writer); /* NULL is allowed */

/* ---- those of a machine ---- */

typedef struct och_packs {
    och_pack **items; /* owned */
    size_t n;
} och_packs;

/* Opens `given`, then (unless only_given) OCHRE_PACK's, then NAME.okpack of the program's folder, then of
 * ../share/ochre/packs from there. A folder stands for the packs in it, by name. A pack that is broken, or given and not
 * there, is a warning and left out. */
och_status och_packs_open(const char *const *given, size_t n_given, bool only_given, och_packs *out_packs, och_err *err)
    OCH_WARN_UNUSED;
void och_packs_close(och_packs *packs);

#endif
