/* Reads the ELF file of a code object through libelf. What libelf takes on trust (table sizes, string ends, ranges) is
 * checked here before it is used. Owns nothing after it returns: all results are copies in the object's arena. */
#include "obj/priv.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/tls.h"

#include <gelf.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OSABI_AMDGPU_HSA = 64,
    NT_AMDGPU_METADATA = 32,
    FLAG_MACH = 0xFF,
    FLAG_XNACK = 0x300,
    FLAG_XNACK_OFF = 0x200,
    FLAG_XNACK_ON = 0x300,
    FLAG_SRAMECC = 0xC00,
    FLAG_SRAMECC_OFF = 0x800,
    FLAG_SRAMECC_ON = 0xC00,
    FLAG_GENERIC = (int)0xFF000000,
    EHDR_BYTES = 64,
    PHDR_BYTES = 56,
    SHDR_BYTES = 64,
    SYM_BYTES = 24,
    RELA_BYTES = 24
};
/* Newer than the elf.h of the oldest C library in use. */
#define SECTION_RELR 19
#define MACHINE_AMDGPU 224
/* libelf numbers its errors in a header that it does not install; the numbers never change. */
#define ELF_ERROR_NO_MEMORY 8

/* Where libelf's archive puts its error number; CMakeLists.txt says why. Linked as a shared library it keeps the number to
 * itself, and a failed allocation reads as a broken file. */
extern void och_libelf_set_error(int number);
static OCH_THREAD_LOCAL int elf_error;
void och_libelf_set_error(int number) {
    elf_error = number;
}

static void init_once(void) {
    (void)elf_version(EV_CURRENT);
}

static och_status elf_failed(och_err *err, const char *what) {
    int e = elf_error;
    elf_error = 0;
    if (e == ELF_ERROR_NO_MEMORY) return och_err_nomem(err, 0, what);
    return och_err_set_native(
        err, OCH_CORRUPT, e, "code object: %s: expected a table that can be read, found one that libelf refuses (%d)", what, e);
}

const char *och_obj_show(char out[OCH_OBJ_SHOW_BYTES], const char *s, size_t n) {
    size_t m = OCH_MIN(n, (size_t)OCH_OBJ_SHOW_BYTES - 4);
    for (size_t i = 0; i < m; i++) out[i] = s[i] >= 0x20 && s[i] < 0x7F ? s[i] : '?';
    strcpy(out + m, n > m ? "..." : "");
    return out;
}

/* ---- the header ---- */

static const char *mach_name(uint32_t mach) {
    static const struct {
        uint32_t mach;
        const char *name;
    } rows[] = {
#define OCH_MACH(mach, name) {mach, name},
#include "obj/mach.def"
#undef OCH_MACH
    };
    for (size_t i = 0; i < OCH_COUNT(rows); i++)
        if (rows[i].mach == mach) return rows[i].name;
    return NULL;
}

static och_status check_header(const uint8_t *p, size_t n, och_err *err) {
    if (n < EHDR_BYTES)
        return och_err_set(err, OCH_CORRUPT, "code object: expected at least the %d bytes of an ELF header, found %zu",
                           EHDR_BYTES, n);
    if (memcmp(p, OCH_OBJ_MAGIC, 4))
        return och_err_set(err, OCH_CORRUPT, "code object: expected an ELF file, found the bytes %02x %02x %02x %02x", p[0],
                           p[1], p[2], p[3]);
    uint16_t type = (uint16_t)och_obj_le(p + 16, 2), machine = (uint16_t)och_obj_le(p + 18, 2);
    if (p[EI_CLASS] != ELFCLASS64 || p[EI_DATA] != ELFDATA2LSB || p[EI_VERSION] != EV_CURRENT)
        return och_err_set(
            err, OCH_CORRUPT,
            "code object: expected a 64-bit little-endian ELF file of version 1, found class %u, data %u, version %u",
            p[EI_CLASS], p[EI_DATA], p[EI_VERSION]);
    if (machine != MACHINE_AMDGPU)
        return och_err_set(err, OCH_CORRUPT, "code object: expected machine %u (AMDGPU), found %u", MACHINE_AMDGPU, machine);
    if (p[EI_OSABI] != OSABI_AMDGPU_HSA)
        return och_err_set(err, OCH_UNSUPPORTED, "code object: expected OS ABI %u (AMDGPU HSA), found %u", OSABI_AMDGPU_HSA,
                           p[EI_OSABI]);
    if (p[EI_ABIVERSION] < 2 || p[EI_ABIVERSION] > 4)
        return och_err_set(err, OCH_UNSUPPORTED, "code object: expected version 4, 5 or 6, found %s%u (ABI version %u)",
                           p[EI_ABIVERSION] > 4 ? "probably " : "", p[EI_ABIVERSION] + 2u, p[EI_ABIVERSION]);
    if (type != ET_DYN)
        return och_err_set(err, OCH_UNSUPPORTED, "code object: expected a linked one (ELF type %d), found %s (type %u)", ET_DYN,
                           type == ET_REL ? "a relocatable one that was never linked" : "another kind", type);
    return OCH_OK;
}

