/* Quirks (quirks.def) as parsed from OCHRE_SIM_QUIRKS. */
#ifndef SIM_BOARD_QUIRK_H
#define SIM_BOARD_QUIRK_H

#include "base/status.h"

#include <stdbool.h>

typedef enum sim_quirk_id {
#define SIM_QUIRK(name, doc, value) SIM_QUIRK_##name,
#include "board/quirks.def"
#undef SIM_QUIRK
    SIM_QUIRK_COUNT_
} sim_quirk_id;

typedef struct sim_quirk {
    bool on;
    bool has_extra;
    uint64_t value; /* before the colon; bytes may end in K, M or G (of 1024) */
    uint64_t extra; /* after it */
} sim_quirk;

typedef struct sim_quirks {
    sim_quirk q[SIM_QUIRK_COUNT_];
} sim_quirks;

/* text NULL or empty: none. INVALID: an unknown name (the message lists the known), a value that is missing, not asked for
 * or no number. */
och_status sim_quirks_parse(const char *text, sim_quirks *out_quirks, och_err *err) OCH_WARN_UNUSED;

const char *sim_quirk_name(sim_quirk_id id);
const char *sim_quirk_doc(sim_quirk_id id);
const char *sim_quirk_value(sim_quirk_id id); /* what a value means; "" takes none */

#endif
