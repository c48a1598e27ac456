/* Calls that a kernel makes to the host, as the device libraries make them: a lane's eight words go into a packet, packets are
 * pushed on a stack, and the wave waits until the host has answered. printf, the message of a failed assertion and large
 * device allocations come this way.
 *
 *   buffer: headers, payloads, doorbell signal, stack of free packets, stack of ready packets, mask of a packet's index
 *   header: next, lanes, service, control (bit 0: ready)      payload: 64 lanes of 8 words
 * A reference to a packet is its index and, above the mask, a tag that changes with every use. 0 ends a stack. */
#include "hip/hostcall.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    N_PACKETS = 16384, /* more than waves that any board holds at once */
    SERVICE_PRINTF = 2,
    SERVICE_DEVMEM = 3,
    SLAB_ALIGN = 2 << 20
};

typedef struct packet_header {
    uint64_t next, lanes;
    uint32_t service;
    _Atomic uint32_t control;
} packet_header;
typedef struct call_buffer {
    uint64_t headers, payloads, doorbell; /* device addresses */
    _Atomic uint64_t free_stack, ready_stack;
    uint64_t mask;
} call_buffer;
typedef struct hsa_signal {
    int64_t kind;
    _Atomic int64_t value;
    uint64_t mailbox;
    uint32_t event_id, pad[9];
} hsa_signal;
_Static_assert(sizeof(packet_header) == 24 && sizeof(call_buffer) == 48 && sizeof(hsa_signal) == 64,
               "the device libraries' layouts");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static int n_running;      /* kernels that may call */
static bool thread_started;

static hipError_t buffer_new(sim_device *d, uint64_t *out) {
    uint64_t headers = sizeof(call_buffer) + sizeof(hsa_signal), payloads = headers + N_PACKETS * sizeof(packet_header);
    payloads = (payloads + 4095) / 4096 * 4096;
    uint64_t bytes = payloads + (uint64_t)N_PACKETS * 4096, addr;
    och_err err;
    och_err_clear(&err);
    if (sim_space_alloc(sim_hip.space, bytes, 4096, SIM_MEM_PINNED, d->ordinal, true, &addr, &err) != OCH_OK)
        return hipErrorOutOfMemory;
    uint8_t *host = sim_space_host(sim_hip.space, addr, bytes);
    if (!host) return hipErrorOutOfMemory;
    call_buffer *b = (call_buffer *)host;
    hsa_signal *signal = (hsa_signal *)(host + sizeof *b);
    packet_header *h = (packet_header *)(host + headers);
    *signal = (hsa_signal){.kind = 1};
    for (uint64_t i = 0; i < N_PACKETS; i++) h[i].next = i + 1 < N_PACKETS ? N_PACKETS + i + 1 : 0;
    b->headers = addr + headers;
    b->payloads = addr + payloads;
    b->doorbell = addr + sizeof *b;
    b->free_stack = N_PACKETS; /* index 0, tag 1 */
    b->mask = N_PACKETS - 1;
    *out = addr;
    return hipSuccess;
}

/* ---- messages: what a lane appends to until it says that this was the end ---- */
enum { MESSAGE_BEGIN = 1, MESSAGE_END = 2 };
typedef struct message {
    uint64_t *words;
    size_t n, room;
    bool used;
} message;
static message *messages;
static size_t n_messages;

static uint64_t message_new(void) {
    for (size_t i = 0; i < n_messages; i++)
        if (!messages[i].used) {
            messages[i].used = true;
            messages[i].n = 0;
            return i;
        }
    message *m = och_realloc_array(messages, n_messages + 64, sizeof *m);
    if (!m) return UINT64_MAX;
    memset(m + n_messages, 0, 64 * sizeof *m);
    messages = m;
    size_t i = n_messages;
    n_messages += 64;
    messages[i].used = true;
    return i;
}

static void serve_message(uint64_t words[8]) {
    uint64_t desc = words[0], id = desc >> 8;
    size_t n = desc >> 5 & 7;
    if (desc & MESSAGE_BEGIN) {
        id = message_new();
        desc = (desc & 0xFE) | id << 8;
    }
    if (id >= n_messages || !messages[id].used) {
        words[0] = UINT64_MAX;
        return;
    }
    message *m = &messages[id];
    if (m->n + n > m->room) {
        uint64_t *w = och_realloc_array(m->words, (m->n + n) * 2, sizeof *w);
        if (!w) {
            words[0] = desc;
            return;
        }
        m->words = w;
        m->room = (m->n + n) * 2;
    }
    memcpy(m->words + m->n, words + 1, n * 8);
    m->n += n;
    words[0] = desc & ~(uint64_t)MESSAGE_BEGIN;
    if (desc & MESSAGE_END) {
        /* the first word chooses the stream */
        words[0] = (uint64_t)(int64_t)(m->n ? sim_printf_write(m->words[0] & 1 ? stderr : stdout, m->words + 1, m->n - 1) : -1);
        m->used = false;
    }
}

