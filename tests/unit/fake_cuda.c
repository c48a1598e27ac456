/* A libcuda in host memory, built by the tests when they run: what the CUDA backend calls does what CUDA's manual says, one
 * thing after another. A kernel is known by its name: put, twice, count and nothing are those of conform/support/ptx_text.h,
 * "fault" reads an illegal address, "hungry" uses 255 registers and 1 KiB of local memory; others do nothing.
 * Macros choose what it claims:
 *   VERSION (13000)   DEVICES (1)   NAME   CAPABILITY (90)   MEMORY (bytes)   INIT (what cuInit says)
 *   NO_xxx: without this call   END: what its finalizer does
 * and fake_fail(call, result) makes the next call of that name fail. */
#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef VERSION
#define VERSION 13000
#endif
#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef NAME
#define NAME "NVIDIA H200"
#endif
#ifndef CAPABILITY
#define CAPABILITY 90
#endif
#ifndef MEMORY
#define MEMORY (1ul << 30)
#endif
#ifndef INIT
#define INIT 0
#endif
#define MOST_DEVICES 8
#define EXPORT __attribute__((visibility("default")))

typedef int R;
typedef unsigned long long P;
typedef size_t Z;

typedef struct op {
    struct op *next;
    int kind; /* 'c' copy, 'f' fill, 'k' kernel */
    char *dst;
    const char *src;
    Z n;
    int byte;
    struct function *function;
    unsigned grid, group, shared;
    unsigned char args[64];
    Z n_args;
} op;

typedef struct context {
    int device, retained, error; /* of what came before; stays */
    Z used;
    unsigned peers;
} context;

typedef struct stream {
    context *c;
    int mode; /* -1: does not record */
    pthread_t recorder;
    int broken;
    op *first, **last;
} stream;

typedef struct event {
    context *c;
    int recorded;
} event;

typedef struct module {
    char text[4096];
    struct function *functions;
} module;

typedef struct function {
    struct function *next;
    char name[64];
    int dynamic;
} function;

typedef struct block {
    struct block *next;
    char *at;
    Z n;
    context *c; /* NULL: the host's */
} block;

static context contexts[MOST_DEVICES];
static __thread __attribute__((tls_model("initial-exec"))) context *current;
static __thread __attribute__((tls_model("initial-exec"))) stream *recording; /* of this thread, in a mode that forbids calls */
static block *blocks;
static stream default_stream = {NULL, -1, 0, 0, NULL, NULL};
static char failing[64];
static int failing_with;
static unsigned n_calls_refused, n_launched;

/* ---- for tests ---- */

EXPORT void fake_fail(const char *call, int result) {
    snprintf(failing, sizeof failing, "%s", call);
    failing_with = result;
}
EXPORT unsigned fake_refused(void) { return n_calls_refused; } /* calls that a capture forbids, made in one */
EXPORT unsigned fake_launched(void) { return n_launched; }
EXPORT int fake_retained(int device) { return contexts[device].retained; }
EXPORT unsigned fake_peers(int device) { return contexts[device].peers; }
EXPORT int fake_blocks(void) {
    int n = 0;
    for (block *b = blocks; b; b = b->next) n++;
    return n;
}

/* ---- what every call does first ---- */