och_status och_obj_elf_target(const uint8_t *p, size_t n, char out_target[64], och_err *err) {
    out_target[0] = 0;
    OCH_TRY(check_header(p, n, err));
    uint32_t flags = (uint32_t)och_obj_le(p + 48, 4);
    const char *name = mach_name(flags & FLAG_MACH);
    if (!name)
        return och_err_set(err, OCH_UNSUPPORTED, "code object: no target is known by the number 0x%03x (e_flags 0x%08x)",
                           flags & FLAG_MACH, flags);
    size_t n_name = strlen(name);
    if (n_name > 8 && !strcmp(name + n_name - 8, "-generic") && !(flags & FLAG_GENERIC))
        return och_err_set(err, OCH_CORRUPT,
                           "code object: %s: expected a generic version of at least 1 in e_flags 0x%08x, found 0", name, flags);
    uint32_t ecc = flags & FLAG_SRAMECC, xnack = flags & FLAG_XNACK;
    snprintf(out_target, 64, "%s%s%s", name,
             ecc == FLAG_SRAMECC_ON    ? ":sramecc+"
             : ecc == FLAG_SRAMECC_OFF ? ":sramecc-"
                                       : "",
             xnack == FLAG_XNACK_ON    ? ":xnack+"
             : xnack == FLAG_XNACK_OFF ? ":xnack-"
                                       : "");
    return OCH_OK;
}

static bool table_end(uint64_t offset, uint64_t count, uint64_t bytes, uint64_t *out_end) {
    return och_u64_mul(count, bytes, out_end) && och_u64_add(offset, *out_end, out_end);
}

och_status och_obj_elf_size(const uint8_t *p, size_t *out_n_bytes, och_err *err) {
    *out_n_bytes = 0;
    OCH_TRY(check_header(p, EHDR_BYTES, err));
    uint64_t end, most = EHDR_BYTES;
    const struct {
        uint64_t offset, count;
        unsigned entry_bytes, at, skip_type;
    } tables[] = {{och_obj_le(p + 32, 8), och_obj_le(p + 56, 2), PHDR_BYTES, 8, 0},
                  {och_obj_le(p + 40, 8), och_obj_le(p + 60, 2), SHDR_BYTES, 24, SHT_NOBITS}};
    for (int t = 0; t < 2; t++) {
        if (!table_end(tables[t].offset, tables[t].count, tables[t].entry_bytes, &end) || end > SIZE_MAX / 2)
            return och_err_set(err, OCH_CORRUPT,
                               "code object: %s table: expected one that fits in memory, found offset %" PRIu64,
                               t ? "section" : "segment", tables[t].offset);
        most = OCH_MAX(most, end);
        for (uint64_t i = 0; i < tables[t].count; i++) {
            const uint8_t *row = p + tables[t].offset + i * tables[t].entry_bytes;
            if (tables[t].skip_type && och_obj_le(row + 4, 4) == tables[t].skip_type) continue;
            uint64_t size = och_obj_le(row + 32, 8);
            if (!och_u64_add(och_obj_le(row + tables[t].at, 8), size, &end) || end > SIZE_MAX / 2)
                return och_err_set(err, OCH_CORRUPT,
                                   "code object: %s %" PRIu64 ": expected a range that fits in memory, found %" PRIu64 " bytes",
                                   t ? "section" : "segment", i, size);
            most = OCH_MAX(most, end);
        }
    }
    *out_n_bytes = (size_t)most;
    return OCH_OK;
}

/* ---- segments ---- */

const uint8_t *och_obj_at(const obj_build *b, uint64_t addr, uint64_t n) {
    for (size_t i = 0; i < b->pub.n_segments; i++) {
        const och_obj_segment *s = &b->pub.segments[i];
        if (addr >= s->addr && addr - s->addr <= s->file_bytes && n <= s->file_bytes - (addr - s->addr))
            return b->bytes + s->file_offset + (addr - s->addr);
    }
    return NULL;
}