static void serve(sim_device *d, uint32_t service, uint64_t words[8]) {
    switch (service) {
    case SERVICE_PRINTF: serve_message(words); break;
    case SERVICE_DEVMEM:
        if (words[1]) {
            uint64_t addr;
            /* a slab's header is found by clearing the low bits of an address in it */
            words[0] = sim_memory_alloc(d, words[1], SLAB_ALIGN, SIM_MEM_DEVICE, 0, &addr) == hipSuccess ? addr : 0;
        } else if (words[0]) (void)sim_memory_free(words[0]);
        break;
    default: fprintf(stderr, "ochre-sim: a kernel asked the host for service %u, which is not known\n", service); break;
    }
}

static void serve_device(sim_device *d, uint64_t addr) {
    call_buffer *b = sim_space_host(sim_hip.space, addr, sizeof *b);
    if (!b) return;
    uint64_t list = atomic_exchange_explicit(&b->ready_stack, 0, memory_order_acquire), ordered = 0;
    uint8_t *base = (uint8_t *)b;
    packet_header *h = (packet_header *)(base + (b->headers - addr));
    /* the stack's top came last: turned round, calls are served in the order they were made */
    while (list) {
        packet_header *p = &h[list & b->mask];
        uint64_t next = p->next;
        p->next = ordered;
        ordered = list;
        list = next;
    }
    while (ordered) {
        packet_header *p = &h[ordered & b->mask];
        uint64_t(*payload)[8] = (uint64_t(*)[8])(base + (b->payloads - addr) + (ordered & b->mask) * 4096);
        ordered = p->next;
        for (int lane = 0; lane < 64; lane++)
            if (p->lanes >> lane & 1) serve(d, p->service, payload[lane]);
        fflush(stdout);
        atomic_fetch_and_explicit(&p->control, ~1u, memory_order_release);
    }
}

static void *serve_main(void *arg) {
    (void)arg;
    struct timespec nap = {0, 20000};
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!n_running) pthread_cond_wait(&wake, &lock);
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < sim_hip.n_devices; i++) {
            uint64_t addr = __atomic_load_n(&sim_hip.devices[i].hostcall_addr, __ATOMIC_ACQUIRE);
            if (addr) serve_device(&sim_hip.devices[i], addr);
        }
        nanosleep(&nap, NULL);
    }
    return NULL;
}

/* ---- what launches ask for ---- */
static bool wants(const och_obj_kernel *info, och_obj_arg_kind kind) {
    for (size_t i = 0; i < info->n_args; i++)
        if (info->args[i].kind == kind) return true;
    return false;
}

bool sim_kernel_calls(const och_obj_kernel *info) { return wants(info, OCH_ARG_HIDDEN_HOSTCALL_BUFFER); }

void sim_hostcall_begin(void) {
    pthread_mutex_lock(&lock);
    n_running++;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
}
void sim_hostcall_end(void) {
    pthread_mutex_lock(&lock);
    n_running--;
    pthread_mutex_unlock(&lock);
}

/* The device libraries' malloc keeps its books here; all zero is a heap that has nothing yet and asks the host for slabs. */
static hipError_t heap_buffer(sim_device *d, uint64_t *out) {
    enum { HEAP_BYTES = 256 << 10 };
    if (!d->heap_addr) {
        och_err err;
        och_err_clear(&err);
        uint64_t addr;
        if (sim_space_alloc(sim_hip.space, HEAP_BYTES, 4096, SIM_MEM_PINNED, d->ordinal, true, &addr, &err) != OCH_OK)
            return hipErrorOutOfMemory;
        void *host = sim_space_host(sim_hip.space, addr, HEAP_BYTES);
        if (!host) return hipErrorOutOfMemory;
        memset(host, 0, HEAP_BYTES);
        d->heap_addr = addr;
    }
    *out = d->heap_addr;
    return hipSuccess;
}

hipError_t sim_hidden_fill(sim_device *d, const och_obj_kernel *info, sim_hidden *out) {
    hipError_t e = hipSuccess;
    out->shared_base = SIM_SHARED_BASE;
    out->private_base = SIM_PRIVATE_BASE;
    pthread_mutex_lock(&lock);
    if (wants(info, OCH_ARG_HIDDEN_HOSTCALL_BUFFER)) {
        uint64_t addr = d->hostcall_addr;
        if (!addr && (e = buffer_new(d, &addr)) == hipSuccess) __atomic_store_n(&d->hostcall_addr, addr, __ATOMIC_RELEASE);
        out->hostcall_buffer = addr;
        if (e == hipSuccess && !thread_started) {
            pthread_t thread;
            pthread_attr_t attr;
            pthread_attr_init(&attr);
            pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
            thread_started = pthread_create(&thread, &attr, serve_main, NULL) == 0;
            pthread_attr_destroy(&attr);
            if (!thread_started) e = hipErrorOutOfMemory;
        }
    }
    if (e == hipSuccess && wants(info, OCH_ARG_HIDDEN_HEAP_V1)) e = heap_buffer(d, &out->heap);
    if (e == hipSuccess && wants(info, OCH_ARG_HIDDEN_PRINTF_BUFFER)) e = sim_printf_buffer(d, &out->printf_buffer);
    pthread_mutex_unlock(&lock);
    return e;
}
