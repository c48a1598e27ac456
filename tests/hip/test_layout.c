/* Our own declarations of HIP's structures have HIP's layouts. */
#include "hip/hip_types.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define HIP_LAYOUT_6
#define HIP_MEMORY_TYPE type
#define HIP_SIZE(type, size) _Static_assert(sizeof(type) == size, #type);
#define HIP_FIELD(type, field, offset) _Static_assert(offsetof(type, field) == offset, #type "." #field);
#include "layout.def"
_Static_assert(sizeof(hipMemsetParams_7) == 40 && offsetof(hipMemsetParams_7, height) == 32,
               "HIP 7: dst, pitch, value, elementSize, width, height");

static void layouts_are_hips(void **state) { (void)state; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layouts_are_hips)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