static bool in_memory(const obj_build *b, uint64_t addr) {
    for (size_t i = 0; i < b->pub.n_segments; i++)
        if (addr >= b->pub.segments[i].addr && addr - b->pub.segments[i].addr < b->pub.segments[i].mem_bytes) return true;
    return false;
}

/* Notes of one PT_NOTE: the first AMDGPU metadata note is kept. */
static och_status read_notes(obj_build *b, Elf *elf, const GElf_Phdr *ph, och_err *err) {
    if (b->metadata || !ph->p_filesz) return OCH_OK;
    Elf_Data *data =
        elf_getdata_rawchunk(elf, (int64_t)ph->p_offset, ph->p_filesz, ph->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
    if (!data) return elf_failed(err, "notes");
    size_t at = 0, name_at, desc_at;
    GElf_Nhdr note;
    while (at < data->d_size) {
        size_t next = gelf_getnote(data, at, &note, &name_at, &desc_at);
        if (!next)
            return och_err_set(err, OCH_CORRUPT,
                               "code object: notes: expected a whole note at byte %zu of %zu, found a broken one", at,
                               data->d_size);
        const char *name = (const char *)data->d_buf + name_at;
        if (note.n_type == NT_AMDGPU_METADATA && note.n_namesz == 7 && !memcmp(name, "AMDGPU", 7)) {
            b->metadata = b->bytes + ph->p_offset + desc_at;
            b->metadata_bytes = note.n_descsz;
            return OCH_OK;
        }
        at = next;
    }
    return OCH_OK;
}

static och_status read_segments(obj_build *b, Elf *elf, och_err *err) {
    size_t n_headers, n = 0;
    if (elf_getphdrnum(elf, &n_headers)) return elf_failed(err, "segments");
    och_obj_segment *segments = och_arena_alloc(&b->arena, n_headers, sizeof *segments);
    if (!segments) return och_err_nomem(err, n_headers * sizeof *segments, "segments");
    uint64_t end, mem_end, before = 0;
    for (size_t i = 0; i < n_headers; i++) {
        GElf_Phdr ph;
        if (!gelf_getphdr(elf, (int)i, &ph)) return elf_failed(err, "segments");
        if (ph.p_type != PT_LOAD && ph.p_type != PT_NOTE) continue;
        if (!och_u64_add(ph.p_offset, ph.p_filesz, &end) || end > b->n_bytes)
            return och_err_set(err, OCH_CORRUPT,
                               "code object: segment %zu: expected %" PRIu64 " bytes at offset %" PRIu64
                               ", found a file of %zu",
                               i, (uint64_t)ph.p_filesz, (uint64_t)ph.p_offset, b->n_bytes);
        if (ph.p_type == PT_NOTE) {
            OCH_TRY(read_notes(b, elf, &ph, err));
            continue;
        }
        if (ph.p_filesz > ph.p_memsz || !och_u64_add(ph.p_vaddr, ph.p_memsz, &mem_end) || ph.p_vaddr < before)
            return och_err_set(err, OCH_CORRUPT,
                               "code object: segment %zu: expected it after address 0x%" PRIx64
                               " with no more bytes of file than of memory, found 0x%" PRIx64 " with %" PRIu64 " of %" PRIu64,
                               i, before, (uint64_t)ph.p_vaddr, (uint64_t)ph.p_filesz, (uint64_t)ph.p_memsz);
        before = mem_end;
        segments[n++] = (och_obj_segment){.addr = ph.p_vaddr,
                                          .file_offset = ph.p_offset,
                                          .file_bytes = ph.p_filesz,
                                          .mem_bytes = ph.p_memsz,
                                          .read = ph.p_flags & PF_R,
                                          .write = ph.p_flags & PF_W,
                                          .exec = ph.p_flags & PF_X};
    }
    b->pub.segments = segments;
    b->pub.n_segments = n;
    return OCH_OK;
}

/* ---- sections ---- */

typedef struct sections {
    Elf *elf;
    GElf_Shdr *headers; /* owned; [n] */
    size_t n;
    size_t dynsym, symtab; /* 0: none */
} sections;

/* The data of section i, which has n entries of entry_bytes (0: any) in the file. */
static och_status section_data(const obj_build *b, const sections *s, size_t i, uint64_t entry_bytes, Elf_Data **out_data,
                               uint64_t *out_n, och_err *err) {
    const GElf_Shdr *h = &s->headers[i];
    uint64_t end;
    *out_data = NULL;
    *out_n = 0;
    if (h->sh_type == SHT_NOBITS || !och_u64_add(h->sh_offset, h->sh_size, &end) || end > b->n_bytes)
        return och_err_set(err, OCH_CORRUPT,
                           "code object: section %zu: expected %" PRIu64 " bytes at offset %" PRIu64 ", found a file of %zu", i,
                           (uint64_t)h->sh_size, (uint64_t)h->sh_offset, b->n_bytes);
    if (entry_bytes && (h->sh_entsize != entry_bytes || h->sh_size % entry_bytes))
        return och_err_set(err, OCH_CORRUPT,
                           "code object: section %zu: expected entries of %" PRIu64 " bytes, found %" PRIu64 " in %" PRIu64, i,
                           entry_bytes, (uint64_t)h->sh_entsize, (uint64_t)h->sh_size);
    *out_n = h->sh_size / (entry_bytes ? entry_bytes : 1);
    if (!h->sh_size) return OCH_OK;
    Elf_Scn *scn = elf_getscn(s->elf, i);
    *out_data = scn ? elf_getdata(scn, NULL) : NULL;
    if (!*out_data || (*out_data)->d_size != h->sh_size || !(*out_data)->d_buf) return elf_failed(err, "a section");
    return OCH_OK;
}

/* Symbols 1.. of section i into the arena; names are in a copy of its string table. */
static och_status read_symbols(obj_build *b, const sections *s, size_t i, och_obj_symbol **out_symbols, size_t *out_n,
                               och_err *err) {
    Elf_Data *data, *strings;
    uint64_t n, n_strings;
    size_t link = s->headers[i].sh_link;
    *out_symbols = NULL;
    *out_n = 0;
    OCH_TRY(section_data(b, s, i, SYM_BYTES, &data, &n, err));
    if (n < 2) return OCH_OK;
    if (link >= s->n || s->headers[link].sh_type != SHT_STRTAB)
        return och_err_set(err, OCH_CORRUPT, "code object: section %zu: expected the number of its string table, found %zu", i,
                           link);
    OCH_TRY(section_data(b, s, link, 0, &strings, &n_strings, err));
    char *names = och_arena_strndup(&b->arena, strings ? strings->d_buf : "", n_strings);
    och_obj_symbol *symbols = och_arena_alloc(&b->arena, n - 1, sizeof *symbols);
    if (!names || !symbols) return och_err_nomem(err, n * sizeof *symbols + n_strings, "symbols");
    for (uint64_t k = 1; k < n; k++) {
        GElf_Sym sym;
        if (!gelf_getsym(data, (int)k, &sym)) return elf_failed(err, "a symbol");
        if (sym.st_name > n_strings)
            return och_err_set(err, OCH_CORRUPT,
                               "code object: symbol %" PRIu64 ": expected a name in %" PRIu64
                               " bytes of strings, found offset %u",
                               k, n_strings, sym.st_name);
        symbols[k - 1] = (och_obj_symbol){.name = names + sym.st_name,
                                          .addr = sym.st_value,
                                          .size = sym.st_size,
                                          .type = GELF_ST_TYPE(sym.st_info),
                                          .bind = GELF_ST_BIND(sym.st_info),
                                          .defined = sym.st_shndx != SHN_UNDEF,
                                          .absolute = sym.st_shndx == SHN_ABS};
    }
    *out_symbols = symbols;
    *out_n = (size_t)(n - 1);
    return OCH_OK;
}

static int by_name(const void *a, const void *b) {
    const och_obj_symbol *x = *(const och_obj_symbol *const *)a, *y = *(const och_obj_symbol *const *)b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x > y) - (x < y);
}
static int by_addr(const void *a, const void *b) {
    const och_obj_symbol *x = a, *y = b;
    return x->addr != y->addr ? (x->addr > y->addr ? 1 : -1) : strcmp(x->name, y->name);
}

