#include "board/quirk.h"

#include "base/size.h"
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *doc, *value;
} rows[] = {
#define SIM_QUIRK(name, doc, value) {#name, doc, value},
#include "board/quirks.def"
#undef SIM_QUIRK
};

const char *sim_quirk_name(sim_quirk_id id) { return rows[id].name; }
const char *sim_quirk_doc(sim_quirk_id id) { return rows[id].doc; }
const char *sim_quirk_value(sim_quirk_id id) { return rows[id].value; }

static bool parse_number(const char *s, const char *end, uint64_t *out) {
    if (s == end || *s < '0' || *s > '9') return false;
    char *stop;
    *out = strtoull(s, &stop, 0);
    if (stop == end) return true;
    if (stop + 1 != end) return false;
    switch (*stop) {
    case 'K': *out <<= 10; return true;
    case 'M': *out <<= 20; return true;
    case 'G': *out <<= 30; return true;
    default: return false;
    }
}

/* The number of a hipError_t, by its name or as one. */
static bool parse_error(const char *s, const char *end, uint64_t *out) {
    static const struct {
        const char *name;
        int value;
    } errors[] = {
#define HIP_ERROR(name, value, text) {#name, value},
#include "hip/hip_errors.def"
#undef HIP_ERROR
    };
    for (size_t i = 0; i < OCH_COUNT(errors); i++)
        if (strlen(errors[i].name) == (size_t)(end - s) && !memcmp(errors[i].name, s, (size_t)(end - s))) {
            *out = (uint64_t)errors[i].value;
            return true;
        }
    return parse_number(s, end, out);
}

static och_status unknown_quirk(const char *s, size_t n, och_err *err) {
    och_strbuf known;
    och_strbuf_init(&known);
    for (size_t i = 0; i < SIM_QUIRK_COUNT_; i++) och_strbuf_printf(&known, "%s%s", i ? ", " : "", rows[i].name);
    och_err_set(err, OCH_INVALID, "OCHRE_SIM_QUIRKS: no quirk \"%.*s\"; known: %s", (int)n, s, och_strbuf_str(&known));
    och_strbuf_deinit(&known);
    return OCH_INVALID;
}

och_status sim_quirks_parse(const char *text, sim_quirks *out_quirks, och_err *err) {
    memset(out_quirks, 0, sizeof *out_quirks);
    for (const char *s = text; s && *s;) {
        size_t n = strcspn(s, ","), name = strcspn(s, ",=");
        if (!n) {
            s++;
            continue;
        }
        size_t id = 0;
        while (id < SIM_QUIRK_COUNT_ && (strlen(rows[id].name) != name || memcmp(rows[id].name, s, name) != 0)) id++;
        if (id == SIM_QUIRK_COUNT_) return unknown_quirk(s, name, err);
        sim_quirk *q = &out_quirks->q[id];
        q->on = true;
        bool wants = rows[id].value[0] != 0;
        if (wants != (name < n))
            return och_err_set(err, OCH_INVALID, "OCHRE_SIM_QUIRKS: \"%s\" takes %s%s", rows[id].name,
                               wants ? "a value: " : "no value", rows[id].value);
        if (wants) {
            const char *v = s + name + 1, *end = s + n, *colon = memchr(v, ':', (size_t)(end - v));
            q->has_extra = colon != NULL;
            if (!parse_number(v, colon ? colon : end, &q->value) || (colon && !(id == SIM_QUIRK_carveout ? parse_number : parse_error)(colon + 1, end, &q->extra)))
                return och_err_set(err, OCH_INVALID, "OCHRE_SIM_QUIRKS: \"%.*s\" of \"%s\" is not %s", (int)(end - v), v,
                                   rows[id].name, rows[id].value);
        }
        s += n;
    }
    return OCH_OK;
}
