/* Reads the metadata note (MessagePack; LLVM AMDGPUUsage, "Code Object Metadata") and, for each kernel that it names, the
 * kernel descriptor. The library's tree lives only while this file works; results are copies in the object's arena. */
#include "obj/priv.h"

#include "base/size.h"

#include <inttypes.h>
#include <msgpack.h>
#include <string.h>

#define MAX_DEPTH 16
#define DESCRIPTOR_BYTES 64

static const char *const arg_kinds[] = {
    [OCH_ARG_BY_VALUE] = "by_value",
    [OCH_ARG_GLOBAL_BUFFER] = "global_buffer",
    [OCH_ARG_DYNAMIC_SHARED_POINTER] = "dynamic_shared_pointer",
    [OCH_ARG_SAMPLER] = "sampler",
    [OCH_ARG_IMAGE] = "image",
    [OCH_ARG_PIPE] = "pipe",
    [OCH_ARG_QUEUE] = "queue",
    [OCH_ARG_HIDDEN_GLOBAL_OFFSET_X] = "hidden_global_offset_x",
    [OCH_ARG_HIDDEN_GLOBAL_OFFSET_Y] = "hidden_global_offset_y",
    [OCH_ARG_HIDDEN_GLOBAL_OFFSET_Z] = "hidden_global_offset_z",
    [OCH_ARG_HIDDEN_NONE] = "hidden_none",
    [OCH_ARG_HIDDEN_PRINTF_BUFFER] = "hidden_printf_buffer",
    [OCH_ARG_HIDDEN_HOSTCALL_BUFFER] = "hidden_hostcall_buffer",
    [OCH_ARG_HIDDEN_DEFAULT_QUEUE] = "hidden_default_queue",
    [OCH_ARG_HIDDEN_COMPLETION_ACTION] = "hidden_completion_action",
    [OCH_ARG_HIDDEN_MULTIGRID_SYNC_ARG] = "hidden_multigrid_sync_arg",
    [OCH_ARG_HIDDEN_BLOCK_COUNT_X] = "hidden_block_count_x",
    [OCH_ARG_HIDDEN_BLOCK_COUNT_Y] = "hidden_block_count_y",
    [OCH_ARG_HIDDEN_BLOCK_COUNT_Z] = "hidden_block_count_z",
    [OCH_ARG_HIDDEN_GROUP_SIZE_X] = "hidden_group_size_x",
    [OCH_ARG_HIDDEN_GROUP_SIZE_Y] = "hidden_group_size_y",
    [OCH_ARG_HIDDEN_GROUP_SIZE_Z] = "hidden_group_size_z",
    [OCH_ARG_HIDDEN_REMAINDER_X] = "hidden_remainder_x",
    [OCH_ARG_HIDDEN_REMAINDER_Y] = "hidden_remainder_y",
    [OCH_ARG_HIDDEN_REMAINDER_Z] = "hidden_remainder_z",
    [OCH_ARG_HIDDEN_GRID_DIMS] = "hidden_grid_dims",
    [OCH_ARG_HIDDEN_HEAP_V1] = "hidden_heap_v1",
    [OCH_ARG_HIDDEN_DYNAMIC_LDS_SIZE] = "hidden_dynamic_lds_size",
    [OCH_ARG_HIDDEN_PRIVATE_BASE] = "hidden_private_base",
    [OCH_ARG_HIDDEN_SHARED_BASE] = "hidden_shared_base",
    [OCH_ARG_HIDDEN_QUEUE_PTR] = "hidden_queue_ptr",
};
_Static_assert(OCH_COUNT(arg_kinds) == OCH_ARG_UNKNOWN, "a kind has no text");

/* ---- the document ---- */

/* The library allocates what an array's or a map's head claims before it has seen the elements. So the heads are followed
 * here first: a document that passes holds every element that it announces. *out_at is where it went wrong. */
