/* What the files of this room share: the object while it is built. */
#ifndef OCH_OBJ_PRIV_H
#define OCH_OBJ_PRIV_H

#include "base/arena.h"
#include "obj/obj.h"

#define OCH_OBJ_MAGIC "\177ELF"
#define OCH_OBJ_SHOW_BYTES 100

typedef struct obj_build {
    och_obj pub; /* first: och_obj_destroy gets a pointer to it */
    och_arena arena;
    const och_obj_symbol **by_name; /* [pub.n_symbols] */
    /* while parsing */
    const uint8_t *bytes;
    size_t n_bytes;
    const uint8_t *metadata; /* NULL: the object has none */
    size_t metadata_bytes;
} obj_build;

/* elf.c: the header, segments, symbols, relocations, and where the metadata is. */
och_status och_obj_elf_read(obj_build *b, och_err *err) OCH_WARN_UNUSED;
/* elf.c: the target of an ELF file by its header alone. */
och_status och_obj_elf_target(const uint8_t *bytes, size_t n_bytes, char out_target[64], och_err *err) OCH_WARN_UNUSED;
/* elf.c: the bytes of an ELF file by its own headers, when nobody says how many there are. */
och_status och_obj_elf_size(const uint8_t *bytes, size_t *out_n_bytes, och_err *err) OCH_WARN_UNUSED;
/* metadata.c: kernels, printf formats, and the check of the target. */
och_status och_obj_metadata_read(obj_build *b, och_err *err) OCH_WARN_UNUSED;

/* The n file bytes behind a virtual address; NULL unless all of them are in one segment's file part. */
const uint8_t *och_obj_at(const obj_build *b, uint64_t addr, uint64_t n);
/* Text of any content, cut and made printable for a message. */
const char *och_obj_show(char out[OCH_OBJ_SHOW_BYTES], const char *s, size_t n);

static inline uint64_t och_obj_le(const uint8_t *p, int n_bytes) {
    uint64_t v = 0;
    for (int i = 0; i < n_bytes; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

#endif
