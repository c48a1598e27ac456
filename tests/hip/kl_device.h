/* The part of kl_run.h that runs a kernel on a device of the seam. */
#ifndef TESTS_HIP_KL_DEVICE_H
#define TESTS_HIP_KL_DEVICE_H

#include "dev/dev.h"
#include "jit/jit.h"

/* What was made of a kernel: by the simulator's library, or by the program's own rooms. */
typedef struct kl_code {
    hiprtcProgram prog;
    hipModule_t m;
    hipFunction_t f;
    char *code;
    och_module *module;
    och_function *function;
} kl_code;

static och_device *kl_device; /* NULL: the simulator's library */
static och_queue *kl_queue;
static och_jit *kl_jit;
static och_err kl_err;

#define KL_OK(x)                                                                                                               \
    do {                                                                                                                       \
        if ((x) != OCH_OK) fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, kl_err.message), _exit(2);               \
    } while (0)

static inline void kl_device_load(kl_code *k, const och_kl_signature *s, const och_strbuf *text) {
    och_jit_artifact *a = NULL;
    och_strbuf log = {0};
    const och_jit_request q = {.text = och_strbuf_str(text),
                               .text_bytes = text->size,
                               .target = on->arch,
                               .wave_size = on->wave,
                               .dialect = strncmp(on->arch, "sm_", 3) ? OCH_JIT_HIP : OCH_JIT_CUDA,
                               .symbol = s->entry,
                               .newest_code_object_version = kl_device->info.code_object_version};
    if (och_jit_get(kl_jit, &q, &a, &log, &kl_err) != OCH_OK) {
        fprintf(stderr, "%s%s\n%s\n", getenv("KL_TEXT") ? och_strbuf_str(text) : "", kl_err.message, och_strbuf_str(&log));
        _exit(2);
    }
    KL_OK(kl_device->vtable->module_load(kl_device, a->code, a->code_bytes, &k->module, &kl_err));
    KL_OK(kl_device->vtable->module_function(k->module, s->entry, &k->function, &kl_err));
    och_jit_artifact_destroy(a);
    och_strbuf_deinit(&log);
}

static inline void kl_device_take(actual *v, bool in) {
    och_buf *b = &v->buf;
    KL_OK(och_buf_alloc(kl_device, v->bytes ? v->bytes : 1, OCH_MEM_DEVICE, b, &kl_err));
    v->device = (void *)(uintptr_t)b->addr.value;
    if (in) KL_OK(kl_device->vtable->copy_to_device(kl_queue, b->addr, v->host, v->bytes, &kl_err));
}

static inline void kl_device_launch(const kl_code *k, const och_kl_signature *s, const unsigned grid[3], const void *args) {
    const och_launch l = {.grid = {grid[0], grid[1], grid[2]},
                          .group = {(uint32_t)s->threads, 1, 1},
                          .lds_bytes = s->lds_launch_bytes,
                          .args = args,
                          .args_bytes = s->args_bytes};
    KL_OK(kl_device->vtable->launch(kl_queue, k->function, &l, &kl_err));
    KL_OK(kl_device->vtable->synchronise(kl_queue, &kl_err));
}

static inline void kl_device_give(actual *v, bool out) {
    if (out) KL_OK(kl_device->vtable->copy_to_host(kl_queue, v->host, v->buf.addr, v->bytes, &kl_err));
    KL_OK(kl_device->vtable->synchronise(kl_queue, &kl_err));
    och_buf_free(&v->buf);
}

/* Runs body in a process of its own on the device; 0 where it came to its end. */
static inline int kl_on_device(const char *name, void (*body)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        static board b;
        for (int i = 1; i < 32; i++) signal(i, SIG_DFL); /* not cmocka's */
        KL_OK(och_device_open(name, NULL, &kl_device, &kl_err));
        KL_OK(kl_device->vtable->queue_create(kl_device, &kl_queue, &kl_err));
        KL_OK(och_jit_create(&(och_jit_options){0}, &kl_jit, &kl_err));
        b = (board){kl_device->info.arch, kl_device->info.wave_size};
        on = &b;
        body();
        fflush(NULL);
        _exit(0);
    }
    int status = -1;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

#endif
