/* Loads a code object as the runtime's loader does: one allocation for the image, segments at their distances, dynamic
 * relocations applied, kernels and variables by name. Owns the image's memory, the parsed object and bound programs. */
#include "load/module.h"

#include "base/alloc.h"
#include "base/size.h"
#include "exec/program.h"
#include "load/apply.h"
#include "target/target.h"

#include <elf.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
/* What LLVM up to 14, which had no flag for it, gave a kernel whose calls it could not follow. */
#define UNKNOWN_CALLS_BYTES 16384u
/* Code reaches its data by 32-bit distances, so that a longer image cannot have been linked. */
#define IMAGE_MAX ((uint64_t)2 << 30)

enum { PROPERTY_WAVE32 = 1 << 10, PROPERTY_DYNAMIC_STACK = 1 << 11 };

typedef struct kernel {
    sim_kernel pub; /* first: callers hold a pointer to it */
    const och_obj_kernel *info;
    bool calls_pointers; /* may call functions through pointers */
} kernel;

struct sim_module {
    sim_space *space;
    const sim_board *board;
    och_obj *obj;
    uint64_t lo, span; /* of the image, in the object's addresses */
    uint64_t addr;     /* where lo is on the device; 0: not allocated */
    uint8_t *host;     /* the simulator's view of it */
    kernel *kernels;   /* [obj->n_kernels] */
    uint32_t *by_name; /* numbers of kernels in the order of their names */
    uint64_t *entries; /* offsets in the code that a pointer may hold */
    size_t n_entries;
    pthread_mutex_t lock; /* of every kernel's program */
};

/* ---- which code object ---- */

static och_status serves(const sim_board *board, const char *target, bool *out_yes, int *out_rank, och_err *err) {
    och_target_id code, device;
    *out_yes = false;
    *out_rank = 0;
    OCH_TRY(och_target_find(board->target, &device, err));
    if (och_target_find(target, &code, NULL) != OCH_OK) return OCH_OK; /* another runtime's, or newer than our table */
    *out_yes = och_target_serves(&code, &device);
    *out_rank = (code.target->generic ? 1 : 4) + (code.sramecc != OCH_FEATURE_ANY) + (code.xnack != OCH_FEATURE_ANY);
    return OCH_OK;
}

/* The most particular entry that serves the board: its own target before a generic one, named features before none. */
static och_status pick(const och_obj_bundle *bundle, const sim_board *board, const och_obj_entry **out_entry, och_err *err) {
    char list[400];
    size_t at = 0;
    int best = 0, rank;
    bool yes;
    *out_entry = NULL;
    list[0] = 0;
    for (size_t i = 0; i < bundle->n_entries; i++) {
        const och_obj_entry *e = &bundle->entries[i];
        if (!e->target[0] || !e->n_bytes) continue;
        if (at < sizeof list) at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", e->target);
        OCH_TRY(serves(board, e->target, &yes, &rank, err));
        if (yes && rank > best) best = rank, *out_entry = e;
    }
    if (*out_entry) return OCH_OK;
    return och_err_set(err, OCH_UNSUPPORTED, "expected code for %s (the board %s), found code for %s", board->target,
                       board->key, list[0] ? list : "no device");
}

/* ---- the image ---- */

static och_status copy_segments(sim_module *m, const uint8_t *bytes, int device, och_err *err) {
    const och_obj *o = m->obj;
    if (!o->n_segments) return och_err_set(err, OCH_CORRUPT, "code object: expected a segment to load, found none");
    const och_obj_segment *last = &o->segments[o->n_segments - 1]; /* they ascend */
    m->lo = o->segments[0].addr & ~(uint64_t)(PAGE - 1);
    m->span = last->addr + last->mem_bytes - m->lo;
    if (!m->span || m->span > IMAGE_MAX)
        return och_err_set(err, OCH_RANGE, "code object: expected an image of 1 to %" PRIu64 " bytes, found %" PRIu64,
                           IMAGE_MAX, m->span);
    OCH_TRY(sim_space_alloc(m->space, m->span, PAGE, SIM_MEM_CODE, device, m->board->integrated, &m->addr, err));
    m->host = sim_space_host(m->space, m->addr, m->span);
    if (!m->host)
        return och_err_set(err, OCH_INTERNAL, "code object: its memory of %" PRIu64 " bytes has no host view", m->span);
    uint64_t at = 0;
    for (size_t i = 0; i < o->n_segments; i++) { /* memory that is used again is not clear */
        const och_obj_segment *s = &o->segments[i];
        uint64_t begin = s->addr - m->lo;
        memset(m->host + at, 0, begin - at);
        if (s->file_bytes) memcpy(m->host + begin, bytes + s->file_offset, s->file_bytes);
        at = begin + s->file_bytes;
    }
    memset(m->host + at, 0, m->span - at);
    return OCH_OK;
}

