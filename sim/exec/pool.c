/* The host threads that run workgroups.
 *
 * A worker leases a few groups of a launch, runs each until it ends, and takes the next. A group that waits for others (a
 * sleeping or spinning wave) is set aside and the next is started, up to what the board holds at once; then those set aside
 * take turns. So grid barriers and last-block patterns make progress, and an ordinary kernel's groups run one at a time
 * with their registers in cache.
 *
 * Waking a worker and being woken by it takes longer than many kernels: a launch that will probably end sooner is run by the
 * thread that launches it. */
#include "exec/pool.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "exec/control.h"
#include "exec/program.h"
#include "exec/run.h"
#include "exec/state.h"
#include "exec/title.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Instructions a wave runs before its worker looks around. */
#define SLICE (1 << 22)
/* Slices after which a group that never sleeps counts as one that waits. */
#define PATIENCE 64
#define LEASE_MAX 16
#define MAX_WORKERS 256
/* A launch that is expected to end within so many nanoseconds is its launcher's own. */
#define OWN_NS 50000u
/* Rounds of waves that meet at barriers, turns of groups that wait and groups that end, between looks at the clock. */
#define LOOK 1024u

typedef struct queue {
    sim_block *head, *tail;
    size_t n;
} queue;

typedef struct worker {
    sim_worker base; /* first: what waves see */
    pthread_t thread;
    queue waiting;
    sim_block *spare;   /* memory of a group that ended */
    sim_launch_state *lease;
    uint64_t lease_next, lease_end;
    size_t ranges_capacity;
    uint64_t generation;
    uint32_t n_looks;
    struct worker *next_guest;
} worker;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    sim_launch_state *active;
    worker *workers[MAX_WORKERS];
    worker *guests; /* those that no launching thread uses now */
    int n_workers;
    bool started;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void push(queue *q, sim_block *b) {
    b->next = NULL;
    if (q->tail) q->tail->next = b;
    else q->head = b;
    q->tail = b;
    q->n++;
}

static void push_front(queue *q, sim_block *b) {
    b->next = q->head;
    q->head = b;
    if (!q->tail) q->tail = b;
    q->n++;
}

static sim_block *pop(queue *q) {
    sim_block *b = q->head;
    if (!b) return NULL;
    q->head = b->next;
    if (!q->head) q->tail = NULL;
    q->n--;
    return b;
}

/* Under the pool's lock. */
static void check_complete(sim_launch_state *s) {
    if (s->complete || atomic_load(&s->outstanding) != 0) return;
    if (s->next < s->n_groups && !atomic_load(&s->abort)) return;
    s->complete = true;
    if (!s->listed) return;
    if (s->prev_active) s->prev_active->next_active = s->next_active;
    else pool.active = s->next_active;
    if (s->next_active) s->next_active->prev_active = s->prev_active;
    pthread_cond_broadcast(&pool.done);
}

/* What may be the last is settled under the lock: once nothing is outstanding and the lock is free, whoever takes more groups
 * may end the launch, and with it s, before this thread looks at it again. */
static void settle(sim_launch_state *s, int64_t n) {
    if (n == 0) return;
    int64_t left = atomic_load(&s->outstanding);
    while (left > n)
        if (atomic_compare_exchange_weak(&s->outstanding, &left, left - n)) return;
    pthread_mutex_lock(&pool.lock);
    if (atomic_fetch_sub(&s->outstanding, n) == n) check_complete(s);
    pthread_mutex_unlock(&pool.lock);
}

static void report(sim_launch_state *s, sim_fault_kind kind, const char *text) {
    pthread_mutex_lock(&s->report_lock);
    if (!s->faulted) {
        s->faulted = true;
        s->fault = kind;
        snprintf(s->report, sizeof s->report, "%s", text);
    }
    pthread_mutex_unlock(&s->report_lock);
    atomic_store(&s->abort, true);
}