static bool whole_document(const uint8_t *p, size_t n, size_t *out_at) {
    uint64_t left[MAX_DEPTH] = {1};
    int depth = 0;
    size_t at = 0;
    for (;;) {
        while (!left[depth])
            if (depth-- == 0) return true;
        left[depth]--;
        *out_at = at;
        if (at >= n) return false;
        uint8_t tag = p[at++];
        uint64_t skip = 0, children = 0;
        int length_bytes = 0;  /* of a length or a count that follows */
        unsigned child_of = 0; /* elements a count stands for: 1 array, 2 map, 0 bytes to skip */
        if (tag >= 0x80 && tag <= 0x8F) children = 2 * (tag & 15u);
        else if (tag >= 0x90 && tag <= 0x9F) children = tag & 15u;
        else if (tag >= 0xA0 && tag <= 0xBF) skip = tag & 31u;
        else if (tag == 0xC1) return false;
        else if (tag >= 0xC4 && tag <= 0xC6) length_bytes = 1 << (tag - 0xC4);
        else if (tag >= 0xC7 && tag <= 0xC9) length_bytes = 1 << (tag - 0xC7), skip = 1;
        else if (tag == 0xCA || tag == 0xCB) skip = tag == 0xCA ? 4 : 8;
        else if (tag >= 0xCC && tag <= 0xCF) skip = 1u << (tag - 0xCC);
        else if (tag >= 0xD0 && tag <= 0xD3) skip = 1u << (tag - 0xD0);
        else if (tag >= 0xD4 && tag <= 0xD8) skip = 1 + (1u << (tag - 0xD4));
        else if (tag >= 0xD9 && tag <= 0xDB) length_bytes = 1 << (tag - 0xD9);
        else if (tag == 0xDC || tag == 0xDD) length_bytes = tag == 0xDC ? 2 : 4, child_of = 1;
        else if (tag == 0xDE || tag == 0xDF) length_bytes = tag == 0xDE ? 2 : 4, child_of = 2;
        if (length_bytes) {
            if ((size_t)length_bytes > n - at) return false;
            uint64_t count = 0;
            for (int i = 0; i < length_bytes; i++) count = count << 8 | p[at++];
            if (child_of) children = count * child_of;
            else skip += count;
        }
        if (skip > n - at) return false;
        at += (size_t)skip;
        if (children) {
            if (++depth == MAX_DEPTH) return false;
            left[depth] = children;
        }
    }
}

static const msgpack_object *get(const msgpack_object *map, const char *key) {
    size_t n = strlen(key);
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object *k = &map->via.map.ptr[i].key;
        if (k->type == MSGPACK_OBJECT_STR && k->via.str.size == n && !memcmp(k->via.str.ptr, key, n))
            return &map->via.map.ptr[i].val;
    }
    return NULL;
}

static const char *type_name(const msgpack_object *o) {
    if (!o) return "no such key";
    switch (o->type) {
    case MSGPACK_OBJECT_NIL: return "nil";
    case MSGPACK_OBJECT_BOOLEAN: return "a boolean";
    case MSGPACK_OBJECT_POSITIVE_INTEGER: return "an integer that is too large";
    case MSGPACK_OBJECT_NEGATIVE_INTEGER: return "a negative integer";
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64: return "a float";
    case MSGPACK_OBJECT_STR: return "a string";
    case MSGPACK_OBJECT_ARRAY: return "an array";
    case MSGPACK_OBJECT_MAP: return "a map";
    case MSGPACK_OBJECT_BIN:
    case MSGPACK_OBJECT_EXT: break;
    }
    return "bytes";
}

/* What is read, for messages. */
typedef struct reader {
    obj_build *b;
    const char *kernel; /* "" outside one */
    och_err *err;
} reader;

static och_status bad(const reader *r, const char *key, const char *expected, const msgpack_object *found) {
    char show[OCH_OBJ_SHOW_BYTES];
    bool in = r->kernel[0] != 0;
    return och_err_set(r->err, OCH_CORRUPT, "code object: metadata: %s%s%s%s: expected %s, found %s", in ? "kernel '" : "",
                       in ? och_obj_show(show, r->kernel, strlen(r->kernel)) : "", in ? "': " : "", key, expected,
                       type_name(found));
}

