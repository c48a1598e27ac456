/* The sorted list of ranges behind a space: immutable once made. Every change gives a new list that shares all chunks but
 * one (or two) with the old; the old one remembers which chunks it alone holds. */
#ifndef SIM_MEM_SPACE_LIST_H
#define SIM_MEM_SPACE_LIST_H

#include "mem/space.h"

typedef struct sim_chunk sim_chunk;

typedef struct sim_list {
    struct sim_list *next_retired;
    sim_chunk *replaced;    /* the chunk that the successor does not share; NULL: none */
    size_t n_chunks;
    sim_chunk *chunks[];    /* none is empty */
} sim_list;

/* NULL: out of memory, the old list is as it was. Ranges do not overlap: the caller's duty. */
sim_list *sim_list_empty(void);
sim_list *sim_list_insert(sim_list *l, const sim_range *r);
sim_list *sim_list_remove(sim_list *l, uint64_t lo);              /* a range begins at lo */
sim_list *sim_list_replace(sim_list *l, const sim_range *r);      /* the one that begins at r->lo */

/* As sim_space_find. */
bool sim_list_find(const sim_list *l, uint64_t addr, sim_range *out);
/* The first range that begins at `from` or above. */
bool sim_list_from(const sim_list *l, uint64_t from, sim_range *out);
/* A range that meets [lo, hi). */
bool sim_list_overlap(const sim_list *l, uint64_t lo, uint64_t hi, sim_range *out);

void sim_list_free_replaced(sim_list *l); /* a list with a successor: it and the chunk it does not share */
void sim_list_destroy(sim_list *l);       /* the last list, with all chunks */

#endif