/* Where every wave of a group stands, for kernels that never end. */
static void describe_waves(och_strbuf *t, const sim_group *g) {
    static const char *states[] = {"running", "waits at the barrier", "running", "ended", "faulted"};
    och_strbuf_printf(t, "; waves of workgroup (%u, %u, %u):", g->id[0], g->id[1], g->id[2]);
    for (uint32_t i = 0; i < g->n_waves && i < 8; i++) {
        const sim_wave *w = &g->waves[i];
        char text[96];
        const sim_inst *at = w->state == SIM_WAVE_DONE ? NULL : sim_wave_stands_at(w);
        och_strbuf_printf(t, "%s %u %s", i ? "," : "", i, states[w->state]);
        if (!at) continue;
        sim_inst_print(at, w->lanes, text, sizeof text);
        och_strbuf_printf(t, "%s 0x%x \"%s\"", w->state == SIM_WAVE_BARRIER ? "," : " at", at->offset, text);
    }
    if (g->n_waves > 8) och_strbuf_printf(t, ", and %u more", g->n_waves - 8);
}

static void group_fault(sim_block *b, sim_wave *w, bool all_waves) {
    sim_launch_state *s = b->group.launch;
    char text[OCH_ERR_MESSAGE_BYTES];
    sim_fault_describe(w, s->l->kernel->name, s->l->space, text, sizeof text);
    och_strbuf t = {0};
    och_strbuf_puts(&t, text);
    if (all_waves) describe_waves(&t, &b->group);
    report(s, w->fault.kind, och_strbuf_str(&t));
    och_strbuf_deinit(&t);
}

static uint64_t executed(const sim_group *g) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n_waves; i++) n += g->waves[i].n_executed;
    return n;
}

static double sign_after = 10;

void sim_pool_sign_after(double seconds) { sign_after = seconds; }

/* Tells now and then that a long launch goes on: a simulated kernel that takes minutes and one that never ends look alike. */
static void sign_of_life(sim_launch_state *s, sim_block *b) {
    const uint64_t n = executed(&b->group);
    const uint64_t all = atomic_fetch_add_explicit(&s->n_executed, n - b->n_told, memory_order_relaxed) + n - b->n_told;
    b->n_told = n;
    const double seconds = och_now_seconds() - s->started;
    uint64_t due = atomic_load_explicit(&s->sign_us, memory_order_relaxed);
    if (seconds * 1e6 < (double)due || !atomic_compare_exchange_strong(&s->sign_us, &due, (uint64_t)(seconds * 2e6) + 1)) return;
    char title[256];
    fprintf(stderr, "ochre-sim: %s has run for %.0f s: %" PRIu64 " of %" PRIu64 " workgroups ended, %.3g instructions so far\n",
            sim_kernel_title(s->l->kernel->name, title, sizeof title), seconds,
            atomic_load_explicit(&s->n_ended, memory_order_relaxed), s->n_groups, (double)all);
}

typedef enum outcome { ENDED, WAITS, SLICED, GAVE_WAY, FAULTED } outcome;

#define TELL(s, what, g)                                                                                               \
    for (int o_ = 0; o_ < (s)->n_observers; o_++)                                                                      \
        if ((s)->observers[o_]->what) (s)->observers[o_]->what((s)->observers[o_], g)

static outcome turn_of_group(worker *k, sim_block *b);

static outcome run_group(worker *k, sim_block *b) {
    sim_launch_state *s = b->group.launch;
    k->base.observers = s->observers;
    k->base.n_observers = s->n_observers;
    TELL(s, group_enter, &b->group);
    outcome r = turn_of_group(k, b);
    TELL(s, group_leave, &b->group);
    return r;
}

