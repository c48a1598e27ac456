// Descriptors that a compiler would not write. build.sh puts the wave size in, and keeps accum_offset where targets have it.
    .text
    .globl too_many_registers
    .p2align 8
    .type too_many_registers,@function
too_many_registers:
    s_endpgm
    .globl register_not_allocated
    .p2align 8
    .type register_not_allocated,@function
register_not_allocated:
    v_mov_b32 v40, 0
    s_endpgm
    .rodata
    .p2align 6
    .amdhsa_kernel too_many_registers
        .amdhsa_next_free_vgpr 256
        .amdhsa_next_free_sgpr 16
        .amdhsa_accum_offset 256
    .end_amdhsa_kernel
    .amdhsa_kernel register_not_allocated
        .amdhsa_next_free_vgpr 8
        .amdhsa_next_free_sgpr 16
        .amdhsa_accum_offset 8
    .end_amdhsa_kernel
    .amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: too_many_registers
    .symbol: too_many_registers.kd
    .kernarg_segment_size: 0
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .kernarg_segment_align: 4
    .wavefront_size: WAVE
    .sgpr_count: 16
    .vgpr_count: 256
    .max_flat_workgroup_size: 1024
  - .name: register_not_allocated
    .symbol: register_not_allocated.kd
    .kernarg_segment_size: 0
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .kernarg_segment_align: 4
    .wavefront_size: WAVE
    .sgpr_count: 16
    .vgpr_count: 8
    .max_flat_workgroup_size: 1024
...
    .end_amdgpu_metadata