static och_status get_u32(const reader *r, const msgpack_object *map, const char *key, bool required, uint32_t *inout_v) {
    const msgpack_object *o = get(map, key);
    if (!o && !required) return OCH_OK;
    if (!o || o->type != MSGPACK_OBJECT_POSITIVE_INTEGER || o->via.u64 > UINT32_MAX)
        return bad(r, key, "an integer below 2^32", o);
    *inout_v = (uint32_t)o->via.u64;
    return OCH_OK;
}

static och_status get_flag(const reader *r, const msgpack_object *map, const char *key, bool *out_v) {
    const msgpack_object *o = get(map, key);
    if (!o) return OCH_OK;
    if (o->type == MSGPACK_OBJECT_BOOLEAN) *out_v = o->via.boolean;
    else if (o->type == MSGPACK_OBJECT_POSITIVE_INTEGER) *out_v = o->via.u64 != 0; /* .uniform_work_group_size is one */
    else return bad(r, key, "a boolean", o);
    return OCH_OK;
}

static och_status copy_text(const reader *r, const msgpack_object *o, const char *key, const char **out_text) {
    if (!o || o->type != MSGPACK_OBJECT_STR) return bad(r, key, "a string", o);
    if (memchr(o->via.str.ptr, 0, o->via.str.size)) return bad(r, key, "text without a NUL", o);
    *out_text = och_arena_strndup(&r->b->arena, o->via.str.ptr, o->via.str.size);
    return *out_text ? OCH_OK : och_err_nomem(r->err, o->via.str.size + 1, "metadata");
}

static och_status get_text(const reader *r, const msgpack_object *map, const char *key, bool required, const char **out_text) {
    const msgpack_object *o = get(map, key);
    *out_text = "";
    return o || required ? copy_text(r, o, key, out_text) : OCH_OK;
}

/* ---- kernels ---- */

static och_status read_arg(const reader *r, const msgpack_object *map, uint32_t kernarg_bytes, och_obj_arg *a) {
    if (map->type != MSGPACK_OBJECT_MAP) return bad(r, ".args", "maps", map);
    OCH_TRY(get_text(r, map, ".name", false, &a->name));
    OCH_TRY(get_text(r, map, ".type_name", false, &a->type_name));
    OCH_TRY(get_text(r, map, ".value_kind", true, &a->value_kind));
    OCH_TRY(get_u32(r, map, ".offset", true, &a->offset));
    OCH_TRY(get_u32(r, map, ".size", true, &a->size));
    int kind = 0;
    while (kind < OCH_ARG_UNKNOWN && strcmp(arg_kinds[kind], a->value_kind)) kind++;
    a->kind = (och_obj_arg_kind)kind;
    char show[OCH_OBJ_SHOW_BYTES];
    if (a->size > kernarg_bytes || a->offset > kernarg_bytes - a->size)
        return och_err_set(
            r->err, OCH_CORRUPT,
            "code object: metadata: kernel '%s': an argument: expected it inside %u bytes of arguments, found %u at %u",
            och_obj_show(show, r->kernel, strlen(r->kernel)), kernarg_bytes, a->size, a->offset);
    return OCH_OK;
}