const och_obj_symbol *och_obj_find_symbol(const och_obj *obj, const char *name) {
    const obj_build *b = (const obj_build *)obj;
    size_t lo = 0, hi = obj->n_symbols;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(b->by_name[mid]->name, name) < 0) lo = mid + 1;
        else hi = mid;
    }
    return lo < obj->n_symbols && !strcmp(b->by_name[lo]->name, name) ? b->by_name[lo] : NULL;
}

static och_status read_tables(obj_build *b, const sections *s, och_err *err) {
    och_obj_symbol *symbols = NULL, *all = NULL;
    size_t n = 0, n_all = 0, n_functions = 0;
    size_t at = s->dynsym ? s->dynsym : s->symtab;
    if (at) OCH_TRY(read_symbols(b, s, at, &symbols, &n, err));
    b->pub.symbols = symbols;
    b->pub.n_symbols = n;
    b->by_name = och_arena_alloc(&b->arena, n, sizeof *b->by_name);
    if (!b->by_name) return och_err_nomem(err, n * sizeof *b->by_name, "symbols");
    for (size_t i = 0; i < n; i++) b->by_name[i] = &symbols[i];
    if (n) qsort(b->by_name, n, sizeof *b->by_name, by_name);

    if (s->symtab && s->symtab != at) OCH_TRY(read_symbols(b, s, s->symtab, &all, &n_all, err));
    else all = symbols, n_all = n;
    for (size_t i = 0; i < n_all; i++) n_functions += all[i].type == STT_FUNC && all[i].defined && !all[i].absolute;
    och_obj_symbol *functions = och_arena_alloc(&b->arena, n_functions, sizeof *functions);
    if (!functions) return och_err_nomem(err, n_functions * sizeof *functions, "functions");
    b->pub.functions = functions;
    for (size_t i = 0; i < n_all; i++)
        if (all[i].type == STT_FUNC && all[i].defined && !all[i].absolute) functions[b->pub.n_functions++] = all[i];
    if (n_functions) qsort(functions, n_functions, sizeof *functions, by_addr);
    return OCH_OK;
}

