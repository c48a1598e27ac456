#define LEVEL generic
#include "isa/memory_fast.h"
