/* For backends that capture graphs: the rules of dev.h, checked in one place.
 *
 * A queue has one of these. Every slot asks first: those that may be recorded och_capture_admit, all others
 * och_capture_refuse, those that cannot fail och_capture_abandon. What a refusal abandons is the capture of the calling
 * thread, whichever queue it is on. */
#ifndef OCH_DEV_CAPTURE_H
#define OCH_DEV_CAPTURE_H

#include "dev/dev.h"

typedef struct och_capture {
    och_queue *queue; /* that it is part of */
    /* Ends the runtime's recording and drops what was recorded; called by the thread that records. */
    void (*drop)(och_queue *q);
    bool open; /* atomic: other threads ask */
    char ended_by[48]; /* the call that abandoned the last one; "" */
} och_capture;

void och_capture_init(och_capture *c, och_queue *q, void (*drop)(och_queue *q));

/* Before the runtime is asked to record. INVALID where this queue or this thread records already (the capture that is open
 * is abandoned), and where `wrapped`, UNSUPPORTED. */
och_status och_capture_may_begin(och_capture *c, bool wrapped, och_err *err) OCH_WARN_UNUSED;
/* The runtime records from here on, for the calling thread. */
void och_capture_begun(och_capture *c);
/* First of capture_end: OK when the calling thread records on this queue; it does not from here on, and the caller ends the
 * runtime's recording. */
och_status och_capture_finish(och_capture *c, och_err *err) OCH_WARN_UNUSED;

/* A call on the queue that may be recorded. INVALID where another thread records it. */
och_status och_capture_admit(const och_capture *c, const char *op, och_err *err) OCH_WARN_UNUSED;
/* A call that cannot be part of a graph, on the queue of c (NULL: on none), with device d. OK while the calling thread
 * records nothing and, of the queue, no other does. */
och_status och_capture_refuse(const och_capture *c, const och_device *d, const char *op, och_err *err) OCH_WARN_UNUSED;
/* The calling thread's capture, if there is one, is over because of `op`. First of calls that cannot fail. */
void och_capture_abandon(const char *op);
/* For the end of a call that may be recorded: a failure on the queue that records ends the capture. Returns st. */
och_status och_capture_result(och_capture *c, const char *op, och_status st);

/* Whether the calling thread records, on this queue; on any. */
bool och_capture_records(const och_capture *c);
bool och_capture_here(void);

/* Fills graphs_default and graphs_reason of a device whose other facts are known. */
void och_capture_policy(och_dev_info *info);

#endif
