/* A timeline of what devices and the host do, in the Chrome trace format, and the names of kernels that a thread launches.
 *
 * While a trace is on, every device that is opened gets a table of functions that notes each launch, copy and wait before it
 * calls the backend's own. Launches are waited for, so that a kernel's bar is as long as the kernel; what would have run side by
 * side runs one after the other. Off, it costs a load and a branch. */
#ifndef OCH_DEV_TRACE_H
#define OCH_DEV_TRACE_H

#include "dev/dev.h"

/* One at a time. Devices that are open already are not traced. IO names the file. */
och_status och_trace_start(const char *path, och_err *err) OCH_WARN_UNUSED;
/* Writes the end of the file; OK when no trace is on. IO when something could not be written. */
och_status och_trace_stop(och_err *err) OCH_WARN_UNUSED;
bool och_trace_on(void);
/* Called for every device that was opened and checked. */
void och_trace_attach(och_device *d);

/* Work of the host: begin gives a time, end writes a bar from it on the calling thread's row. Both do nothing without a trace. */
double och_trace_begin(void);
void och_trace_end(double begin, const char *kind, const char *fmt, ...) OCH_PRINTF(3, 4);

/* From here on, the names of kernels that this thread launches are appended to `out` (n_bytes in all), separated by commas, each
 * once. NULL ends it. */
void och_trace_names(char *out, size_t n_bytes);
/* Who launches a kernel says so. */
void och_trace_launched(const char *kernel);

#endif
