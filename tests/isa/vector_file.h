/* Reading the files of tests/isa/vectors (their README has the format): a whole file in memory, taken apart line by line. */
#ifndef TESTS_ISA_VECTOR_FILE_H
#define TESTS_ISA_VECTOR_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

enum { MAX_TARGETS = 8, MEMORY_DWORDS = 512, MAX_ITEMS = 48 };

typedef struct pool {
    const char *name, *hex;
    unsigned digits; /* a lane */
    size_t n_values;
    struct pool *next;
} pool;

/* One piece of state or of a result: m x c k, a scalar register, a row, memory. */
typedef struct item {
    char what;         /* 'm' 'x' 'c' 'k' 's' 'v' 'L' (LDS) 'G' (global memory) */
    unsigned reg;
    bool address;      /* the memory's address is added (64 bits) */
    const pool *pool;  /* state: a row's values */
    const char *hex;   /* results: a row's values */
    uint64_t value;    /* scalars */
    char cls[16];
} item;

typedef struct vector {
    const char *format, *mnemonic;
    uint32_t targets;
    unsigned wave, n_bytes, n_in, n_out;
    uint8_t code[128];
    item in[MAX_ITEMS], out[MAX_ITEMS];
} vector;

typedef struct vector_file {
    char *text, *at;
    unsigned n_targets;
    const char *target[MAX_TARGETS];
    const char *format, *mnemonic;
    pool *pools[256];
} vector_file;

static inline uint64_t hex_value(const char *p, unsigned digits) {
    uint64_t v = 0;
    for (unsigned i = 0; i < digits; i++) {
        char c = p[i];
        v = v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return v;
}

static inline unsigned name_hash(const char *s) {
    unsigned h = 5381;
    while (*s) h = h * 33 + (unsigned char)*s++;
    return h & 255;
}

static inline pool *find_pool(const vector_file *f, const char *name) {
    for (pool *p = f->pools[name_hash(name)]; p; p = p->next)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}

/* NULL on a file that cannot be read. */
static inline char *read_compressed(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *packed = malloc(n), *text = NULL;
    if (packed && fread(packed, 1, n, f) == n) {
        unsigned long long size = ZSTD_getFrameContentSize(packed, n);
        if (size < (1u << 28)) {
            text = malloc(size + 1);
            if (text && ZSTD_decompress(text, size, packed, n) == size)
                text[size] = 0;
            else {
                free(text);
                text = NULL;
            }
        }
    }
    free(packed);
    fclose(f);
    return text;
}

static inline bool vector_file_open(vector_file *f, const char *path) {
    memset(f, 0, sizeof *f);
    f->text = f->at = read_compressed(path);
    return f->text != NULL;
}

static inline void vector_file_close(vector_file *f) {
    for (unsigned i = 0; i < 256; i++)
        while (f->pools[i]) {
            pool *p = f->pools[i];
            f->pools[i] = p->next;
            free(p);
        }
    free(f->text);
}

static inline void parse_item(const vector_file *f, char *t, item *it) {
    memset(it, 0, sizeof *it);
    strcpy(it->cls, "e");
    char *eq = strpbrk(t, "@=");
    if (!eq) return;
    bool is_pool = *eq == '@';
    *eq = 0;
    char *colon = strchr(t, ':');
    if (colon) {
        *colon = 0;
        snprintf(it->cls, sizeof it->cls, "%s", colon + 1);
    }
    it->address = eq > t && eq[-1] == '+';
    it->what = !strncmp(t, "lds", 3) ? 'L' : !strncmp(t, "mem", 3) ? 'G' : t[0];
    if (it->what == 's' || it->what == 'v') it->reg = (unsigned)strtoul(t + 1, NULL, 10);
    if (is_pool)
        it->pool = find_pool(f, eq + 1);
    else {
        it->hex = eq + 1;
        if (it->what != 'v' && it->what != 'L' && it->what != 'G') it->value = strtoull(eq + 1, NULL, 16);
    }
}

/* The next vector; false at the end of the file. Text in *v stays with the file. */
static inline bool vector_file_next(vector_file *f, vector *v) {
    while (*f->at) {
        char *line = f->at, *end = strchr(line, '\n');
        if (end) *end = 0;
        f->at = end ? end + 1 : line + strlen(line);
        char *save = NULL, *word = strtok_r(line, " ", &save);
        if (!word) continue;
        if (!strcmp(word, "targets")) {
            while ((word = strtok_r(NULL, " ", &save)) && f->n_targets < MAX_TARGETS) f->target[f->n_targets++] = word;
        } else if (!strcmp(word, "pool")) {
            pool *p = calloc(1, sizeof *p);
            if (!p) return false;
            p->name = strtok_r(NULL, " ", &save);
            p->hex = strtok_r(NULL, " ", &save);
            size_t n = strlen(p->hex);
            p->n_values = strncmp(p->name, "mem.", 4) ? 64 : MEMORY_DWORDS;
            p->digits = (unsigned)(n / p->n_values);
            p->next = f->pools[name_hash(p->name)];
            f->pools[name_hash(p->name)] = p;
        } else if (!strcmp(word, "inst")) {
            f->format = strtok_r(NULL, " ", &save);
            f->mnemonic = strtok_r(NULL, " ", &save);
        } else {
            v->format = f->format;
            v->mnemonic = f->mnemonic;
            v->targets = (uint32_t)strtoul(word, NULL, 16);
            v->wave = (unsigned)strtoul(strtok_r(NULL, " ", &save), NULL, 10);
            word = strtok_r(NULL, " ", &save);
            v->n_bytes = (unsigned)strlen(word) / 2;
            for (unsigned i = 0; i < v->n_bytes && i < sizeof v->code; i++) v->code[i] = (uint8_t)hex_value(word + 2 * i, 2);
            v->n_in = v->n_out = 0;
            bool results = false;
            while ((word = strtok_r(NULL, " ", &save))) {
                if (*word == '|')
                    results = true;
                else if (results && v->n_out < MAX_ITEMS)
                    parse_item(f, word, &v->out[v->n_out++]);
                else if (!results && v->n_in < MAX_ITEMS)
                    parse_item(f, word, &v->in[v->n_in++]);
            }
            return true;
        }
    }
    return false;
}

#endif