static R enter(const char *call) {
    if (!strcmp(call, failing)) {
        failing[0] = 0;
        return failing_with;
    }
    return 0;
}
static R in_context(const char *call) {
    R r = enter(call);
    if (r) return r;
    if (!current || !current->retained) return 201;
    return current->error;
}
/* Of calls that a thread which records may not make. */
static R forbidden(const char *call) {
    R r = in_context(call);
    if (r || !recording) return r;
    n_calls_refused++;
    recording->broken = 1;
    return 900;
}
#define IN(call, check)                                                                                                \
    R r_ = check(#call);                                                                                               \
    if (r_) return r_

/* ---- the system ---- */

#ifndef NO_cuInit
EXPORT R cuInit(unsigned flags) { return flags ? 1 : INIT; }
#endif
EXPORT R cuDriverGetVersion(int *v) { return *v = VERSION, 0; }
EXPORT R cuGetErrorName(R e, const char **out) {
    switch (e) {
        case 0: *out = "CUDA_SUCCESS"; return 0;
        case 1: *out = "CUDA_ERROR_INVALID_VALUE"; return 0;
        case 2: *out = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
        case 34: *out = "CUDA_ERROR_STUB_LIBRARY"; return 0;
        case 100: *out = "CUDA_ERROR_NO_DEVICE"; return 0;
        case 218: *out = "CUDA_ERROR_INVALID_PTX"; return 0;
        case 500: *out = "CUDA_ERROR_NOT_FOUND"; return 0;
        case 700: *out = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
        case 701: *out = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"; return 0;
        case 803: *out = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return 0;
        case 900: *out = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; return 0;
        case 901: *out = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"; return 0;
        default: *out = NULL; return 1;
    }
}
EXPORT R cuGetErrorString(R e, const char **out) {
    return *out = e == 700 ? "an illegal memory access was encountered" : "text", e == 999;
}
EXPORT R cuDeviceGetCount(int *n) { return *n = DEVICES, 0; }
EXPORT R cuDeviceGet(int *d, int i) { return *d = i, i < 0 || i >= DEVICES ? 101 : 0; }
EXPORT R cuDeviceGetName(char *out, int n, int d) {
    IN(cuDeviceGetName, enter);
    snprintf(out, (Z)n, "%s", NAME);
    return d < 0 || d >= DEVICES;
}
EXPORT R cuDeviceTotalMem_v2(Z *n, int d) { return *n = MEMORY, d < 0 || d >= DEVICES; }
EXPORT R cuDeviceGetAttribute(int *v, int which, int d) {
    static const int values[][2] = {{1, 1024},
                                    {2, 1024},
                                    {3, 1024},
                                    {4, 64},
                                    {5, 2147483647},
                                    {6, 65535},
                                    {7, 65535},
                                    {8, 49152},
                                    {10, 32},
                                    {12, 65536},
                                    {16, 132},
                                    {18, 0},
                                    {36, 3201000},
                                    {37, 6144},
                                    {38, 62914560},
                                    {41, 1},
                                    {75, CAPABILITY / 10},
                                    {76, CAPABILITY % 10},
                                    {89, 1},
                                    {97, 232448}};
    for (Z i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i][0] == which) return *v = values[i][1], d < 0 || d >= DEVICES;
    return 1;
}
EXPORT R cuDeviceGetPCIBusId(char *out, int n, int d) { return snprintf(out, (Z)n, "0000:%02X:00.0", 0xa + d), 0; }
EXPORT R cuDevicePrimaryCtxRetain(context **out, int d) {
    IN(cuDevicePrimaryCtxRetain, enter);
    contexts[d].device = d;
    contexts[d].retained++;
    return *out = &contexts[d], 0;
}
#ifndef NO_cuDevicePrimaryCtxRelease_v2
EXPORT R cuDevicePrimaryCtxRelease_v2(int d) { return contexts[d].retained-- > 0 ? 0 : 201; }
#endif
EXPORT R cuCtxSetCurrent(context *c) { return current = c, 0; }

/* ---- memory ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the blocks */

static block *block_at(P at, Z n) {
    block *found = NULL;
    pthread_mutex_lock(&lock);
    for (block *b = blocks; b && !found; b = b->next)
        if (at >= (P)b->at && n <= b->n && at - (P)b->at <= b->n - n) found = b;
    pthread_mutex_unlock(&lock);
    return found;
}
static R take(char **out, Z n, context *c) {
    block *b = malloc(sizeof *b);
    pthread_mutex_lock(&lock);
    *b = (block){blocks, NULL, n, c};
    if (!c || n <= MEMORY - c->used) b->at = aligned_alloc(4096, (n + 4095) & ~(Z)4095);
    if (b->at && c) c->used += n;
    if (b->at) blocks = b;
    pthread_mutex_unlock(&lock);
    if (!b->at) return free(b), 2;
    return *out = b->at, 0;
}
static R drop(P at, context *c) {
    block *b = NULL;
    pthread_mutex_lock(&lock);
    for (block **p = &blocks; *p; p = &(*p)->next)
        if ((P)(*p)->at == at && (*p)->c == c) {
            b = *p;
            *p = b->next;
            if (c) c->used -= b->n;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!b) return 1;
    free(b->at);
    free(b);
    return 0;
}
EXPORT R cuMemGetInfo_v2(Z *n_free, Z *total) {
    IN(cuMemGetInfo_v2, in_context);
    return *total = MEMORY, *n_free = MEMORY - current->used, 0;
}
#ifndef NO_cuMemAlloc_v2
EXPORT R cuMemAlloc_v2(P *out, Z n) {
    IN(cuMemAlloc_v2, forbidden);
    char *at;
    if (!n) return 1;
    if (take(&at, n, current)) return 2;
    return *out = (P)at, 0;
}
#endif
EXPORT R cuMemFree_v2(P at) {
    IN(cuMemFree_v2, forbidden);
    return drop(at, current);
}
EXPORT R cuMemHostAlloc(void **out, Z n, unsigned flags) {
    IN(cuMemHostAlloc, forbidden);
    return flags == 3 ? take((char **)out, n, NULL) : 1;
}
EXPORT R cuMemFreeHost(void *p) {
    IN(cuMemFreeHost, forbidden);
    return drop((P)p, NULL);
}
EXPORT R cuMemHostGetDevicePointer_v2(P *out, void *p, unsigned flags) {
    IN(cuMemHostGetDevicePointer_v2, in_context);
    return *out = (P)p, flags || !block_at((P)p, 1);
}

