// Launches that are refused: the crime is in how the host launches them.
#include "crime.h"

KERNEL BLOCK(64) too_many_threads(u32 *out) { out[thread()] = 1; }
extern SHARED u32 dynamic[];
KERNEL BLOCK(64) too_much_lds(u32 *out) {
    dynamic[thread()] = thread();
    barrier();
    out[thread()] = dynamic[63 - thread()];
}
