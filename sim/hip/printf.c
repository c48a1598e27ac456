/* printf of kernels: formatting, and the protocol that leaves records in a buffer for the host to print afterwards.
 *
 *   buffer: bytes used (u32, counted up by the kernel), bytes of room (u32), then records:
 *     a number of amdhsa.printf (u32) and the arguments with the sizes that its entry lists */
#include "hip/hostcall.h"

#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

/* A conversion specification: text from % on, its stars, its conversion. */
typedef struct spec {
    char text[64];
    unsigned n_stars;
    bool wide;   /* an argument of 64 bits */
    char conv;
    size_t length; /* characters of the format that it took */
} spec;

static bool parse_spec(const char *s, size_t room, spec *out) {
    size_t i = 1;
    memset(out, 0, sizeof *out);
    while (i < room && s[i] && strchr("-+ #0123456789.*", s[i])) {
        if (s[i] == '*') out->n_stars++;
        i++;
    }
    while (i < room && s[i] && strchr("hljztL", s[i])) {
        if (s[i] != 'h') out->wide = true;
        i++;
    }
    if (i >= room || !s[i] || i + 1 >= sizeof out->text - 3 || out->n_stars > 2) return false;
    out->conv = s[i];
    out->length = i + 1;
    /* length modifiers are dropped: the argument is passed at 64 bits where they make it so, else as int */
    size_t k = 0;
    for (size_t j = 0; j < i; j++)
        if (!strchr("hljztL", s[j])) out->text[k++] = s[j];
    if (out->wide && strchr("diouxX", out->conv)) out->text[k++] = 'l', out->text[k++] = 'l';
    /* h and hh narrow */
    if (!out->wide && strchr("diouxX", out->conv))
        for (size_t j = 1; j < i; j++)
            if (s[j] == 'h') out->text[k++] = 'h';
    out->text[k++] = out->conv;
    out->text[k] = 0;
    return true;
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#define PUT(...)                                                                                                               \
    (p->n_stars == 0   ? och_strbuf_printf(b, p->text, __VA_ARGS__)                                                            \
     : p->n_stars == 1 ? och_strbuf_printf(b, p->text, stars[0], __VA_ARGS__)                                                  \
                       : och_strbuf_printf(b, p->text, stars[0], stars[1], __VA_ARGS__))

static void put_value(och_strbuf *b, const spec *p, const int stars[2], uint64_t value, const char *string) {
    double f;
    memcpy(&f, &value, 8);
    switch (p->conv) {
    case 'd':
    case 'i':
        if (p->wide) PUT((long long)value);
        else PUT((int)value);
        break;
    case 'o':
    case 'u':
    case 'x':
    case 'X':
        if (p->wide) PUT((unsigned long long)value);
        else PUT((unsigned)value);
        break;
    case 'c': PUT((int)value); break;
    case 'p': PUT((void *)(uintptr_t)value); break;
    case 's': PUT(string); break;
    default: PUT(f); break;
    }
}

/* Where arguments come from: the next word, or the next string. */
typedef struct source {
    const uint8_t *at, *end;
    const uint8_t *sizes; /* bytes of each argument; NULL: words, and strings in place */
    size_t n_sizes;
} source;

static bool next_word(source *s, bool is_double, uint64_t *out) {
    size_t size = 8;
    if (s->sizes) {
        if (!s->n_sizes) return false;
        size = *s->sizes++;
        s->n_sizes--;
        if (size > 8) return false;
    }
    if ((size_t)(s->end - s->at) < size) return false;
    *out = 0;
    memcpy(out, s->at, size);
    if (s->sizes && size == 4 && is_double) {
        float f;
        memcpy(&f, s->at, 4);
        double d = f;
        memcpy(out, &d, 8);
    }
    s->at += size;
    return true;
}

static bool next_string(source *s, const char **out) {
    if (s->sizes) {
        if (!s->n_sizes) return false;
        size_t size = *s->sizes++;
        s->n_sizes--;
        if ((size_t)(s->end - s->at) < size || !memchr(s->at, 0, size)) return false;
        *out = (const char *)s->at;
        s->at += size;
        return true;
    }
    const uint8_t *nul = memchr(s->at, 0, (size_t)(s->end - s->at));
    if (!nul) return false;
    *out = (const char *)s->at;
    size_t bytes = ((size_t)(nul - s->at) + 8) / 8 * 8;
    s->at = bytes > (size_t)(s->end - s->at) ? s->end : s->at + bytes;
    return true;
}

static bool format(och_strbuf *b, const char *fmt, size_t n, source *args) {
    for (size_t i = 0; i < n && fmt[i];) {
        if (fmt[i] != '%') {
            size_t run = strcspn(fmt + i, "%");
            och_strbuf_append(b, fmt + i, OCH_MIN(run, n - i));
            i += run;
            continue;
        }
        if (i + 1 < n && fmt[i + 1] == '%') {
            och_strbuf_puts(b, "%");
            i += 2;
            continue;
        }
        spec p;
        if (!parse_spec(fmt + i, n - i, &p)) return false;
        int stars[2] = {0, 0};
        for (unsigned k = 0; k < p.n_stars; k++) {
            uint64_t w;
            if (!next_word(args, false, &w)) return false;
            stars[k] = (int)w;
        }
        uint64_t value = 0;
        const char *string = "";
        if (!strchr("diouxXcspaAeEfFgGn", p.conv)) return false;
        if (p.conv == 's' ? !next_string(args, &string) : !next_word(args, strchr("aAeEfFgG", p.conv) != NULL,
                                                                     &value)) return false;
        if (p.conv != 'n') put_value(b, &p, stars, value, string);
        i += p.length;
    }
    return true;
}

int sim_printf_write(FILE *out, const uint64_t *words, size_t n) {
    const char *fmt = (const char *)words;
    const uint8_t *nul = n ? memchr(fmt, 0, n * 8) : NULL;
    if (!nul) return -1;
    size_t fmt_bytes = (size_t)(nul - (const uint8_t *)fmt) + 1;
    source args = {.at = (const uint8_t *)(words + (fmt_bytes + 7) / 8), .end = (const uint8_t *)(words + n)};
    och_strbuf b;
    och_strbuf_init(&b);
    bool ok = format(&b, fmt, fmt_bytes, &args) && !b.failed;
    int written = ok ? (int)b.size : -1;
    if (b.size) fwrite(b.data, 1, b.size, out);
    och_strbuf_deinit(&b);
    return written;
}

hipError_t sim_printf_buffer(sim_device *d, uint64_t *out_addr) {
    if (!d->printf_addr) {
        och_err err;
        och_err_clear(&err);
        uint64_t bytes = d->limits[hipLimitPrintfFifoSize] < 4096 ? 4096 : d->limits[hipLimitPrintfFifoSize], addr;
        if (sim_space_alloc(sim_hip.space, bytes + 8, 4096, SIM_MEM_PINNED, d->ordinal, true, &addr, &err) != OCH_OK)
            return hipErrorOutOfMemory;
        uint32_t head[2] = {0, (uint32_t)bytes}, *host = sim_space_host(sim_hip.space, addr, 8);
        if (!host) return hipErrorOutOfMemory;
        memcpy(host, head, sizeof head);
        d->printf_addr = addr;
    }
    *out_addr = d->printf_addr;
    return hipSuccess;
}

/* An entry of amdhsa.printf: "number:arguments:size:...:format". */
static bool parse_entry(const char *entry, uint32_t *id, uint8_t sizes[64], size_t *n_sizes, const char **fmt) {
    char *end;
    *id = (uint32_t)strtoul(entry, &end, 10);
    if (*end != ':') return false;
    *n_sizes = strtoul(end + 1, &end, 10);
    if (*end != ':' || *n_sizes > 64) return false;
    for (size_t i = 0; i < *n_sizes; i++) {
        unsigned long size = strtoul(end + 1, &end, 10);
        if (*end != ':' || size > 255) return false;
        sizes[i] = (uint8_t)size;
    }
    *fmt = end + 1;
    return true;
}

/* The compiler escapes what a metadata string cannot hold. */
static void unescape(char *s) {
    char *to = s;
    for (; *s; s++) {
        if (*s != '\\' || !s[1]) {
            *to++ = *s;
            continue;
        }
        s++;
        switch (*s) {
        case 'n': *to++ = '\n'; break;
        case 't': *to++ = '\t'; break;
        case 'r': *to++ = '\r'; break;
        case 'a': *to++ = '\a'; break;
        case 'b': *to++ = '\b'; break;
        case 'f': *to++ = '\f'; break;
        case 'v': *to++ = '\v'; break;
        case '7':
            if (s[1] == '2') { /* a colon, which would end a field */
                *to++ = ':';
                s++;
                break;
            }
            *to++ = '7';
            break;
        default: *to++ = *s;
        }
    }
    *to = 0;
}

void sim_printf_drain(sim_device *d, hipModule_t m) {
    uint64_t addr = d->printf_addr;
    uint32_t *head = addr ? sim_space_host(sim_hip.space, addr, 8) : NULL;
    if (!head || !head[0]) return;
    const och_obj *obj = sim_module_object(m->mod);
    uint32_t used = OCH_MIN(head[0], head[1]);
    const uint8_t *at = sim_space_host(sim_hip.space, addr + 8, used), *end = at ? at + used : NULL;
    while (at && end - at >= 4) {
        uint32_t want;
        memcpy(&want, at, 4);
        bool found = false;
        for (size_t i = 0; i < obj->n_printf && !found; i++) {
            uint32_t id;
            uint8_t sizes[64];
            size_t n_sizes;
            const char *fmt;
            if (!parse_entry(obj->printf_formats[i], &id, sizes, &n_sizes, &fmt) || id != want) continue;
            char *text = och_strdup(fmt);
            if (!text) break;
            unescape(text);
            source args = {.at = at + 4, .end = end, .sizes = sizes, .n_sizes = n_sizes};
            och_strbuf b;
            och_strbuf_init(&b);
            found = format(&b, text, strlen(text) + 1, &args);
            if (b.size) fwrite(b.data, 1, b.size, stdout);
            och_strbuf_deinit(&b);
            och_free(text);
            at = args.at;
        }
        if (!found) {
            fprintf(stderr, "ochre-sim: a kernel's printf record names format %u, which its code object has not\n", want);
            break;
        }
    }
    fflush(stdout);
    head[0] = 0;
}