static och_status read_descriptor(const reader *r, och_obj_kernel *k) {
    char show[OCH_OBJ_SHOW_BYTES];
    const obj_build *b = r->b;
    const och_obj_symbol *s = och_obj_find_symbol(&b->pub, k->symbol);
    const uint8_t *d = s && s->defined && !s->absolute ? och_obj_at(b, s->addr, DESCRIPTOR_BYTES) : NULL;
    if (!d)
        return och_err_set(r->err, OCH_CORRUPT, "code object: kernel descriptor '%s': expected %d bytes in a segment, found %s",
                           och_obj_show(show, k->symbol, strlen(k->symbol)), DESCRIPTOR_BYTES,
                           s ? "a symbol without them" : "no such symbol");
    k->descriptor_addr = s->addr;
    k->group_bytes = (uint32_t)och_obj_le(d, 4);
    k->private_bytes = (uint32_t)och_obj_le(d + 4, 4);
    k->kernarg_bytes = (uint32_t)och_obj_le(d + 8, 4);
    k->entry_addr = s->addr + och_obj_le(d + 16, 8);
    k->rsrc3 = (uint32_t)och_obj_le(d + 44, 4);
    k->rsrc1 = (uint32_t)och_obj_le(d + 48, 4);
    k->rsrc2 = (uint32_t)och_obj_le(d + 52, 4);
    k->properties = (uint16_t)och_obj_le(d + 56, 2);
    k->kernarg_preload = (uint16_t)och_obj_le(d + 58, 2);
    if (k->entry_addr < b->pub.text_addr || k->entry_addr - b->pub.text_addr >= b->pub.text_bytes || k->entry_addr % 4)
        return och_err_set(r->err, OCH_CORRUPT,
                           "code object: kernel descriptor '%s': expected an entry in the code from 0x%" PRIx64 " to 0x%" PRIx64
                           ", found 0x%" PRIx64,
                           och_obj_show(show, k->symbol, strlen(k->symbol)), b->pub.text_addr,
                           b->pub.text_addr + b->pub.text_bytes, k->entry_addr);
    return OCH_OK;
}

static och_status read_kernel(reader *r, const msgpack_object *map, och_obj_kernel *k) {
    uint32_t kernarg = 0;
    r->kernel = "";
    if (map->type != MSGPACK_OBJECT_MAP) return bad(r, "amdhsa.kernels", "maps", map);
    OCH_TRY(get_text(r, map, ".name", true, &k->name));
    r->kernel = k->name;
    OCH_TRY(get_text(r, map, ".symbol", true, &k->symbol));
    OCH_TRY(read_descriptor(r, k));
    const struct {
        const char *key;
        uint32_t *v;
    } numbers[] = {{".kernarg_segment_size", &kernarg},
                   {".kernarg_segment_align", &k->kernarg_align},
                   {".wavefront_size", &k->wave_size},
                   {".sgpr_count", &k->sgprs},
                   {".vgpr_count", &k->vgprs},
                   {".agpr_count", &k->agprs},
                   {".sgpr_spill_count", &k->sgpr_spills},
                   {".vgpr_spill_count", &k->vgpr_spills},
                   {".max_flat_workgroup_size", &k->max_flat_workgroup_size}};
    for (size_t i = 0; i < OCH_COUNT(numbers); i++) OCH_TRY(get_u32(r, map, numbers[i].key, false, numbers[i].v));
    OCH_TRY(get_flag(r, map, ".uses_dynamic_stack", &k->dynamic_stack));
    OCH_TRY(get_flag(r, map, ".uniform_work_group_size", &k->uniform_workgroup));
    k->kernarg_bytes = OCH_MAX(k->kernarg_bytes, kernarg);

    const msgpack_object *o = get(map, ".reqd_workgroup_size");
    if (o) {
        if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size != 3)
            return bad(r, ".reqd_workgroup_size", "three integers", o);
        for (int i = 0; i < 3; i++) {
            const msgpack_object *v = &o->via.array.ptr[i];
            if (v->type != MSGPACK_OBJECT_POSITIVE_INTEGER || v->via.u64 > UINT32_MAX)
                return bad(r, ".reqd_workgroup_size", "integers below 2^32", v);
            k->reqd_workgroup_size[i] = (uint32_t)v->via.u64;
        }
    }
    o = get(map, ".args");
    if (!o) return OCH_OK;
    if (o->type != MSGPACK_OBJECT_ARRAY) return bad(r, ".args", "an array", o);
    och_obj_arg *args = och_arena_alloc(&r->b->arena, o->via.array.size, sizeof *args);
    if (!args) return och_err_nomem(r->err, o->via.array.size * sizeof *args, "arguments");
    for (uint32_t i = 0; i < o->via.array.size; i++) OCH_TRY(read_arg(r, &o->via.array.ptr[i], k->kernarg_bytes, &args[i]));
    k->args = args;
    k->n_args = o->via.array.size;
    return OCH_OK;
}