static och_status relocate(sim_module *m, och_err *err) {
    const och_obj *o = m->obj;
    for (size_t i = 0; i < o->n_relocs; i++) {
        const och_obj_reloc *r = &o->relocs[i];
        uint64_t symbol = 0;
        if (r->symbol_defined) symbol = r->symbol_absolute ? r->symbol_addr : r->symbol_addr - m->lo + m->addr;
        else if (r->symbol[0] && !r->symbol_weak)
            return och_err_set(err, OCH_NOTFOUND,
                               "code object: symbol '%.200s' is not defined, and the relocation at 0x%" PRIx64 " needs it",
                               r->symbol, r->addr);
        OCH_TRY(sim_reloc_apply(r, m->host, m->span, m->lo, m->addr, symbol, err));
    }
    return OCH_OK;
}

/* Kernels write what the object's segments let them, and no code. */
static och_status protect(sim_module *m, och_err *err) {
    uint64_t lo = 0, hi = 0;
    for (size_t i = 0; i < m->obj->n_segments; i++) {
        const och_obj_segment *s = &m->obj->segments[i];
        if (!s->write || !s->mem_bytes) continue;
        if (!hi) lo = s->addr - m->lo + m->addr;
        hi = s->addr + s->mem_bytes - m->lo + m->addr;
    }
    return sim_space_protect(m->space, m->addr, lo, hi, err);
}

/* Offsets in the code that pointers in memory may hold: what relocations name. Addresses that code forms itself are found
 * when it is decoded. */
static och_status find_entries(sim_module *m, och_err *err) {
    const och_obj *o = m->obj;
    m->entries = och_malloc_array(o->n_relocs, sizeof *m->entries);
    if (!m->entries) return och_err_nomem(err, o->n_relocs * sizeof *m->entries, "entries of functions");
    for (size_t i = 0; i < o->n_relocs; i++) {
        const och_obj_reloc *r = &o->relocs[i];
        if (r->symbol[0] && (!r->symbol_defined || r->symbol_absolute)) continue;
        /* The addend of a distance counts from the place that holds it. */
        uint64_t addend = sim_reloc_is_distance(r) ? 0 : (uint64_t)r->addend, offset = r->symbol_addr + addend - o->text_addr;
        if (offset < o->text_bytes && offset % 4 == 0) m->entries[m->n_entries++] = offset;
    }
    return OCH_OK;
}

/* ---- kernels ---- */

/* GRANULATED_WORKITEM_VGPR_COUNT of compute_pgm_rsrc1 (AMDGPUUsage, "Kernel Descriptor"), in registers. */
static uint32_t vector_registers(sim_isa isa, unsigned wave_size, uint32_t rsrc1) {
    uint32_t granules = (rsrc1 & 63) + 1;
    if (isa == SIM_GFX906 || isa == SIM_GFX908) return granules * 4;
    if (isa == SIM_GFX90A || isa == SIM_GFX942 || isa == SIM_GFX950) return granules * 8;
    if (isa == SIM_GFX1250) return granules * 16;
    return granules * (wave_size == 32 ? 8 : 4);
}