static och_status read_relocs(obj_build *b, const sections *s, och_err *err) {
    uint64_t total = 0, n;
    Elf_Data *data;
    for (size_t i = 1; i < s->n; i++) {
        const GElf_Shdr *h = &s->headers[i];
        if (!(h->sh_flags & SHF_ALLOC)) continue;
        if (h->sh_type == SHT_REL || h->sh_type == SECTION_RELR)
            return och_err_set(err, OCH_UNSUPPORTED,
                               "code object: section %zu: expected relocations with addends (RELA), found %s", i,
                               h->sh_type == SHT_REL ? "REL" : "packed ones (RELR)");
        if (h->sh_type != SHT_RELA) continue;
        OCH_TRY(section_data(b, s, i, RELA_BYTES, &data, &n, err));
        total += n;
    }
    och_obj_reloc *relocs = och_arena_alloc(&b->arena, (size_t)total, sizeof *relocs);
    if (!relocs) return och_err_nomem(err, total * sizeof *relocs, "relocations");
    b->pub.relocs = relocs;
    for (size_t i = 1; i < s->n; i++) {
        if (!(s->headers[i].sh_flags & SHF_ALLOC) || s->headers[i].sh_type != SHT_RELA) continue;
        OCH_TRY(section_data(b, s, i, RELA_BYTES, &data, &n, err));
        for (uint64_t k = 0; k < n; k++) {
            GElf_Rela r;
            if (!gelf_getrela(data, (int)k, &r)) return elf_failed(err, "a relocation");
            uint64_t sym = GELF_R_SYM(r.r_info);
            if (sym && (!s->dynsym || s->headers[i].sh_link != s->dynsym || sym > b->pub.n_symbols))
                return och_err_set(err, OCH_CORRUPT,
                                   "code object: relocation %" PRIu64
                                   " of section %zu: expected one of %zu dynamic symbols, found %" PRIu64,
                                   k, i, s->dynsym ? b->pub.n_symbols : 0, sym);
            if (!in_memory(b, r.r_offset))
                return och_err_set(err, OCH_CORRUPT,
                                   "code object: relocation %" PRIu64
                                   " of section %zu: expected an address in a segment, found 0x%" PRIx64,
                                   k, i, (uint64_t)r.r_offset);
            const och_obj_symbol *to = sym ? &b->pub.symbols[sym - 1] : NULL;
            relocs[b->pub.n_relocs++] = (och_obj_reloc){.addr = r.r_offset,
                                                        .type = (uint32_t)GELF_R_TYPE(r.r_info),
                                                        .symbol = to ? to->name : "",
                                                        .symbol_addr = to ? to->addr : 0,
                                                        .symbol_defined = to && to->defined,
                                                        .symbol_absolute = to && to->absolute,
                                                        .symbol_weak = to && to->bind == STB_WEAK,
                                                        .addend = r.r_addend};
        }
    }
    return OCH_OK;
}