/* "amdgcn-amd-amdhsa--gfx942:xnack-": what follows the fourth dash. */
static och_status check_target(const reader *r, const msgpack_object *root) {
    const msgpack_object *o = get(root, "amdhsa.target");
    if (!o) return OCH_OK;
    if (o->type != MSGPACK_OBJECT_STR) return bad(r, "amdhsa.target", "a string", o);
    const char *at = o->via.str.ptr, *end = at + o->via.str.size;
    for (int i = 0; i < 4 && at; i++) {
        at = memchr(at, '-', (size_t)(end - at));
        if (at) at++;
    }
    char show[OCH_OBJ_SHOW_BYTES];
    size_t n = strlen(r->b->pub.target);
    if (!at || (size_t)(end - at) != n || memcmp(at, r->b->pub.target, n))
        return och_err_set(r->err, OCH_CORRUPT,
                           "code object: metadata: amdhsa.target: expected it to name %s as the ELF header does, found '%s'",
                           r->b->pub.target, och_obj_show(show, o->via.str.ptr, o->via.str.size));
    return OCH_OK;
}

static och_status read_root(reader *r, const msgpack_object *root) {
    if (root->type != MSGPACK_OBJECT_MAP) return bad(r, "document", "a map", root);
    OCH_TRY(check_target(r, root));
    const msgpack_object *o = get(root, "amdhsa.printf");
    if (o) {
        if (o->type != MSGPACK_OBJECT_ARRAY) return bad(r, "amdhsa.printf", "an array", o);
        const char **formats = och_arena_alloc(&r->b->arena, o->via.array.size, sizeof *formats);
        if (!formats) return och_err_nomem(r->err, o->via.array.size * sizeof *formats, "printf formats");
        for (uint32_t i = 0; i < o->via.array.size; i++)
            OCH_TRY(copy_text(r, &o->via.array.ptr[i], "amdhsa.printf", &formats[i]));
        r->b->pub.printf_formats = formats;
        r->b->pub.n_printf = o->via.array.size;
    }
    o = get(root, "amdhsa.kernels");
    if (!o) return OCH_OK;
    if (o->type != MSGPACK_OBJECT_ARRAY) return bad(r, "amdhsa.kernels", "an array", o);
    och_obj_kernel *kernels = och_arena_alloc(&r->b->arena, o->via.array.size, sizeof *kernels);
    if (!kernels) return och_err_nomem(r->err, o->via.array.size * sizeof *kernels, "kernels");
    for (uint32_t i = 0; i < o->via.array.size; i++) OCH_TRY(read_kernel(r, &o->via.array.ptr[i], &kernels[i]));
    r->b->pub.kernels = kernels;
    r->b->pub.n_kernels = o->via.array.size;
    return OCH_OK;
}

och_status och_obj_metadata_read(obj_build *b, och_err *err) {
    size_t at = 0;
    if (!b->metadata) return OCH_OK; /* variables only, or an assembler's output without metadata: nothing to launch */
    if (!whole_document(b->metadata, b->metadata_bytes, &at))
        return och_err_set(
            err, OCH_CORRUPT,
            "code object: metadata: expected MessagePack nested at most %d deep, found a break at byte %zu of %zu",
            MAX_DEPTH - 1, at, b->metadata_bytes);
    msgpack_unpacked doc;
    msgpack_unpacked_init(&doc);
    size_t used = 0;
    msgpack_unpack_return ret = msgpack_unpack_next(&doc, (const char *)b->metadata, b->metadata_bytes, &used);
    och_status st;
    if (ret == MSGPACK_UNPACK_SUCCESS || ret == MSGPACK_UNPACK_EXTRA_BYTES) {
        reader r = {.b = b, .kernel = "", .err = err};
        st = read_root(&r, &doc.data);
    } else if (ret == MSGPACK_UNPACK_NOMEM_ERROR) {
        st = och_err_nomem(err, b->metadata_bytes, "metadata");
    } else {
        st = och_err_set(err, OCH_CORRUPT, "code object: metadata: expected MessagePack, found a break at byte %zu of %zu",
                         used, b->metadata_bytes);
    }
    msgpack_unpacked_destroy(&doc);
    return st;
}
