/* A kernel's name as a person wrote it. */
#ifndef SIM_EXEC_TITLE_H
#define SIM_EXEC_TITLE_H

#include <stddef.h>

/* The symbol in C++'s spelling where the process has a C++ library that can tell (the simulator itself is C and brings none),
 * else as it is. Returns buf; what does not fit is cut off. */
const char *sim_kernel_title(const char *symbol, char *buf, size_t n);

#endif
