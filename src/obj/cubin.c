/* Code for NVIDIA's devices as far as a launch asks: its kernels and their parameters. A cubin is an ELF file whose section
 * .nv.info.NAME describes kernel NAME and whose .nv.info describes all (NVIDIA does not document it: what cuobjdump prints of
 * it is known); PTX is text (PTX ISA, "Kernel Function Parameters"). */
#include "obj/priv.h"

#include "base/alloc.h"
#include "base/size.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define LANES 32
enum { EM_CUBIN = 190 };
/* A record: a form, an attribute, and 16 bits that are a value or, of the last form, the bytes that follow. */
enum { FORM_BYTES = 4 };
enum { FRAME_SIZE = 0x11, REGISTERS = 0x2f, MAX_THREADS = 0x05, PARAMETER = 0x17 };

typedef struct cubin {
    obj_build *b;
    const uint8_t *bytes;
    uint64_t n_bytes;
    uint64_t sections, n_sections, names; /* offsets of tables; names: the section with the names */
    och_obj_kernel *kernels;
    och_err *err;
} cubin;

static och_status broken(och_err *err, const char *what) {
    return och_err_set(err, OCH_CORRUPT, "a cubin: %s is not within the file, or is of another size than expected", what);
}

static bool inside(const cubin *c, uint64_t at, uint64_t n) { return at <= c->n_bytes && n <= c->n_bytes - at; }

static bool section(const cubin *c, uint64_t i, Elf64_Shdr *out) {
    if (i >= c->n_sections) return false;
    memcpy(out, c->bytes + c->sections + i * sizeof *out, sizeof *out); /* the table is inside */
    return out->sh_type == SHT_NOBITS || inside(c, out->sh_offset, out->sh_size);
}

/* Text of a table of strings; NULL where it does not end within it. */
static const char *text_at(const cubin *c, uint64_t table, uint64_t at) {
    Elf64_Shdr s;
    if (!section(c, table, &s) || s.sh_type == SHT_NOBITS || at >= s.sh_size) return NULL;
    const char *text = (const char *)c->bytes + s.sh_offset + at;
    return memchr(text, 0, s.sh_size - at) ? text : NULL;
}

static const char *name_of(const cubin *c, const Elf64_Shdr *s) {
    const char *name = text_at(c, c->names, s->sh_name);
    return name ? name : "";
}

static och_obj_kernel *kernel_named(const cubin *c, const char *name) {
    for (size_t i = 0; i < c->b->pub.n_kernels; i++)
        if (!strcmp(c->kernels[i].name, name)) return &c->kernels[i];
    return NULL;
}

/* The kernel that a record of .nv.info means by the index of its symbol; NULL: none, or a function that is no kernel. */
static och_obj_kernel *kernel_of_symbol(const cubin *c, uint64_t index) {
    Elf64_Shdr s;
    for (uint64_t i = 0; i < c->n_sections; i++) {
        if (!section(c, i, &s) || s.sh_type != SHT_SYMTAB) continue;
        if (index >= s.sh_size / sizeof(Elf64_Sym)) return NULL;
        Elf64_Sym symbol;
        memcpy(&symbol, c->bytes + s.sh_offset + index * sizeof symbol, sizeof symbol);
        const char *name = text_at(c, s.sh_link, symbol.st_name);
        return name ? kernel_named(c, name) : NULL;
    }
    return NULL;
}

static void take_fact(const cubin *c, unsigned attribute, const uint8_t *value, uint64_t n) {
    och_obj_kernel *k = n >= 8 ? kernel_of_symbol(c, och_obj_le(value, 4)) : NULL;
    if (k && attribute == REGISTERS) k->vgprs = (uint32_t)och_obj_le(value + 4, 4);
    if (k && attribute == FRAME_SIZE) k->private_bytes = (uint32_t)och_obj_le(value + 4, 4);
}

