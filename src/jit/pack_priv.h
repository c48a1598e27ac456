/* The numbers of the pack format, for its reader and its writer. */
#ifndef OCH_JIT_PACK_PRIV_H
#define OCH_JIT_PACK_PRIV_H

#include "jit/pack.h"

#define PACK_MAGIC "OCHREPAK"
#define PACK_VERSION 1
#define PACK_HEADER_BYTES 64
#define PACK_HEADER_HASHED_BYTES 48
#define PACK_MAX_ENTRIES (1u << 20)
#define PACK_MAX_BYTES ((uint64_t)1 << 32) /* of one code or record */
#define PACK_MAX_TABLE_BYTES ((uint64_t)1 << 30)

/* The table's order. */
int och_pack_compare(const och_pack_entry *a, const och_pack_entry *b);

#endif