/* ---- streams: what they are given is done at once ---- */

/* p, n and more, as the kernel takes them */
static unsigned *words(const op *o, unsigned n_bytes, unsigned *out_n) {
    P at;
    memcpy(&at, o->args, sizeof at);
    memcpy(out_n, o->args + sizeof at, sizeof *out_n);
    if (block_at(at, n_bytes ? n_bytes : *out_n * 4ul)) return (unsigned *)at;
    current->error = 700;
    return NULL;
}
static R run(const op *o) {
    if (o->kind == 'c') memmove(o->dst, o->src, o->n);
    if (o->kind == 'f') memset(o->dst, o->byte, o->n);
    if (o->kind != 'k') return 0;
    n_launched++;
    const char *name = o->function->name;
    unsigned n = 0, *p, add;
    if (!strcmp(name, "fault")) current->error = 700;
    if (!strcmp(name, "put") && (p = words(o, 0, &n))) {
        memcpy(&add, o->args + 12, sizeof add);
        for (unsigned i = 0; i < n; i++) p[i] = i * 3 + add;
    }
    if (!strcmp(name, "twice") && (p = words(o, 0, &n)))
        for (unsigned i = 0; i < n; i++) p[i] *= 2;
    if (!strcmp(name, "count") && o->shared == 256 && (p = words(o, o->grid * 4, &n)))
        for (unsigned i = 0; i < o->grid; i++) p[i] = o->group;
    return 0;
}
static R give(stream *s, op o) {
    if (!s) s = &default_stream;
    if (s->c && s->c != current) return 400;
    if (s->mode < 0) return run(&o);
    if (s->broken) return 901;
    op *kept = malloc(sizeof *kept);
    *kept = o;
    kept->next = NULL;
    *s->last = kept;
    s->last = &kept->next;
    return 0;
}
static void forget(op *o) {
    for (op *next; o; o = next) next = o->next, free(o);
}

EXPORT R cuStreamCreate(stream **out, unsigned flags) {
    IN(cuStreamCreate, forbidden);
    if (flags != 1) return 1;
    *out = calloc(1, sizeof **out);
    (*out)->c = current;
    (*out)->mode = -1;
    return 0;
}
EXPORT R cuStreamDestroy_v2(stream *s) {
    IN(cuStreamDestroy_v2, in_context);
    if (s->mode >= 0) return 900;
    free(s);
    return 0;
}
EXPORT R cuStreamSynchronize(stream *s) {
    IN(cuStreamSynchronize, in_context);
    if (!s || s->mode < 0) return 0;
    n_calls_refused++;
    return s->broken = 1, 900;
}
EXPORT R cuStreamWaitEvent(stream *s, event *e, unsigned flags) {
    IN(cuStreamWaitEvent, in_context);
    return (s && s->c != current) || flags || !e;
}
EXPORT R cuMemcpyHtoDAsync_v2(P dst, const void *src, Z n, stream *s) {
    IN(cuMemcpyHtoDAsync_v2, in_context);
    block *b = block_at(dst, n);
    if (!b || (s && s->mode >= 0 && !block_at((P)src, n))) return 1;
    return give(s, (op){.kind = 'c', .dst = (char *)dst, .src = src, .n = n});
}
EXPORT R cuMemcpyDtoHAsync_v2(void *dst, P src, Z n, stream *s) {
    IN(cuMemcpyDtoHAsync_v2, in_context);
    if (!block_at(src, n) || (s && s->mode >= 0 && !block_at((P)dst, n))) return 1;
    return give(s, (op){.kind = 'c', .dst = dst, .src = (char *)src, .n = n});
}
EXPORT R cuMemcpyAsync(P dst, P src, Z n, stream *s) {
    IN(cuMemcpyAsync, in_context);
    if (!block_at(src, n) || !block_at(dst, n)) return 1;
    return give(s, (op){.kind = 'c', .dst = (char *)dst, .src = (char *)src, .n = n});
}
EXPORT R cuMemsetD8Async(P dst, unsigned char byte, Z n, stream *s) {
    IN(cuMemsetD8Async, in_context);
    if (!block_at(dst, n)) return 1;
    return give(s, (op){.kind = 'f', .dst = (char *)dst, .byte = byte, .n = n});
}
#ifndef NO_cuMemcpyPeerAsync
EXPORT R cuMemcpyPeerAsync(P dst, context *to, P src, context *from, Z n, stream *s) {
    IN(cuMemcpyPeerAsync, in_context);
    block *a = block_at(dst, n), *b = block_at(src, n);
    if (!a || !b || (a->c && a->c != to) || (b->c && b->c != from)) return 1;
    return give(s, (op){.kind = 'c', .dst = (char *)dst, .src = (char *)src, .n = n});
}
#endif
EXPORT R cuDeviceCanAccessPeer(int *can, int a, int b) { return *can = a != b, 0; }
EXPORT R cuCtxEnablePeerAccess(context *c, unsigned flags) {
    IN(cuCtxEnablePeerAccess, in_context);
    if (current->peers & 1u << c->device) return 704;
    current->peers |= 1u << c->device;
    return flags != 0;
}

