#define LEVEL avx2
#include "isa/memory_fast.h"