static outcome turn_of_group(worker *k, sim_block *b) {
    sim_group *g = &b->group;
    sim_launch_state *s = g->launch;
    /* Short beside a small budget: a wave that waits must not use it up before the others had their turn. */
    const int64_t slice = s->budget / 16 < SLICE ? (int64_t)(s->budget / 16) + 1 : SLICE;
    for (unsigned round = 0;; round++) {
        bool ran = false, waits = false, sliced = false;
        for (uint32_t i = 0; i < g->n_waves; i++) {
            sim_wave *w = &g->waves[i];
            if (w->state == SIM_WAVE_DONE) continue;
            if (w->state == SIM_WAVE_BARRIER && (int32_t)(g->phase - w->barrier_target) < 0) continue;
            ran = true;
            sim_wave_resume(w, &k->base, slice);
            if (w->state == SIM_WAVE_DONE) {
                sim_group_wave_ended(g);
            } else if (w->state == SIM_WAVE_FAULT) {
                group_fault(b, w, false);
                return FAULTED;
            } else if (w->n_executed > s->budget) {
                w->fault = (sim_fault){.kind = SIM_FAULT_BUDGET, .lane = -1, .inst = w->pc->inst};
                group_fault(b, w, true);
                return FAULTED;
            } else if (w->state == SIM_WAVE_YIELD) {
                if (w->budget < 0) sliced = true;
                else waits = true;
            }
            if (atomic_load_explicit(&s->abort, memory_order_relaxed)) return FAULTED;
            if (k->base.give_way) {
                k->base.give_way = false;
                if (g->n_live) return GAVE_WAY;
            }
        }
        if (g->n_live == 0) return ENDED;
        if (sliced || round % LOOK == LOOK - 1) sign_of_life(s, b);
        if (!ran) {
            for (uint32_t i = 0; i < g->n_waves; i++)
                if (g->waves[i].state == SIM_WAVE_BARRIER) {
                    g->waves[i].fault = (sim_fault){.kind = SIM_FAULT_DEADLOCK, .lane = -1,
                                                   .inst = sim_wave_stands_at(&g->waves[i])};
                    group_fault(b, &g->waves[i], true);
                    return FAULTED;
                }
        }
        /* Waves of one group may be waiting for each other: give them a second turn before the group gives way. */
        if (waits && round > 0) return WAITS;
        if (sliced && !waits && ++b->slices > PATIENCE) return WAITS;
        if (sliced && round > 0) return SLICED;
    }
}

static void release(worker *k, sim_block *b) {
    sim_launch_state *s = b->group.launch;
    TELL(s, group_end, &b->group);
    if (++k->n_looks % LOOK == 0) sign_of_life(s, b);
    atomic_fetch_add_explicit(&s->n_executed, executed(&b->group) - b->n_told, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->n_ended, 1, memory_order_relaxed);
    atomic_fetch_sub(&s->resident, 1);
    if (k->spare && k->spare->capacity >= b->capacity) {
        och_free_aligned(b);
    } else {
        och_free_aligned(k->spare);
        k->spare = b;
    }
    settle(s, 1);
}

static void drop_lease(worker *k) {
    sim_launch_state *s = k->lease;
    k->lease = NULL;
    if (s) settle(s, (int64_t)(k->lease_end - k->lease_next));
}

/* Takes some groups of an active launch; under the pool's lock. */
static void take_lease(worker *k) {
    for (sim_launch_state *s = pool.active; s; s = s->next_active) {
        if (s->next >= s->n_groups || atomic_load(&s->abort)) continue;
        if (s->n_observers && k->base.index != 0) continue; /* watched launches stay on one thread */
        uint64_t share = (s->n_groups - s->next) / (4u * (unsigned)pool.n_workers);
        uint64_t n = share < 1 ? 1 : share > LEASE_MAX ? LEASE_MAX : share;
        k->lease = s;
        k->lease_next = s->next;
        k->lease_end = s->next += n;
        atomic_fetch_add(&s->outstanding, (int64_t)n);
        return;
    }
}

static sim_block *start_group(worker *k) {
    sim_launch_state *s = k->lease;
    if (!s) return NULL;
    if (atomic_load_explicit(&s->abort, memory_order_relaxed)) {
        drop_lease(k);
        return NULL;
    }
    if ((uint32_t)atomic_fetch_add(&s->resident, 1) >= s->resident_cap) {
        atomic_fetch_sub(&s->resident, 1);
        return NULL;
    }
    sim_block *b = k->spare;
    k->spare = NULL;
    if (b && b->capacity < s->block_bytes) {
        och_free_aligned(b);
        b = NULL;
    }
    if (!b) {
        b = och_malloc_aligned(s->block_bytes, 64);
        if (!b) {
            atomic_fetch_sub(&s->resident, 1);
            report(s, SIM_FAULT_NONE, "out of memory for a workgroup's registers, LDS and scratch");
            drop_lease(k);
            return NULL;
        }
        b->capacity = s->block_bytes;
    }
    sim_block_start(b, s, k->lease_next++);
    TELL(s, group_start, &b->group);
    if (k->lease_next == k->lease_end) k->lease = NULL;
    return b;
}