EXPORT R cuEventCreate(event **out, unsigned flags) {
    IN(cuEventCreate, in_context);
    if (flags != 2) return 1;
    *out = calloc(1, sizeof **out);
    return (*out)->c = current, 0;
}
EXPORT R cuEventDestroy_v2(event *e) {
    IN(cuEventDestroy_v2, in_context);
    free(e);
    return 0;
}
EXPORT R cuEventRecord(event *e, stream *s) {
    IN(cuEventRecord, in_context);
    if (e->c != current || (s && s->c != current)) return 400;
    e->recorded = 1;
    return 0;
}
EXPORT R cuEventQuery(event *e) {
    IN(cuEventQuery, forbidden);
    return e->c == NULL;
}
EXPORT R cuEventSynchronize(event *e) {
    IN(cuEventSynchronize, forbidden);
    return e->c == NULL;
}

/* ---- modules ---- */

/* The kernels of a cubin have a section .text.NAME each: written out as the entries of PTX. */
static void entries(const unsigned char *elf, char *out, Z n) {
    Elf64_Ehdr h;
    memcpy(&h, elf, sizeof h);
    const Elf64_Shdr *s = (const void *)(elf + h.e_shoff);
    const char *names = (const char *)elf + s[h.e_shstrndx].sh_offset;
    Z at = (Z)snprintf(out, n, ".version of a cubin\n");
    for (int i = 0; i < h.e_shnum && at < n; i++)
        if (!strncmp(names + s[i].sh_name, ".text.", 6))
            at += (Z)snprintf(out + at, n - at, ".entry %s(\n", names + s[i].sh_name + 6);
}

