// The device's side: one kernel a program.
#define DEVICE 1
#include "prelude.h"

#include PROGRAMS