/* The found ranges are of one program and one generation of the space. */
static bool prepare_ranges(worker *k, const sim_launch_state *s) {
    const sim_program *p = s->l->kernel->program;
    uint64_t generation = sim_space_generation(s->l->space);
    if (k->base.ranges_of == p && k->base.space == s->l->space && k->generation == generation) return true;
    size_t n = sim_program_n_uops(p);
    if (n > k->ranges_capacity) {
        och_free(k->base.ranges);
        k->base.ranges = och_malloc_array(n, sizeof *k->base.ranges);
        k->ranges_capacity = k->base.ranges ? n : 0;
        if (!k->base.ranges) return false;
    }
    memset(k->base.ranges, 0, n * sizeof *k->base.ranges);
    k->base.n_ranges = (uint32_t)n;
    k->base.ranges_of = p;
    k->base.space = s->l->space;
    k->generation = generation;
    return true;
}

/* A turn of a group. True: the next one to run is a new one, if there is any. */
static bool run_block(worker *k, sim_block *b) {
    sim_launch_state *s = b->group.launch;
    if (atomic_load_explicit(&s->abort, memory_order_relaxed)) {
        release(k, b);
        return true;
    }
    if (!prepare_ranges(k, s)) {
        report(s, SIM_FAULT_NONE, "out of memory for the ranges of a kernel");
        release(k, b);
        return true;
    }
    const bool measured = b->group.flat_id == 0 && !b->set_aside;
    const double start = measured ? och_now_seconds() : 0;
    const outcome r = run_group(k, b);
    b->set_aside |= r != ENDED;
    switch (r) {
    case ENDED:
        if (measured) {
            const double ns = (och_now_seconds() - start) * 1e9;
            atomic_store_explicit(sim_program_group_ns(s->l->kernel->program), ns < 1 ? 1 : ns > 4e9 ? UINT32_MAX : (uint32_t)ns,
                                  memory_order_relaxed);
        }
        release(k, b);
        return !k->waiting.n;
    case FAULTED:
        release(k, b);
        return !k->waiting.n;
    case WAITS:
        if (++k->n_looks % LOOK == 0) sign_of_life(s, b);
        push(&k->waiting, b);
        return true;
    case GAVE_WAY:
        /* Others are to look at what it did: new ones at once, those that wait when it has given way a few times. */
        if (++b->gave_way % 4) push_front(&k->waiting, b);
        else push(&k->waiting, b);
        return true;
    case SLICED:
        /* It works: go on with it unless others wait for their turn. */
        push(&k->waiting, b);
        return false;
    }
    return true;
}

static void *worker_main(void *arg) {
    worker *k = arg;
    bool prefer_new = true;
    (void)sim_run_enter();
    for (;;) {
        sim_block *b = NULL;
        if (prefer_new || !k->waiting.n) {
            if (!k->lease) {
                pthread_mutex_lock(&pool.lock);
                take_lease(k);
                while (!k->lease && !k->waiting.n) {
                    pthread_cond_wait(&pool.work, &pool.lock);
                    take_lease(k);
                }
                pthread_mutex_unlock(&pool.lock);
            }
            b = start_group(k);
        }
        if (!b) b = pop(&k->waiting);
        if (!b) {
            /* The board is full of groups that other workers hold. */
            if (k->lease) sched_yield();
            continue;
        }
        prefer_new = run_block(k, b);
    }
    return NULL;
}

int sim_pool_size(void) {
    const char *t = och_env_get(OCH_ENV_OCHRE_SIM_THREADS);
    int n = t ? atoi(t) : 0;
    if (n <= 0) n = och_cpu_count();
    if (sim_deterministic()) n = 1;
    return n > MAX_WORKERS ? MAX_WORKERS : n;
}