EXPORT R cuModuleLoadDataEx(module **out, const void *image, unsigned n, int *options, void **values) {
    IN(cuModuleLoadDataEx, forbidden);
    static const char elf[] = "\177ELF";
    const char *text = !memcmp(image, elf, 4) ? "" : image;
    Z end = strlen(text);
    while (end && strchr("\n ", text[end - 1])) end--;
    if (end && (!strstr(text, ".version") || text[end - 1] != '}')) {
        for (unsigned i = 0; i < n; i++)
            if (options[i] == 5)
                snprintf(values[i], 128, "ptxas application ptx input, line 3; fatal   : nonsense\nsecond line");
        return 218;
    }
    *out = calloc(1, sizeof **out);
    if (text[0]) snprintf((*out)->text, sizeof (*out)->text, "%s", text);
    else entries(image, (*out)->text, sizeof (*out)->text);
    return 0;
}
EXPORT R cuModuleUnload(module *m) {
    IN(cuModuleUnload, in_context);
    for (function *f = m->functions, *next; f; f = next) next = f->next, free(f);
    free(m);
    return 0;
}
EXPORT R cuModuleGetFunction(function **out, module *m, const char *name) {
    IN(cuModuleGetFunction, forbidden);
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    if (!strstr(m->text, entry)) return 500;
    function *f = calloc(1, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->dynamic = 49152;
    f->next = m->functions;
    return m->functions = *out = f, 0;
}
EXPORT R cuFuncGetAttribute(int *v, int which, function *f) {
    IN(cuFuncGetAttribute, in_context);
    int hungry = !strcmp(f->name, "hungry");
    *v = which == 0 ? (hungry ? 256 : 1024) : which == 3 ? (hungry ? 1024 : 0) : which == 4 ? (hungry ? 255 : 16) : 0;
    return 0;
}
EXPORT R cuFuncSetAttribute(function *f, int which, int v) {
    IN(cuFuncSetAttribute, in_context);
    if (which != 8 || v > 232448) return 1;
    return f->dynamic = v, 0;
}
static R launch(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                stream *s, void **params, void **extra) {
    op o = {.kind = 'k', .function = f, .grid = gx * gy * gz, .group = bx * by * bz, .shared = shared};
    if (params || o.group > 1024 || (int)shared > f->dynamic) return 1;
    for (int i = 0; extra && extra[i]; i += 2) {
        if (extra[i] == (void *)2) o.n_args = *(Z *)extra[i + 1];
        else if (extra[i] != (void *)1) return 1;
    }
    for (int i = 0; extra && extra[i]; i += 2)
        if (extra[i] == (void *)1 && o.n_args <= sizeof o.args) memcpy(o.args, extra[i + 1], o.n_args);
    return give(s, o);
}
EXPORT R cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, stream *s, void **params, void **extra) {
    IN(cuLaunchKernel, in_context);
    return launch(f, gx, gy, gz, bx, by, bz, shared, s, params, extra);
}
#ifndef NO_cuLaunchKernelEx
/* As in cuda.h: an attribute has eight bytes for its id and 64 for its value. */
typedef struct {
    unsigned g[3], b[3], shared;
    stream *s;
    struct {
        int id, pad, value, rest[15];
    } *attributes;
    unsigned n_attributes;
} config;
static unsigned n_early, n_roomy;
EXPORT unsigned fake_roomy(void) { return n_roomy; } /* launches that ask for all of a multiprocessor's shared memory */
EXPORT unsigned fake_early(void) { return n_early; } /* launches that may start before the one before them has ended */
EXPORT R cuLaunchKernelEx(const config *c, function *f, void **params, void **extra) {
    IN(cuLaunchKernelEx, in_context);
    for (unsigned i = 0; i < c->n_attributes; i++) {
        if (c->attributes[i].id == 14 && c->attributes[i].value == 100) n_roomy++;
        else if (c->attributes[i].id == 6) n_early += c->attributes[i].value == 1;
        else return 1;
    }
    return launch(f, c->g[0], c->g[1], c->g[2], c->b[0], c->b[1], c->b[2], c->shared, c->s, params, extra);
}
#endif

/* ---- graphs ---- */

#ifndef NO_cuStreamBeginCapture_v2
EXPORT R cuStreamBeginCapture_v2(stream *s, int mode) {
    IN(cuStreamBeginCapture_v2, in_context);
    if (!s) return 900;
    if (s->mode >= 0) return 1;
    s->mode = mode;
    s->recorder = pthread_self();
    s->broken = 0;
    s->first = NULL;
    s->last = &s->first;
    if (mode != 2) recording = s;
    return 0;
}
#endif
EXPORT R cuStreamEndCapture(stream *s, op **out) {
    R r = enter("cuStreamEndCapture");
    if (s->mode < 0) return 1;
    if (s->mode != 2 && !pthread_equal(s->recorder, pthread_self())) return 908;
    s->mode = -1;
    recording = NULL;
    *out = NULL;
    if (!r && s->broken) r = 901;
    if (r) return forget(s->first), r;
    *out = malloc(sizeof **out); /* an empty graph is one: the list has a head */
    memset(*out, 0, sizeof **out);
    return (*out)->next = s->first, 0;
}
EXPORT R cuGraphInstantiateWithFlags(op **out, op *graph, unsigned long long flags) {
    IN(cuGraphInstantiateWithFlags, in_context);
    op **last = out;
    for (op *o = graph; o; o = o->next, last = &(*last)->next) {
        *last = malloc(sizeof **last);
        **last = *o;
        (*last)->next = NULL;
    }
    return flags != 0;
}
EXPORT R cuGraphLaunch(op *exec, stream *s) {
    IN(cuGraphLaunch, forbidden);
    for (op *o = exec->next; o; o = o->next) give(s, *o);
    return 0;
}
EXPORT R cuGraphExecDestroy(op *exec) { return forget(exec), 0; }
EXPORT R cuGraphDestroy(op *graph) { return forget(graph), 0; }

#ifdef END
__attribute__((destructor)) static void end(void) { END; }
#endif
