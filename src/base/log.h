/* Diagnostics. The library writes nothing on its own: messages go to a sink, by default stderr for WARN and above. */
#ifndef OCH_BASE_LOG_H
#define OCH_BASE_LOG_H

#include "base/status.h"

typedef enum och_log_level { OCH_LOG_DEBUG, OCH_LOG_INFO, OCH_LOG_WARN, OCH_LOG_ERROR, OCH_LOG_OFF } och_log_level;
typedef void (*och_log_sink)(void *ctx, och_log_level level, const char *message);

void och_log_set_sink(och_log_sink sink, void *ctx); /* NULL restores stderr */
void och_log_set_level(och_log_level least);
void och_log(och_log_level level, const char *fmt, ...) OCH_PRINTF(2, 3);

#endif