bool sim_deterministic(void) { return och_env_flag(OCH_ENV_OCHRE_SIM_DETERMINISTIC); }

/* Under the pool's lock. Workers live as long as the process. */
static och_status start_workers(och_err *err) {
    if (pool.started) return OCH_OK;
    int n = sim_pool_size();
    for (int i = 0; i < n; i++) {
        worker *k = och_calloc(1, sizeof *k);
        if (!k) return i ? OCH_OK : och_err_nomem(err, sizeof *k, "a worker");
        k->base.index = i;
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        int e = pthread_create(&k->thread, &attr, worker_main, k);
        pthread_attr_destroy(&attr);
        if (e) {
            och_free(k);
            return i ? OCH_OK : och_err_set_native(err, OCH_UNAVAILABLE, e, "no thread for the simulator: %s", strerror(e));
        }
        pool.workers[pool.n_workers++] = k;
        pool.started = true;
    }
    return OCH_OK;
}

/* Under the pool's lock. */
static void list(sim_launch_state *s) {
    sim_launch_state **end = &pool.active, *prev = NULL;
    while (*end) {
        prev = *end;
        end = &prev->next_active;
    }
    s->prev_active = prev;
    s->listed = true;
    *end = s;
    pthread_cond_broadcast(&pool.work);
}

/* Is the launch so short that waking others is not worth it? Who watches, and who wants one order, has the first worker. */
static bool is_own(const sim_launch_state *s) {
    if (s->n_observers || sim_deterministic()) return false;
    if (s->n_groups == 1) return true;
    const uint32_t ns = atomic_load_explicit(sim_program_group_ns(s->l->kernel->program), memory_order_relaxed);
    return ns && s->n_groups <= OWN_NS / ns;
}

static worker *take_guest(void) {
    pthread_mutex_lock(&pool.lock);
    worker *k = pool.guests;
    if (k) pool.guests = k->next_guest;
    pthread_mutex_unlock(&pool.lock);
    if (!k && (k = och_calloc(1, sizeof *k))) k->base.index = MAX_WORKERS;
    return k;
}

/* Runs the launch on this thread. When it takes longer than was expected, the groups not started are left to the workers. */
static void run_own(worker *k, sim_launch_state *s) {
    const double start = och_now_seconds();
    const uint32_t old = sim_run_enter();
    bool prefer_new = true;
    k->lease = s;
    k->lease_next = 0;
    k->lease_end = s->next = s->n_groups;
    atomic_store(&s->outstanding, (int64_t)s->n_groups);
    for (;;) {
        sim_block *b = prefer_new || !k->waiting.n ? start_group(k) : NULL;
        if (!b) b = pop(&k->waiting);
        if (!b) break;
        prefer_new = run_block(k, b);
        if (k->lease && (och_now_seconds() - start) * 1e9 > 2 * OWN_NS) {
            pthread_mutex_lock(&pool.lock);
            s->next = k->lease_next;
            atomic_fetch_sub(&s->outstanding, (int64_t)(k->lease_end - k->lease_next));
            k->lease = NULL;
            list(s);
            pthread_mutex_unlock(&pool.lock);
        }
    }
    sim_run_leave(old);
    pthread_mutex_lock(&pool.lock);
    while (!s->complete) pthread_cond_wait(&pool.done, &pool.lock);
    k->next_guest = pool.guests;
    pool.guests = k;
    pthread_mutex_unlock(&pool.lock);
}

och_status sim_pool_run(sim_launch_state *s, och_err *err) {
    pthread_mutex_lock(&pool.lock);
    och_status st = start_workers(err);
    pthread_mutex_unlock(&pool.lock);
    OCH_TRY(st);
    s->started = och_now_seconds();
    atomic_store(&s->sign_us, (uint64_t)(sign_after * 1e6));
    worker *guest = is_own(s) ? take_guest() : NULL;
    if (guest) {
        run_own(guest, s);
        return OCH_OK;
    }
    pthread_mutex_lock(&pool.lock);
    list(s);
    while (!s->complete) pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    return OCH_OK;
}
