/* An event: the point in a stream at which it was recorded last. */
#ifndef SIM_HIP_EVENT_H
#define SIM_HIP_EVENT_H

struct hipGraphNode;
struct ihipEvent_t {
    int refs;                    /* the caller's handle, and ops that name it */
    unsigned flags;
    sim_device *dev;
    sim_signal *signal;          /* NULL: never recorded */
    bool at_begin;               /* hipExtLaunch's start event: when the kernel began */
    /* recorded in a stream that is being captured */
    uint64_t capture_id;         /* 0: not */
    struct hipGraphNode **tips;
    size_t n_tips;
};
void sim_event_set(sim_event *e, sim_stream *s, sim_signal *signal, bool at_begin); /* lock held */
void sim_event_ref(sim_event *e);
void sim_event_unref(sim_event *e); /* lock held; NULL is allowed */

#endif
