/* The rows as data, and the finding of one by name. */
#include "isa/valu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define VT(t) SIM_VT_##t
#define V(n, td, ta, tb, tc, fl, bd, ex) {#n, VT(td), {VT(ta), VT(tb), VT(tc)}, (fl), bd},
#define VS(n, td, ta, tb, tc, fl, bd, ex) {#n "!", VT(td), {VT(ta), VT(tb), VT(tc)}, (fl), bd},
#define VH V
#define VC(n, td, ta, tb, tc, fl, bd, op, ex) {#n, VT(td), {VT(ta), VT(tb), VT(tc)}, (fl), bd},
#define C(n, t, ex) {#n, SIM_VT_M, {VT(t), VT(t), SIM_VT_N}, 0, NULL},
#define CH C
#define CC(n, ta, tb, ex) {#n, SIM_VT_M, {VT(ta), VT(tb), SIM_VT_N}, 0, NULL},
#define PT_F16 SIM_VT_PF16
#define PT_BF16 SIM_VT_PBF16
#define PT_HB SIM_VT_PF16
#define PT_U16 SIM_VT_PU16
#define PT_I16 SIM_VT_PI16
#define P(n, t, fl, ns, ex) {#n, PT_##t, {PT_##t, PT_##t, (ns) > 2 ? PT_##t : SIM_VT_N}, (fl), NULL},
#define PS(n, t, fl, ns, ex) {#n "!", PT_##t, {PT_##t, PT_##t, (ns) > 2 ? PT_##t : SIM_VT_N}, (fl), NULL},
#define PH P
#define P2(n, base, ns, ex)                                                                                                \
    {#n, SIM_VT_PF32, {SIM_VT_PF32, SIM_VT_PF32, (ns) > 2 ? SIM_VT_PF32 : SIM_VT_N}, SIM_V_NAN, NULL},
#define D(n, td, th, tc, fl, ex) {#n, VT(td), {PT_##th, PT_##th, VT(tc)}, (fl), NULL},
#define DH D
#define X(n, td, ta, tb, tc, fl, bd) {#n, VT(td), {VT(ta), VT(tb), VT(tc)}, (fl), bd},
#define A(alias, n)
const sim_vrow sim_vrows[] = {
#include "isa/valu_rows.def"
};
const size_t sim_n_vrows = sizeof sim_vrows / sizeof *sim_vrows;
#undef V
#undef VS
#undef VH
#undef VC
#undef C
#undef CH
#undef CC
#undef P
#undef PS
#undef PH
#undef P2
#undef D
#undef DH
#undef X
#undef A

#define V(n, ...)
#define VS V
#define VH V
#define VC V
#define C V
#define CH V
#define CC V
#define P V
#define PS V
#define PH V
#define P2 V
#define D V
#define DH V
#define X V
#define A(alias, n) {#alias, #n},
static const struct { const char *alias, *name; } aliases[] = {
#include "isa/valu_rows.def"
};
#define N_ALIASES (sizeof aliases / sizeof *aliases)

typedef struct index_entry { const char *name; int row; } index_entry;
enum { MAX_NAMES = 2048 };
static index_entry names[MAX_NAMES]; /* rows, aliases, and aliases of what clamp makes of a row */
static char sat_names[64][32];
static size_t n_names;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int compare(const void *a, const void *b) {
    return strcmp(((const index_entry *)a)->name, ((const index_entry *)b)->name);
}
static int find_row(const char *name) {
    for (size_t i = 0; i < sim_n_vrows; i++)
        if (!strcmp(sim_vrows[i].name, name)) return (int)i;
    return -1;
}
static void build(void) {
    size_t n_sat = 0;
    for (size_t i = 0; i < sim_n_vrows; i++) names[n_names++] = (index_entry){sim_vrows[i].name, (int)i};
    for (size_t i = 0; i < N_ALIASES; i++) {
        names[n_names++] = (index_entry){aliases[i].alias, find_row(aliases[i].name)};
        char sat[32];
        size_t len = strlen(aliases[i].name), alias_len = strlen(aliases[i].alias);
        if (len + 2 > sizeof sat || alias_len + 2 > sizeof sat_names[0]) continue;
        memcpy(sat, aliases[i].name, len);
        memcpy(sat + len, "!", 2);
        int row = find_row(sat);
        if (row < 0 || n_sat == sizeof sat_names / sizeof *sat_names) continue;
        memcpy(sat_names[n_sat], aliases[i].alias, alias_len);
        memcpy(sat_names[n_sat] + alias_len, "!", 2);
        names[n_names++] = (index_entry){sat_names[n_sat++], row};
    }
    qsort(names, n_names, sizeof *names, compare);
}
_Static_assert(sizeof sim_vrows / sizeof *sim_vrows + 2 * N_ALIASES <= MAX_NAMES, "the table of names is full");

int sim_vrow_find(const char *name) {
    pthread_once(&once, build);
    index_entry key = {name, 0}, *found = bsearch(&key, names, n_names, sizeof *names, compare);
    return found ? found->row : -1;
}

static const sim_vcode *code_of_host(void) {
#if defined __x86_64__
    switch (sim_host_level()) {
    case 2: return sim_vcode_avx512;
    case 1: return sim_vcode_avx2;
    default: break;
    }
#endif
    return sim_vcode_generic;
}
const sim_vcode *sim_vcode_at(int row) {
    static const sim_vcode *_Atomic code;
    const sim_vcode *c = atomic_load_explicit(&code, memory_order_relaxed);
    if (!c) atomic_store_explicit(&code, c = code_of_host(), memory_order_relaxed);
    return &c[row];
}

/* Names as instructions have them: rows and aliases, without what clamp and the binder make of them. */
bool sim_meaning_at_valu(size_t i, sim_meaning *out) {
    for (size_t k = 0; k < sim_n_vrows; k++) {
        const sim_vrow *row = &sim_vrows[k];
        if (row->name[0] != 'V' || strchr(row->name, '!')) continue;
        const char *name = row->name;
        if (strstr(name, "_IU8_") || strstr(name, "_IU4_")) { /* four rows of one instruction */
            if (!strstr(name, "_UU")) continue;
            name = strstr(name, "_IU8_") ? "V_DOT4_I32_IU8" : "V_DOT8_I32_IU4";
        }
        if (i-- == 0) {
            *out = (sim_meaning){name, row->bound ? SIM_APPROX : SIM_EXACT, row->bound};
            return true;
        }
    }
    if (i >= N_ALIASES) return sim_meaning_at_vscale(i - N_ALIASES, out);
    const sim_vrow *row = &sim_vrows[find_row(aliases[i].name)];
    *out = (sim_meaning){aliases[i].alias, row->bound ? SIM_APPROX : SIM_EXACT, row->bound};
    return true;
}