/* A parameter: 4 bytes, its number, its offset, and 32 bits of which the upper 14 are its size. They come last first. */
static bool take_parameter(och_obj_kernel *k, och_obj_arg *args, const uint8_t *value, uint64_t n) {
    if (n < 12) return false;
    uint64_t ordinal = och_obj_le(value + 4, 2);
    if (ordinal >= k->n_args) return false;
    och_obj_arg *a = &args[ordinal];
    a->offset = (uint32_t)och_obj_le(value + 6, 2);
    a->size = (uint32_t)och_obj_le(value + 8, 4) >> 18;
    a->kind = a->size == 8 ? OCH_ARG_GLOBAL_BUFFER : OCH_ARG_BY_VALUE; /* a pointer, as far as anything tells */
    a->value_kind = a->size == 8 ? "global_buffer" : "by_value";
    k->kernarg_bytes = OCH_MAX(k->kernarg_bytes, a->offset + a->size);
    return a->size != 0;
}

/* Each record of a section of kernel k, or of all (k NULL). count: parameters are counted only. */
static och_status records(const cubin *c, const Elf64_Shdr *s, och_obj_kernel *k, bool count, och_obj_arg *args) {
    const uint8_t *p = c->bytes + s->sh_offset, *end = p + s->sh_size;
    while (end - p >= 4) {
        unsigned form = p[0], attribute = p[1];
        uint64_t n = form == FORM_BYTES ? och_obj_le(p + 2, 2) : 0;
        const uint8_t *value = p + 4;
        if (n > (uint64_t)(end - value)) return broken(c->err, "a record of .nv.info");
        if (!k) take_fact(c, attribute, value, n);
        else if (attribute == PARAMETER && count) k->n_args++;
        else if (attribute == PARAMETER && !take_parameter(k, args, value, n)) return broken(c->err, "a kernel's parameter");
        else if (attribute == MAX_THREADS && n >= 12 && !count) {
            uint64_t threads = 1;
            for (int i = 0; i < 3; i++) threads *= OCH_MIN(och_obj_le(value + 4 * i, 4), 65536u);
            k->max_flat_workgroup_size = (uint32_t)OCH_MIN(threads, UINT32_MAX);
        }
        p = value + n;
    }
    return OCH_OK;
}

static och_status describe(const cubin *c, och_obj_kernel *k) {
    static const char info[] = ".nv.info.", shared[] = ".nv.shared.";
    Elf64_Shdr s;
    for (uint64_t i = 0; i < c->n_sections; i++) {
        if (!section(c, i, &s)) return broken(c->err, "a section");
        const char *name = name_of(c, &s);
        if (!strncmp(name, shared, sizeof shared - 1) && !strcmp(name + sizeof shared - 1, k->name))
            k->group_bytes = (uint32_t)OCH_MIN(s.sh_size, UINT32_MAX);
        if (strncmp(name, info, sizeof info - 1) || strcmp(name + sizeof info - 1, k->name) || s.sh_type == SHT_NOBITS) continue;
        k->n_args = 0;
        OCH_TRY(records(c, &s, k, true, NULL));
        och_obj_arg *args = och_arena_alloc(&c->b->arena, OCH_MAX(k->n_args, 1), sizeof *args);
        if (!args) return och_err_nomem(c->err, k->n_args * sizeof *args, "a kernel's arguments");
        for (size_t a = 0; a < k->n_args; a++) args[a] = (och_obj_arg){.name = "", .type_name = "", .value_kind = ""};
        k->args = args;
        OCH_TRY(records(c, &s, k, false, args));
        for (size_t a = 0; a < k->n_args; a++)
            if (!args[a].size) return broken(c->err, "a kernel's parameter");
    }
    return OCH_OK;
}

