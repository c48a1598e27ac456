/* Round trip of an empty och_pool_run, and of a barrier inside a run. Usage: pool_latency [THREADS [ROUNDS]]. */
#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void nothing(void *arg, const och_pool_member *me) { (void)arg, (void)me; }

static void barriers(void *arg, const och_pool_member *me) {
    for (int i = 0; i < *(const int *)arg; i++) och_pool_barrier(me);
}

int main(int argc, char **argv) {
    enum { N_SAMPLES = 200 };
    static double samples[N_SAMPLES];
    int n_threads = argc > 1 ? atoi(argv[1]) : 0, n_rounds = argc > 2 ? atoi(argv[2]) : 1000;
    och_pool *p;
    och_err err;
    och_err_clear(&err);
    if (och_pool_create(n_threads, &p, &err) != OCH_OK) {
        fprintf(stderr, "pool_latency: %s\n", err.message);
        return 1;
    }
    for (int k = 0; k < N_SAMPLES; k++) {
        double t = och_now_seconds();
        for (int i = 0; i < n_rounds; i++) och_pool_run(p, nothing, NULL);
        samples[k] = 1e9 * (och_now_seconds() - t) / n_rounds;
    }
    qsort(samples, N_SAMPLES, sizeof samples[0], by_value);
    printf("%d threads: run %.0f ns (median of %d means of %d; least %.0f, 90th of 100 %.0f)\n", och_pool_size(p),
           samples[N_SAMPLES / 2], N_SAMPLES, n_rounds, samples[0], samples[N_SAMPLES * 9 / 10]);
    for (int k = 0; k < N_SAMPLES; k++) {
        double t = och_now_seconds();
        och_pool_run(p, barriers, &n_rounds);
        samples[k] = 1e9 * (och_now_seconds() - t) / n_rounds;
    }
    qsort(samples, N_SAMPLES, sizeof samples[0], by_value);
    printf("%d threads: barrier %.0f ns (least %.0f, 90th of 100 %.0f)\n", och_pool_size(p), samples[N_SAMPLES / 2],
           samples[0], samples[N_SAMPLES * 9 / 10]);
    och_pool_destroy(p);
    return 0;
}
