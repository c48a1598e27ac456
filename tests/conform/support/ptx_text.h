/* The kernels of tests as PTX, for devices that take it: what a driver compiles needs no compiler of ours. */
#ifndef TESTS_CONFORM_PTX_TEXT_H
#define TESTS_CONFORM_PTX_TEXT_H

static const char ptx_text[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".extern .shared .align 4 .b8 lds[];\n"
    /* put(p, n, add): p[i] = i * 3 + add */
    ".visible .entry put(.param .u64 put_p, .param .u32 put_n, .param .u32 put_add) {\n"
    "  .reg .pred %q;\n  .reg .b32 %r<8>;\n  .reg .b64 %d<4>;\n"
    "  ld.param.u64 %d0, [put_p];\n  ld.param.u32 %r0, [put_n];\n  ld.param.u32 %r1, [put_add];\n"
    "  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %tid.x;\n  mad.lo.u32 %r4, %r2, 64, %r3;\n"
    "  setp.ge.u32 %q, %r4, %r0;\n  @%q bra done;\n"
    "  mad.lo.u32 %r5, %r4, 3, %r1;\n  mul.wide.u32 %d1, %r4, 4;\n  add.u64 %d2, %d0, %d1;\n  st.global.u32 [%d2], %r5;\n"
    "done:\n  ret;\n}\n"
    /* twice(p, n): p[i] *= 2 */
    ".visible .entry twice(.param .u64 twice_p, .param .u32 twice_n) {\n"
    "  .reg .pred %q;\n  .reg .b32 %r<8>;\n  .reg .b64 %d<4>;\n"
    "  ld.param.u64 %d0, [twice_p];\n  ld.param.u32 %r0, [twice_n];\n"
    "  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %tid.x;\n  mad.lo.u32 %r4, %r2, 64, %r3;\n"
    "  setp.ge.u32 %q, %r4, %r0;\n  @%q bra done;\n"
    "  mul.wide.u32 %d1, %r4, 4;\n  add.u64 %d2, %d0, %d1;\n  ld.global.u32 %r5, [%d2];\n  add.u32 %r5, %r5, %r5;\n"
    "  st.global.u32 [%d2], %r5;\n"
    "done:\n  ret;\n}\n"
    /* count(p): p[x + 2 * y] = the sum of 64 ones in shared memory, by item 0 */
    ".visible .entry count(.param .u64 count_p) {\n"
    "  .reg .pred %q;\n  .reg .b32 %r<8>;\n  .reg .b64 %d<4>;\n"
    "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, lds;\n  shl.b32 %r2, %r0, 2;\n  add.u32 %r2, %r1, %r2;\n  mov.u32 %r3, 1;\n"
    "  st.shared.u32 [%r2], %r3;\n  bar.sync 0;\n"
    "  setp.ne.u32 %q, %r0, 0;\n  @%q bra done;\n"
    "  mov.u32 %r4, 0;\n  add.u32 %r5, %r1, 256;\n"
    "more:\n  ld.shared.u32 %r6, [%r1];\n  add.u32 %r4, %r4, %r6;\n  add.u32 %r1, %r1, 4;\n"
    "  setp.lt.u32 %q, %r1, %r5;\n  @%q bra more;\n"
    "  ld.param.u64 %d0, [count_p];\n  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %ctaid.y;\n  mad.lo.u32 %r2, %r3, 2, %r2;\n"
    "  mul.wide.u32 %d1, %r2, 4;\n  add.u64 %d2, %d0, %d1;\n  st.global.u32 [%d2], %r4;\n"
    "done:\n  ret;\n}\n"
    ".visible .entry nothing() {\n  ret;\n}\n";

#endif
