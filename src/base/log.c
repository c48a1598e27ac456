#include "base/log.h"

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static och_log_sink sink_fn;
static void *sink_ctx;
static och_log_level threshold = OCH_LOG_WARN;

void och_log_set_sink(och_log_sink sink, void *ctx) {
    pthread_mutex_lock(&lock);
    sink_fn = sink;
    sink_ctx = ctx;
    pthread_mutex_unlock(&lock);
}

void och_log_set_level(och_log_level least) {
    pthread_mutex_lock(&lock);
    threshold = least;
    pthread_mutex_unlock(&lock);
}

void och_log(och_log_level level, const char *fmt, ...) {
    static const char *const names[] = {"debug", "info", "warning", "error", "off"};
    char message[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&lock);
    if (level >= threshold) {
        if (sink_fn) sink_fn(sink_ctx, level, message);
        else fprintf(stderr, "ochre: %s: %s\n", names[level], message);
    }
    pthread_mutex_unlock(&lock);
}