static och_status read_cubin(cubin *c) {
    static const char text[] = ".text.", info[] = ".nv.info.";
    Elf64_Ehdr h;
    Elf64_Shdr s;
    if (c->n_bytes < sizeof h) return broken(c->err, "the header");
    memcpy(&h, c->bytes, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != EM_CUBIN)
        return och_err_set(c->err, OCH_CORRUPT, "expected a cubin, found another file of %llu bytes", (unsigned long long)c->n_bytes);
    if (h.e_shentsize != sizeof(Elf64_Shdr) || !inside(c, h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr)))
        return broken(c->err, "the table of sections");
    c->sections = h.e_shoff;
    c->n_sections = h.e_shnum;
    c->names = h.e_shstrndx;
    c->kernels = och_arena_alloc(&c->b->arena, OCH_MAX(c->n_sections, 1), sizeof *c->kernels);
    if (!c->kernels) return och_err_nomem(c->err, c->n_sections * sizeof *c->kernels, "a cubin's kernels");
    c->b->pub.kernels = c->kernels;
    /* a kernel has code and a description; a function that it calls has code alone */
    for (uint64_t i = 0; i < c->n_sections; i++) {
        if (!section(c, i, &s)) return broken(c->err, "a section");
        const char *name = name_of(c, &s);
        if (strncmp(name, text, sizeof text - 1)) continue;
        bool described = false;
        for (uint64_t j = 0; j < c->n_sections && !described; j++) {
            Elf64_Shdr t;
            const char *other = section(c, j, &t) ? name_of(c, &t) : "";
            described = !strncmp(other, info, sizeof info - 1) && !strcmp(other + sizeof info - 1, name + sizeof text - 1);
        }
        if (!described) continue;
        och_obj_kernel *k = &c->kernels[c->b->pub.n_kernels];
        k->wave_size = LANES;
        k->name = k->symbol = och_arena_strndup(&c->b->arena, name + sizeof text - 1, strlen(name) - (sizeof text - 1));
        if (!k->name) return och_err_nomem(c->err, strlen(name), "a kernel's name");
        c->b->pub.n_kernels++;
        OCH_TRY(describe(c, k));
    }
    for (uint64_t i = 0; i < c->n_sections; i++)
        if (section(c, i, &s) && s.sh_type != SHT_NOBITS && !strcmp(name_of(c, &s), ".nv.info")) OCH_TRY(records(c, &s, NULL, false, NULL));
    return OCH_OK;
}

/* ---- PTX ---- */

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}

/* Skips blanks and comments. */
static const char *skip(const char *p) {
    for (;;) {
        p += strspn(p, " \t\r\n");
        if (p[0] == '/' && p[1] == '/') p += strcspn(p, "\n");
        else if (p[0] == '/' && p[1] == '*') {
            const char *end = strstr(p + 2, "*/");
            if (!end) return p + strlen(p);
            p = end + 2;
        } else return p;
    }
}

/* One ".param" declaration up to its comma or ')'. False: not understood. */
static bool parse_param(const char **at, uint32_t *end, och_obj_arg *out) {
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {{"b8", 1},  {"u8", 1},  {"s8", 1},  {"b16", 2}, {"u16", 2}, {"s16", 2}, {"f16", 2}, {"b32", 4}, {"u32", 4},
                 {"s32", 4}, {"f32", 4}, {"b64", 8}, {"u64", 8}, {"s64", 8}, {"f64", 8}, {"b128", 16}};
    const char *p = skip(*at);
    uint64_t bytes = 0, align = 0, count = 1;
    bool pointer = false;
    if (strncmp(p, ".param", 6)) return false;
    for (p = skip(p + 6); *p == '.'; p = skip(p)) {
        const char *word = ++p;
        while (is_word(*p)) p++;
        size_t n = (size_t)(p - word);
        if (n == 5 && !memcmp(word, "align", 5)) {
            char *after;
            uint64_t value = strtoull(skip(p), &after, 10);
            if (!pointer) align = value; /* behind .ptr it is what the pointer points to */
            p = after;
            continue;
        }
        pointer |= n == 3 && !memcmp(word, "ptr", 3);
        for (size_t i = 0; i < OCH_COUNT(types); i++)
            if (strlen(types[i].name) == n && !memcmp(word, types[i].name, n)) bytes = types[i].bytes;
    }
    while (is_word(*p)) p++;
    p = skip(p);
    if (*p == '[') {
        char *after;
        count = strtoull(p + 1, &after, 10);
        p = skip(after);
        if (*p++ != ']') return false;
        p = skip(p);
    }
    if (!align) align = bytes;
    if (!bytes || !count || count > 65536 || align & (align - 1) || align > 128) return false;
    uint64_t offset = (*end + align - 1) & ~(align - 1);
    if (offset > UINT32_MAX - bytes * count) return false;
    bool buffer = pointer || (bytes == 8 && count == 1);
    *out = (och_obj_arg){.name = "", .type_name = "", .value_kind = buffer ? "global_buffer" : "by_value",
                         .kind = buffer ? OCH_ARG_GLOBAL_BUFFER : OCH_ARG_BY_VALUE, .offset = (uint32_t)offset,
                         .size = (uint32_t)(bytes * count)};
    *end = (uint32_t)(offset + bytes * count);
    *at = p;
    return true;
}