static och_status find_text(obj_build *b, const sections *s, och_err *err) {
    uint64_t lo = UINT64_MAX, hi = 0, end;
    for (size_t i = 1; i < s->n; i++) {
        const GElf_Shdr *h = &s->headers[i];
        if ((h->sh_flags & (SHF_ALLOC | SHF_EXECINSTR)) != (SHF_ALLOC | SHF_EXECINSTR) || !h->sh_size) continue;
        if (!och_u64_add(h->sh_addr, h->sh_size, &end))
            return och_err_set(err, OCH_CORRUPT,
                               "code object: section %zu: expected code that ends in memory, found %" PRIu64 " bytes", i,
                               (uint64_t)h->sh_size);
        lo = OCH_MIN(lo, h->sh_addr);
        hi = OCH_MAX(hi, end);
    }
    if (lo >= hi) return OCH_OK;
    if (!och_obj_at(b, lo, hi - lo))
        return och_err_set(err, OCH_CORRUPT,
                           "code object: code: expected 0x%" PRIx64 " to 0x%" PRIx64 " in one segment, found it is not", lo,
                           hi);
    b->pub.text_addr = lo;
    b->pub.text_bytes = hi - lo;
    return OCH_OK;
}

static och_status read_sections(obj_build *b, Elf *elf, och_err *err) {
    och_status st = OCH_OK;
    sections s = {.elf = elf};
    if (elf_getshdrnum(elf, &s.n)) return elf_failed(err, "sections");
    s.headers = och_calloc(s.n ? s.n : 1, sizeof *s.headers);
    if (!s.headers) return och_err_nomem(err, s.n * sizeof *s.headers, "sections");
    for (size_t i = 0; i < s.n; i++) {
        Elf_Scn *scn = elf_getscn(elf, i);
        if (!scn || !gelf_getshdr(scn, &s.headers[i])) {
            st = elf_failed(err, "sections");
            goto done;
        }
        if (s.headers[i].sh_type == SHT_DYNSYM && !s.dynsym) s.dynsym = i;
        if (s.headers[i].sh_type == SHT_SYMTAB && !s.symtab) s.symtab = i;
    }
    OCH_TRY_GOTO(read_tables(b, &s, err));
    OCH_TRY_GOTO(read_relocs(b, &s, err));
    OCH_TRY_GOTO(find_text(b, &s, err));
done:
    och_free(s.headers);
    return st;
}

static och_status check_table(const obj_build *b, const char *what, int offset_at, int entry_at, uint64_t entry_bytes,
                              och_err *err) {
    uint64_t offset = och_obj_le(b->bytes + offset_at, 8), size = och_obj_le(b->bytes + entry_at, 2);
    uint64_t n = och_obj_le(b->bytes + entry_at + 2, 2), end;
    if (!n && !offset) return OCH_OK;
    /* 0 and 0xffff are escapes for more entries than fit in the field. */
    if (!n || n == 0xFFFF || size != entry_bytes || !table_end(offset, n, entry_bytes, &end) || end > b->n_bytes)
        return och_err_set(err, OCH_CORRUPT,
                           "code object: %s table: expected entries of %" PRIu64
                           " bytes inside a file of %zu bytes, found %" PRIu64 " of %" PRIu64 " bytes at offset %" PRIu64,
                           what, entry_bytes, b->n_bytes, n, size, offset);
    return OCH_OK;
}

och_status och_obj_elf_read(obj_build *b, och_err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_once);
    OCH_TRY(och_obj_elf_target(b->bytes, b->n_bytes, b->pub.target, err));
    OCH_TRY(check_table(b, "segment", 32, 54, PHDR_BYTES, err));
    OCH_TRY(check_table(b, "section", 40, 58, SHDR_BYTES, err));
    elf_error = 0;
    b->pub.version = b->bytes[EI_ABIVERSION] + 2u;
    b->pub.e_flags = (uint32_t)och_obj_le(b->bytes + 48, 4);
    /* libelf only reads a file that it was given this way. */
    Elf *elf = elf_memory((char *)(uintptr_t)b->bytes, b->n_bytes);
    if (!elf) return elf_failed(err, "ELF file");
    och_status st;
    OCH_TRY_GOTO(read_segments(b, elf, err));
    OCH_TRY_GOTO(read_sections(b, elf, err));
done:
    (void)elf_end(elf);
    return st;
}
