/* Parses and validates safetensors headers, one file or a folder of shards. Owns the mappings, names and metadata
 * (arena), the tensor table and its index; the JSON tree lives only while a header is read. */
#include "file/safetensors.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/size.h"
#include "base/strbuf.h"
#include "file/cursor.h"
#include "file/json.h"
#include "file/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct metadata {
    const char *key, *value; /* arena */
} metadata;

struct och_safetensors {
    och_arena arena;
    char *path; /* owned */
    och_mapping **maps;
    uint64_t n_maps, maps_capacity;
    och_file_tensor *tensors;
    uint64_t n_tensors, tensors_capacity;
    metadata *meta;
    uint64_t n_meta, meta_capacity;
    och_name_index names, meta_keys;
};

/* Bits of the format's dtypes that dtype.def has no row for: their sizes are checked though they cannot be used. */
static uint32_t foreign_bits(const char *dtype) {
    static const struct {
        const char *name;
        uint32_t bits;
    } rows[] = {{"U16", 16},    {"U32", 32},     {"U64", 64},        {"F8_E4M3", 8},      {"F8_E5M2", 8},
                {"F8_E8M0", 8}, {"C64", 64},     {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
                {"F6_E3M2", 6}, {"F4", 4}};
    for (size_t i = 0; i < OCH_COUNT(rows); i++)
        if (!strcmp(rows[i].name, dtype)) return rows[i].bits;
    return 0;
}

static och_status make_room(void **table, uint64_t n, uint64_t *capacity, size_t size, const char *what, och_err *err) {
    if (n < *capacity) return OCH_OK;
    uint64_t wider = *capacity ? *capacity * 2 : 16;
    void *p = och_realloc_array(*table, (size_t)wider, size);
    if (!p) return och_err_nomem(err, wider * size, what);
    *table = p;
    *capacity = wider;
    return OCH_OK;
}

static och_status bad_field(const och_mapping *m, const char *name, const char *field, const char *expected,
                            const json_t *found, och_err *err) {
    char show[OCH_NAME_SHOW_BYTES];
    return och_err_set(err, OCH_CORRUPT, "%s: tensor '%s': %s: expected %s, found %s", m->path,
                       och_name_show(show, name, strlen(name)), field, expected,
                       found ? och_json_type_name(found) : "no such field");
}

static och_status read_extent(const och_mapping *m, const char *name, const json_t *offsets, uint64_t data_bytes,
                              uint64_t *out_begin, uint64_t *out_end, och_err *err) {
    char show[OCH_NAME_SHOW_BYTES];
    *out_begin = *out_end = 0;
    const json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return bad_field(m, name, "data_offsets", "an array of two integers",
                         !json_is_array(offsets) ? offsets : b && !json_is_integer(b) ? b : e && !json_is_integer(e) ? e : offsets,
                         err);
    json_int_t begin = json_integer_value(b), end = json_integer_value(e);
    if (begin < 0 || end < begin || (uint64_t)end > data_bytes)
        return och_err_set(err, OCH_CORRUPT,
                           "%s: tensor '%s': data_offsets: expected 0 <= begin <= end <= %" PRIu64
                           " (the bytes of data in the file), found [%lld, %lld]",
                           m->path, och_name_show(show, name, strlen(name)), data_bytes, (long long)begin, (long long)end);
    *out_begin = (uint64_t)begin;
    *out_end = (uint64_t)end;
    return OCH_OK;
}

static och_status read_tensor(och_safetensors *s, const och_mapping *m, const char *name, const json_t *info,
                              uint64_t data_offset, och_file_tensor *t, och_err *err) {
    char show[OCH_NAME_SHOW_BYTES], shape_text[96];
    memset(t, 0, sizeof *t);
    t->name = och_arena_strndup(&s->arena, name, strlen(name));
    if (!t->name) return och_err_nomem(err, strlen(name) + 1, "a tensor name");
    if (!json_is_object(info)) return bad_field(m, name, "entry", "an object", info, err);

    const json_t *dtype = json_object_get(info, "dtype"), *shape = json_object_get(info, "shape");
    if (!json_is_string(dtype)) return bad_field(m, name, "dtype", "a string", dtype, err);
    if (!json_is_array(shape)) return bad_field(m, name, "shape", "an array of integers", shape, err);
    const char *type = json_string_value(dtype);
    char shown[OCH_NAME_SHOW_BYTES];
    och_name_show(shown, type, strlen(type));
    t->type_name = och_arena_strndup(&s->arena, shown, strlen(shown));
    if (!t->type_name) return och_err_nomem(err, strlen(shown) + 1, "a type name");
    t->dtype = och_dtype_from_safetensors(type);

    size_t rank = json_array_size(shape);
    uint64_t n_elems = 1, n_bits, begin, end;
    bool fits = true;
    if (rank > 64)
        return och_err_set(err, OCH_CORRUPT, "%s: tensor '%s': shape: expected at most 64 dimensions, found %zu", m->path,
                           och_name_show(show, name, strlen(name)), rank);
    t->rank = (int)rank;
    for (int d = 0; d < OCH_FILE_MAX_RANK; d++) t->shape[d] = 1;
    for (size_t d = 0; d < rank; d++) {
        const json_t *n = json_array_get(shape, d);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return och_err_set(err, OCH_CORRUPT,
                               "%s: tensor '%s': shape[%zu]: expected an integer that is not negative, found %s", m->path,
                               och_name_show(show, name, strlen(name)), d,
                               json_is_integer(n) ? "a negative one" : och_json_type_name(n));
        if (d < OCH_FILE_MAX_RANK) t->shape[d] = (uint64_t)json_integer_value(n);
        fits = fits && och_u64_mul(n_elems, (uint64_t)json_integer_value(n), &n_elems);
    }
    OCH_TRY(read_extent(m, name, json_object_get(info, "data_offsets"), m->size - data_offset, &begin, &end, err));
    t->size_bytes = end - begin;
    uint32_t bits = t->dtype != OCH_DTYPE_NONE ? och_dtype_get(t->dtype)->block_bytes * 8 : foreign_bits(type);
    if (!fits || (bits && (!och_u64_mul(n_elems, bits, &n_bits) || n_bits % 8 || n_bits / 8 != t->size_bytes)))
        return och_err_set(err, OCH_CORRUPT,
                           "%s: tensor '%s': data_offsets: expected the bytes of %s %s, found %" PRIu64, m->path,
                           och_name_show(show, name, strlen(name)), t->type_name,
                           och_file_tensor_shape_str(t, shape_text, sizeof shape_text), t->size_bytes);
    t->file_offset = data_offset + begin;
    t->data = m->data + t->file_offset;
    t->path = m->path;
    t->mapping = m;
    return OCH_OK;
}

static och_status read_metadata(och_safetensors *s, const och_mapping *m, json_t *object, och_err *err) {
    const char *key;
    json_t *v;
    char show[OCH_NAME_SHOW_BYTES];
    if (!json_is_object(object))
        return och_err_set(err, OCH_CORRUPT, "%s: __metadata__: expected an object of strings, found %s", m->path,
                           och_json_type_name(object));
    json_object_foreach(object, key, v) {
        uint32_t seen;
        bool is_new;
        if (!json_is_string(v))
            return och_err_set(err, OCH_CORRUPT, "%s: __metadata__: '%s': expected a string, found %s", m->path,
                               och_name_show(show, key, strlen(key)), och_json_type_name(v));
        if (och_name_index_find(&s->meta_keys, key, &seen)) continue;
        void *table = s->meta;
        OCH_TRY(make_room(&table, s->n_meta, &s->meta_capacity, sizeof *s->meta, "metadata", err));
        s->meta = table;
        metadata *at = &s->meta[s->n_meta];
        const char *text = json_string_value(v);
        at->key = och_arena_strndup(&s->arena, key, strlen(key));
        at->value = och_arena_strndup(&s->arena, text, strlen(text));
        if (!at->key || !at->value) return och_err_nomem(err, strlen(key) + strlen(text) + 2, "metadata");
        OCH_TRY(och_name_index_add(&s->meta_keys, at->key, (uint32_t)s->n_meta, &is_new, err));
        s->n_meta++;
    }
    return OCH_OK;
}

static int by_extent(const void *a, const void *b, void *ctx) {
    const och_file_tensor *t = ctx, *x = &t[*(const uint32_t *)a], *y = &t[*(const uint32_t *)b];
    if (x->file_offset != y->file_offset) return x->file_offset > y->file_offset ? 1 : -1;
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

/* The format wants the data section covered exactly: no hole, no overlap, nothing behind the last tensor. */
static och_status check_cover(const och_safetensors *s, const och_mapping *m, uint64_t first, uint64_t data_offset,
                              och_err *err) {
    och_status st = OCH_OK;
    char show[OCH_NAME_SHOW_BYTES], show2[OCH_NAME_SHOW_BYTES];
    uint64_t n = s->n_tensors - first, at = data_offset;
    och_file_tensor *t = n ? s->tensors + first : NULL;
    const char *before = NULL;
    uint32_t *order = och_malloc_array((size_t)n, sizeof *order);
    if (!order) return och_err_nomem(err, n * sizeof *order, "the order of tensors");
    for (uint64_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    if (n) qsort_r(order, (size_t)n, sizeof *order, by_extent, t);
    for (uint64_t i = 0; i < n; i++) {
        const och_file_tensor *x = &t[order[i]];
        if (x->file_offset != at) {
            st = och_err_set(err, OCH_CORRUPT,
                             "%s: tensor '%s': data_offsets: expected it to begin at %" PRIu64 ", where %s%s%s, found %" PRIu64
                             " (%s)",
                             m->path, och_name_show(show, x->name, strlen(x->name)), at - data_offset,
                             before ? "tensor '" : "the data begins",
                             before ? och_name_show(show2, before, strlen(before)) : "", before ? "' ends" : "",
                             x->file_offset - data_offset, x->file_offset < at ? "an overlap" : "a hole");
            goto done;
        }
        at += x->size_bytes;
        before = x->name;
    }
    if (at != m->size)
        st = och_err_set(err, OCH_CORRUPT,
                         "%s: data: expected the file to end with the last tensor, at byte %" PRIu64
                         ", found %" PRIu64 " bytes more",
                         m->path, at, m->size - at);
done:
    och_free(order);
    return st;
}

/* Adds one file. Takes the mapping, whatever happens. */
static och_status add_file_take(och_safetensors *s, och_mapping *m, och_err *err) {
    och_json doc = {0};
    const void *text;
    uint64_t n, first = s->n_tensors;
    char show[OCH_NAME_SHOW_BYTES];
    void *table = s->maps;
    och_status st = make_room(&table, s->n_maps, &s->maps_capacity, sizeof *s->maps, "shards", err);
    if (st != OCH_OK) {
        och_mapping_close(m);
        return st;
    }
    s->maps = table;
    s->maps[s->n_maps++] = m;

    och_cursor c = och_cursor_view(m->data, m->size);
    if (!och_cursor_u64(&c, &n) || och_cursor_left(&c) < 2)
        return och_err_set(err, OCH_CORRUPT,
                           "%s: size: expected at least 10 bytes (a header's length and \"{}\"), found %" PRIu64, m->path,
                           m->size);
    uint64_t most = OCH_MIN(och_cursor_left(&c), (uint64_t)OCH_SAFETENSORS_MAX_HEADER);
    if (n > most || n < 2)
        return och_err_set(err, OCH_CORRUPT, "%s: header length: expected 2 to %" PRIu64 ", found %" PRIu64, m->path, most, n);
    (void)och_cursor_bytes(&c, n, &text);
    st = och_json_load_memory(m->path, text, (size_t)n, &doc, err);
    if (st != OCH_OK) {
        (void)och_err_prefix(err, "safetensors header");
        return st;
    }
    if (!json_is_object(doc.root)) {
        st = och_err_set(err, OCH_CORRUPT, "%s: header: expected a JSON object, found %s", m->path,
                         och_json_type_name(doc.root));
        goto done;
    }
    const char *name;
    json_t *info;
    json_object_foreach(doc.root, name, info) {
        bool is_new;
        if (!strcmp(name, "__metadata__")) {
            OCH_TRY_GOTO(read_metadata(s, m, info, err));
            continue;
        }
        table = s->tensors;
        OCH_TRY_GOTO(make_room(&table, s->n_tensors, &s->tensors_capacity, sizeof *s->tensors, "the tensor records", err));
        s->tensors = table;
        och_file_tensor *t = &s->tensors[s->n_tensors];
        OCH_TRY_GOTO(read_tensor(s, m, name, info, c.pos, t, err));
        if (s->n_tensors >= UINT32_MAX) {
            st = och_err_set(err, OCH_CORRUPT, "%s: header: expected fewer than 2^32 tensors, found more", m->path);
            goto done;
        }
        OCH_TRY_GOTO(och_name_index_add(&s->names, t->name, (uint32_t)s->n_tensors, &is_new, err));
        if (!is_new) {
            const och_file_tensor *other = och_safetensors_find(s, name);
            st = och_err_set(err, OCH_CORRUPT, "%s: tensor '%s': expected it in one shard, found it in %s as well", m->path,
                             och_name_show(show, name, strlen(name)), other->path);
            goto done;
        }
        s->n_tensors++;
    }
    st = check_cover(s, m, first, c.pos, err);
done:
    och_json_deinit(&doc);
    return st;
}

static och_status create(const char *path, och_safetensors **out_s, och_err *err) {
    och_safetensors *s = och_calloc(1, sizeof *s);
    if (!s) return och_err_nomem(err, sizeof *s, "a safetensors file");
    och_arena_init(&s->arena);
    och_name_index_init(&s->names);
    och_name_index_init(&s->meta_keys);
    s->path = och_strdup(path);
    if (!s->path) {
        och_safetensors_close(s);
        return och_err_nomem(err, strlen(path) + 1, "a path");
    }
    *out_s = s;
    return OCH_OK;
}

static och_status finish(och_status st, och_safetensors *s, och_safetensors **out_s) {
    if (st == OCH_OK) *out_s = s;
    else och_safetensors_close(s);
    return st;
}

och_status och_safetensors_open(const char *path, och_safetensors **out_s, och_err *err) {
    och_safetensors *s = NULL;
    och_mapping *m;
    *out_s = NULL;
    OCH_TRY(create(path, &s, err));
    och_status st = och_mapping_open(path, &m, err);
    if (st == OCH_OK) st = add_file_take(s, m, err);
    return finish(st, s, out_s);
}

och_status och_safetensors_open_memory(const char *name, const void *data, uint64_t size, och_safetensors **out_s,
                                       och_err *err) {
    och_safetensors *s = NULL;
    och_mapping *m;
    *out_s = NULL;
    OCH_TRY(create(name, &s, err));
    och_status st = och_mapping_open_memory(name, data, size, &m, err);
    if (st == OCH_OK) st = add_file_take(s, m, err);
    return finish(st, s, out_s);
}

static och_status open_shard(och_safetensors *s, const char *dir, const char *shard, och_err *err) {
    och_mapping *m = NULL;
    och_strbuf path = {0};
    och_strbuf_printf(&path, "%s/%s", dir, shard);
    och_status st = och_strbuf_status(&path, err);
    if (st == OCH_OK) {
        st = och_mapping_open(och_strbuf_str(&path), &m, err);
        if (st != OCH_OK) (void)och_err_prefix(err, "shard '%s' that the index names", shard);
    }
    och_strbuf_deinit(&path);
    return st == OCH_OK ? add_file_take(s, m, err) : st;
}

/* Opens the shards of an index, in the order in which it first names them, and checks what it says. */
static och_status open_index(och_safetensors *s, const char *dir, const char *index_path, och_err *err) {
    och_json doc = {0};
    och_name_index shards;
    const char *name;
    json_t *map, *shard;
    char show[OCH_NAME_SHOW_BYTES];
    och_status st;
    och_name_index_init(&shards);
    OCH_TRY_GOTO(och_json_load(index_path, 0, &doc, err));
    OCH_TRY_GOTO(och_json_get_object(&doc, "weight_map", true, &map, err));
    json_object_foreach(map, name, shard) {
        const char *file = json_string_value(shard);
        char show_file[OCH_NAME_SHOW_BYTES];
        bool is_new;
        if (!file || !file[0] || file[0] == '.' || strchr(file, '/')) {
            st = och_err_set(err, OCH_CORRUPT, "%s: weight_map: '%s': expected the name of a file in the same folder, found %s",
                             index_path, och_name_show(show, name, strlen(name)),
                             file ? och_name_show(show_file, file, strlen(file)) : och_json_type_name(shard));
            goto done;
        }
        if (shards.count >= OCH_SAFETENSORS_MAX_SHARDS) {
            st = och_err_set(err, OCH_RANGE, "%s: weight_map: expected at most %d shards, found more", index_path,
                             OCH_SAFETENSORS_MAX_SHARDS);
            goto done;
        }
        OCH_TRY_GOTO(och_name_index_add(&shards, file, (uint32_t)shards.count, &is_new, err));
        if (is_new) OCH_TRY_GOTO(open_shard(s, dir, file, err));
    }
    json_object_foreach(map, name, shard) {
        const och_file_tensor *t = och_safetensors_find(s, name);
        const char *file = json_string_value(shard), *slash = t ? strrchr(t->path, '/') : NULL;
        if (t && slash && !strcmp(slash + 1, file)) continue;
        st = och_err_set(err, OCH_CORRUPT, "%s: weight_map: '%s': expected the tensor in shard '%s', found it in %s",
                         index_path, och_name_show(show, name, strlen(name)), file, t ? t->path : "none of the shards");
        goto done;
    }
done:
    och_name_index_deinit(&shards);
    och_json_deinit(&doc);
    return st;
}

och_status och_safetensors_open_dir(const char *dir, och_safetensors **out_s, och_err *err) {
    och_strbuf index = {0}, single = {0};
    och_safetensors *s = NULL;
    och_mapping *m;
    och_status st;
    *out_s = NULL;
    och_strbuf_printf(&index, "%s/model.safetensors.index.json", dir);
    och_strbuf_printf(&single, "%s/model.safetensors", dir);
    OCH_TRY_GOTO(och_strbuf_status(&index, err));
    OCH_TRY_GOTO(och_strbuf_status(&single, err));
    OCH_TRY_GOTO(create(dir, &s, err));
    if (access(index.data, F_OK) == 0) {
        st = open_index(s, dir, index.data, err);
    } else if (access(single.data, F_OK) == 0) {
        st = och_mapping_open(single.data, &m, err);
        if (st == OCH_OK) st = add_file_take(s, m, err);
    } else {
        st = och_err_set(err, OCH_NOTFOUND,
                         "%s: expected model.safetensors.index.json or model.safetensors, found neither", dir);
    }
    st = finish(st, s, out_s);
done:
    och_strbuf_deinit(&index);
    och_strbuf_deinit(&single);
    return st;
}

void och_safetensors_close(och_safetensors *s) {
    if (!s) return;
    for (uint64_t i = 0; i < s->n_maps; i++) och_mapping_close(s->maps[i]);
    och_free(s->maps);
    och_free(s->tensors);
    och_free(s->meta);
    och_name_index_deinit(&s->names);
    och_name_index_deinit(&s->meta_keys);
    och_arena_deinit(&s->arena);
    och_free(s->path);
    och_free(s);
}

const char *och_safetensors_path(const och_safetensors *s) { return s->path; }
uint64_t och_safetensors_n_shards(const och_safetensors *s) { return s->n_maps; }
const och_mapping *och_safetensors_mapping(const och_safetensors *s, uint64_t shard) {
    return shard < s->n_maps ? s->maps[shard] : NULL;
}
uint64_t och_safetensors_n_tensors(const och_safetensors *s) { return s->n_tensors; }
const och_file_tensor *och_safetensors_tensor(const och_safetensors *s, uint64_t i) {
    return i < s->n_tensors ? &s->tensors[i] : NULL;
}
const och_file_tensor *och_safetensors_find(const och_safetensors *s, const char *name) {
    uint32_t i;
    return och_name_index_find(&s->names, name, &i) ? &s->tensors[i] : NULL;
}
uint64_t och_safetensors_n_metadata(const och_safetensors *s) { return s->n_meta; }
void och_safetensors_metadata_at(const och_safetensors *s, uint64_t i, const char **out_key, const char **out_value) {
    *out_key = i < s->n_meta ? s->meta[i].key : NULL;
    *out_value = i < s->n_meta ? s->meta[i].value : NULL;
}
const char *och_safetensors_metadata(const och_safetensors *s, const char *key) {
    uint32_t i;
    return och_name_index_find(&s->meta_keys, key, &i) ? s->meta[i].value : NULL;
}