/* From '(' behind an entry's name on; false: not understood. */
static bool parse_params(const char *p, och_obj_kernel *k, och_obj_arg *args, size_t most) {
    if (*p != '(') return true;
    p = skip(p + 1);
    while (*p != ')') {
        och_obj_arg a;
        if (!parse_param(&p, &k->kernarg_bytes, &a) || (*p != ',' && *p != ')')) return false;
        if (args && k->n_args < most) args[k->n_args] = a;
        k->n_args++;
        if (*p == ',') p = skip(p + 1);
    }
    return true;
}

static och_status read_ptx(obj_build *b, const char *text, och_err *err) {
    static const char entry[] = ".entry";
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, entry)); p += sizeof entry - 1) n++;
    och_obj_kernel *kernels = och_arena_alloc(&b->arena, OCH_MAX(n, 1), sizeof *kernels);
    if (!kernels) return och_err_nomem(err, n * sizeof *kernels, "the kernels of PTX");
    b->pub.kernels = kernels;
    for (const char *p = text; (p = strstr(p, entry)); p += sizeof entry - 1) {
        const char *name = skip(p + sizeof entry - 1), *end = name;
        while (is_word(*end)) end++;
        if (end == name || is_word(p[sizeof entry - 1])) continue; /* another word */
        och_obj_kernel *k = &kernels[b->pub.n_kernels], counted = {0};
        k->wave_size = LANES;
        k->name = k->symbol = och_arena_strndup(&b->arena, name, (size_t)(end - name));
        if (!k->name) return och_err_nomem(err, (size_t)(end - name), "a kernel's name");
        if (!parse_params(skip(end), &counted, NULL, 0))
            return och_err_set(err, OCH_CORRUPT, "the parameters of %.200s in the PTX are not understood", k->name);
        och_obj_arg *args = och_arena_alloc(&b->arena, OCH_MAX(counted.n_args, 1), sizeof *args);
        if (!args) return och_err_nomem(err, counted.n_args * sizeof *args, "a kernel's arguments");
        (void)parse_params(skip(end), k, args, counted.n_args);
        k->args = args;
        b->pub.n_kernels++;
    }
    return OCH_OK;
}

och_status och_obj_parse_nvidia(const void *bytes, size_t n_bytes, och_obj **out_obj, och_err *err) {
    *out_obj = NULL;
    obj_build *b = och_calloc(1, sizeof *b);
    if (!b) return och_err_nomem(err, sizeof *b, "a device's code");
    och_arena_init(&b->arena);
    och_status st;
    char *text = NULL;
    if (n_bytes >= SELFMAG && !memcmp(bytes, ELFMAG, SELFMAG)) {
        cubin c = {.b = b, .bytes = bytes, .n_bytes = n_bytes, .err = err};
        st = read_cubin(&c);
    } else if (!(text = och_calloc(n_bytes + 1, 1))) {
        st = och_err_nomem(err, n_bytes, "PTX");
    } else {
        memcpy(text, bytes, n_bytes);
        st = read_ptx(b, text, err);
    }
    och_free(text);
    if (st == OCH_OK) *out_obj = &b->pub;
    else och_obj_destroy(&b->pub);
    return st;
}