static void fill_kernel(const sim_board *board, const och_obj_kernel *i, sim_kernel *k) {
    bool wave32 = (SIM_BIT(board->isa) & SIM_GCN) == 0 && (i->properties & PROPERTY_WAVE32);
    *k = (sim_kernel){.name = i->name,
                      .wave_size = wave32 ? 32 : 64,
                      .rsrc1 = i->rsrc1,
                      .rsrc2 = i->rsrc2,
                      .rsrc3 = i->rsrc3,
                      .properties = i->properties,
                      .kernarg_preload = i->kernarg_preload,
                      .lds_bytes = i->group_bytes,
                      .scratch_bytes = i->private_bytes,
                      .dynamic_stack = i->dynamic_stack || (i->properties & PROPERTY_DYNAMIC_STACK),
                      .max_flat_workgroup_size = i->max_flat_workgroup_size ? i->max_flat_workgroup_size : 1024};
    memcpy(k->reqd_workgroup_size, i->reqd_workgroup_size, sizeof k->reqd_workgroup_size);
    k->n_vgprs = vector_registers(board->isa, k->wave_size, i->rsrc1);
    if (board->isa == SIM_GFX908) { /* a second file, of which a wave gets as many */
        k->n_agprs = k->acc_offset = k->n_vgprs;
    } else if (board->isa == SIM_GFX90A || board->isa == SIM_GFX942 || board->isa == SIM_GFX950) { /* one file, split */
        uint32_t total = k->n_vgprs;
        k->acc_offset = ((i->rsrc3 & 63) + 1) * 4;
        k->n_vgprs = OCH_MIN(k->acc_offset, total);
        k->n_agprs = total - k->n_vgprs;
    }
}

static int by_kernel_name(const void *a, const void *b, void *ctx) {
    const och_obj_kernel *k = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int c = strcmp(k[x].name, k[y].name);
    return c ? c : (x > y) - (x < y);
}

static och_status list_kernels(sim_module *m, och_err *err) {
    size_t n = m->obj->n_kernels;
    m->kernels = och_calloc(n ? n : 1, sizeof *m->kernels);
    m->by_name = och_malloc_array(n ? n : 1, sizeof *m->by_name);
    if (!m->kernels || !m->by_name) return och_err_nomem(err, n * sizeof *m->kernels, "kernels");
    for (size_t i = 0; i < n; i++) {
        m->kernels[i].info = &m->obj->kernels[i];
        fill_kernel(m->board, &m->obj->kernels[i], &m->kernels[i].pub);
        m->kernels[i].calls_pointers = m->kernels[i].pub.dynamic_stack ||
                                       (m->obj->version == 4 && m->kernels[i].pub.scratch_bytes >= UNKNOWN_CALLS_BYTES);
        m->by_name[i] = (uint32_t)i;
    }
    if (n) qsort_r(m->by_name, n, sizeof *m->by_name, by_kernel_name, (void *)(uintptr_t)m->obj->kernels);
    return OCH_OK;
}

/* ---- the module ---- */

och_status sim_module_load(sim_space *space, const sim_board *board, int device, const void *image, size_t n_bytes,
                           sim_module **out_module, och_err *err) {
    och_obj_bundle bundle;
    const och_obj_entry *e;
    bool yes;
    int rank;
    *out_module = NULL;
    OCH_TRY(och_obj_bundle_open(image, n_bytes, &bundle, err));
    och_status st = OCH_OK;
    sim_module *m = och_calloc(1, sizeof *m);
    if (!m) {
        st = och_err_nomem(err, sizeof *m, "a module");
        goto done;
    }
    m->space = space;
    m->board = board;
    pthread_mutex_init(&m->lock, NULL);
    OCH_TRY_GOTO(pick(&bundle, board, &e, err));
    OCH_TRY_GOTO(och_obj_parse(e->bytes, e->n_bytes, &m->obj, err));
    OCH_TRY_GOTO(serves(board, m->obj->target, &yes, &rank, err));
    if (!yes) {
        st = och_err_set(err, OCH_UNSUPPORTED, "expected code for %s (the board %s), found an entry '%s' with code for %s",
                         board->target, board->key, e->triple, m->obj->target);
        goto done;
    }
    OCH_TRY_GOTO(copy_segments(m, e->bytes, device, err));
    OCH_TRY_GOTO(relocate(m, err));
    OCH_TRY_GOTO(protect(m, err));
    OCH_TRY_GOTO(find_entries(m, err));
    OCH_TRY_GOTO(list_kernels(m, err));
    *out_module = m;
    m = NULL;
done:
    sim_module_unload(m);
    och_obj_bundle_close(&bundle);
    return st;
}

