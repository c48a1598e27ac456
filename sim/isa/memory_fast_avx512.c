#define LEVEL avx512
#include "isa/memory_fast.h"
