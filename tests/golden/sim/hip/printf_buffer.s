// A kernel that leaves two records in the buffer of printf's other protocol. printf_buffer.hsaco:
//   llvm-mc-22 -triple=amdgcn-amd-amdhsa -mcpu=gfx1100 -filetype=obj printf_buffer.s -o a.o; ld.lld-22 -shared a.o -o printf_buffer.hsaco
.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"
.amdhsa_code_object_version 5
.text
.globl say
.p2align 8
.type say,@function
say:
    s_load_b64 s[2:3], s[0:1], null
    v_mov_b32 v0, 0
    v_mov_b32 v1, 36        // bytes used
    v_mov_b32 v2, 7         // record: number, int, double, string of 8 bytes
    v_mov_b32 v3, 42
    v_mov_b32 v4, 0
    v_mov_b32 v5, 0x40040000 // 2.5
    v_mov_b32 v6, 0x6c6c6568 // "hell"
    v_mov_b32 v7, 0x6f       // "o"
    v_mov_b32 v8, 9         // record: number, int
    s_waitcnt lgkmcnt(0)
    global_store_b32 v0, v1, s[2:3]
    global_store_b32 v0, v2, s[2:3] offset:8
    global_store_b32 v0, v3, s[2:3] offset:12
    global_store_b64 v0, v[4:5], s[2:3] offset:16
    global_store_b64 v0, v[6:7], s[2:3] offset:24
    global_store_b32 v0, v8, s[2:3] offset:32
    global_store_b32 v0, v3, s[2:3] offset:36
    global_store_b32 v0, v3, s[2:3] offset:40
    s_endpgm
.rodata
.p2align 6
.amdhsa_kernel say
    .amdhsa_next_free_vgpr 9
    .amdhsa_next_free_sgpr 4
    .amdhsa_kernarg_size 8
    .amdhsa_user_sgpr_kernarg_segment_ptr 1
    .amdhsa_system_sgpr_workgroup_id_x 0
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx1100
amdhsa.printf:
  - '7:3:4:8:8:%d and %4.1f say \72%s\72\n'
  - '9:2:4:4:%#x %i\n'
amdhsa.kernels:
  - .name: say
    .symbol: say.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 4
    .vgpr_count: 9
    .max_flat_workgroup_size: 1024
    .args:
      - { .offset: 0, .size: 8, .value_kind: hidden_printf_buffer }
...
.end_amdgpu_metadata
