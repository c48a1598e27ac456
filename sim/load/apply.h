/* Applying one dynamic relocation to an image in memory. */
#ifndef SIM_LOAD_APPLY_H
#define SIM_LOAD_APPLY_H

#include "obj/obj.h"

/* host: the image's n_bytes, which begin at `lo` in the object's addresses and at `base` on the device. symbol: the final
 * address (0 for none). UNSUPPORTED: a type that only a linker applies. CORRUPT: the place is not in the image, or a value
 * does not fit in it. */
och_status sim_reloc_apply(const och_obj_reloc *r, uint8_t *host, uint64_t n_bytes, uint64_t lo, uint64_t base, uint64_t symbol,
                           och_err *err) OCH_WARN_UNUSED;
/* Whether its value is measured from the place that it is applied to. */
bool sim_reloc_is_distance(const och_obj_reloc *r);

#endif