void sim_module_unload(sim_module *m) {
    if (!m) return;
    for (size_t i = 0; m->kernels && i < m->obj->n_kernels; i++) sim_program_destroy(m->kernels[i].pub.program);
    if (m->addr) {
        och_status st = sim_space_free(m->space, m->addr, NULL);
        (void)st; /* an unload has nobody to tell */
    }
    och_free(m->kernels);
    och_free(m->by_name);
    och_free(m->entries);
    och_obj_destroy(m->obj);
    pthread_mutex_destroy(&m->lock);
    och_free(m);
}

size_t sim_module_n_kernels(const sim_module *m) {
    return m->obj->n_kernels;
}
const char *sim_module_kernel_name(const sim_module *m, size_t i) {
    return m->obj->kernels[i].name;
}

static kernel *find_kernel(sim_module *m, const char *name, size_t n) {
    size_t lo = 0, hi = m->obj->n_kernels;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const char *at = m->obj->kernels[m->by_name[mid]].name;
        int c = strncmp(at, name, n);
        if (!c) c = at[n] != 0;
        if (!c) return &m->kernels[m->by_name[mid]];
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    return NULL;
}

och_status sim_module_kernel(sim_module *m, const char *name, const sim_kernel **out_kernel, och_err *err) {
    size_t n = strlen(name);
    *out_kernel = NULL;
    kernel *k = find_kernel(m, name, n);
    if (!k && n > 3 && !strcmp(name + n - 3, ".kd")) k = find_kernel(m, name, n - 3);
    if (!k)
        return och_err_set(err, OCH_NOTFOUND, "no kernel '%.200s' among the %zu of the code object", name, m->obj->n_kernels);
    const och_obj *o = m->obj;
    och_status st = OCH_OK;
    pthread_mutex_lock(&m->lock);
    if (!k->pub.program) {
        /* A stack of unknown depth is how compilers mark calls through pointers. Other kernels must not be charged with the
         * registers and instructions of functions that they never reach. */
        size_t n_entries = k->calls_pointers ? m->n_entries : 0;
        st = sim_program_create(m->board->isa, k->pub.wave_size, m->host + (o->text_addr - m->lo), (size_t)o->text_bytes,
                                o->text_addr - m->lo + m->addr, k->info->entry_addr - o->text_addr, m->entries, n_entries,
                                &k->pub.program, err);
        if (st != OCH_OK) (void)och_err_prefix(err, "kernel '%.200s'", k->info->name);
    }
    pthread_mutex_unlock(&m->lock);
    if (st == OCH_OK) *out_kernel = &k->pub;
    return st;
}

och_status sim_module_global(sim_module *m, const char *name, uint64_t *out_addr, uint64_t *out_size, och_err *err) {
    *out_addr = *out_size = 0;
    const och_obj_symbol *s = och_obj_find_symbol(m->obj, name);
    uint64_t offset = s ? s->addr - m->lo : 0;
    if (!s || !s->defined || s->absolute || (s->type != STT_OBJECT && s->type != STT_NOTYPE) || offset > m->span ||
        s->size > m->span - offset)
        return och_err_set(err, OCH_NOTFOUND, "no variable '%.200s' in the code object%s", name,
                           s ? " (the name is another thing's)" : "");
    *out_addr = m->addr + offset;
    *out_size = s->size;
    return OCH_OK;
}

const och_obj *sim_module_object(const sim_module *m) { return m->obj; }

const och_obj_kernel *sim_module_kernel_info(const sim_module *m, const sim_kernel *k) {
    (void)m;
    return ((const kernel *)k)->info;
}
