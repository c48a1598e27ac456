// The dynamic relocations that a linker makes, and every hidden argument, by hand.
    .amdgcn_target "amdgcn-amd-amdhsa--gfx1201"
    .amdhsa_code_object_version 5
    .text
    .globl all
    .protected all
    .p2align 8
    .type all,@function
all:
    s_endpgm
    .size all, .-all
    .hidden helper
    .globl helper
    .p2align 8
    .type helper,@function
helper:
    s_setpc_b64 s[30:31]
    .size helper, .-helper
    .p2align 8
    .type lonely,@function
lonely:                                 // nothing names it: only a pointer made in some unknown way leads here
    s_setpc_b64 s[30:31]
    .size lonely, .-lonely
    .globl plain
    .protected plain
    .p2align 8
    .type plain,@function
plain:
    s_endpgm
    .size plain, .-plain

    .data
    .globl places
    .protected places
    .p2align 3
    .type places,@object
places:
    .quad outside                   // ABS64
    .quad places + 8                // RELATIVE64
    .quad helper                    // RELATIVE64
    .size places, .-places
.ifndef UNDEFINED
    .globl outside                  // default visibility: a symbol that another object may take over
    .p2align 2
    .type outside,@object
outside:
    .long 42
    .size outside, 4
.endif

    .section .rodata,"a"
    .p2align 6
    .amdhsa_kernel all
        .amdhsa_next_free_vgpr 9
        .amdhsa_next_free_sgpr 12
        .amdhsa_group_segment_fixed_size 1024
        .amdhsa_private_segment_fixed_size 36
        .amdhsa_kernarg_size 280
        .amdhsa_user_sgpr_kernarg_segment_ptr 1
        .amdhsa_user_sgpr_dispatch_ptr 1
        .amdhsa_uses_dynamic_stack 1
        .amdhsa_wavefront_size32 0
    .end_amdhsa_kernel
    .amdhsa_kernel plain
        .amdhsa_next_free_vgpr 25
        .amdhsa_next_free_sgpr 4
    .end_amdhsa_kernel

    .amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx1201
amdhsa.printf:
  - '1:1:4:%d\n'
  - '2:2:8:8:%s %f\n'
amdhsa.kernels:
  - .name: all
    .symbol: all.kd
    .kernarg_segment_size: 280
    .kernarg_segment_align: 16
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 36
    .wavefront_size: 64
    .sgpr_count: 12
    .vgpr_count: 9
    .sgpr_spill_count: 3
    .vgpr_spill_count: 5
    .max_flat_workgroup_size: 512
    .reqd_workgroup_size: [8, 4, 2]
    .uses_dynamic_stack: true
    .uniform_work_group_size: 1
    .args:
      - { .name: in, .type_name: 'int*', .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }
      - { .name: lds, .offset: 8, .size: 4, .value_kind: dynamic_shared_pointer }
      - { .name: n, .offset: 12, .size: 4, .value_kind: by_value }
      - { .offset: 16, .size: 4, .value_kind: hidden_block_count_x }
      - { .offset: 20, .size: 4, .value_kind: hidden_block_count_y }
      - { .offset: 24, .size: 4, .value_kind: hidden_block_count_z }
      - { .offset: 28, .size: 2, .value_kind: hidden_group_size_x }
      - { .offset: 30, .size: 2, .value_kind: hidden_group_size_y }
      - { .offset: 32, .size: 2, .value_kind: hidden_group_size_z }
      - { .offset: 34, .size: 2, .value_kind: hidden_remainder_x }
      - { .offset: 36, .size: 2, .value_kind: hidden_remainder_y }
      - { .offset: 38, .size: 2, .value_kind: hidden_remainder_z }
      - { .offset: 40, .size: 8, .value_kind: hidden_global_offset_x }
      - { .offset: 48, .size: 8, .value_kind: hidden_global_offset_y }
      - { .offset: 56, .size: 8, .value_kind: hidden_global_offset_z }
      - { .offset: 64, .size: 2, .value_kind: hidden_grid_dims }
      - { .offset: 72, .size: 8, .value_kind: hidden_printf_buffer }
      - { .offset: 80, .size: 8, .value_kind: hidden_hostcall_buffer }
      - { .offset: 88, .size: 8, .value_kind: hidden_multigrid_sync_arg }
      - { .offset: 96, .size: 8, .value_kind: hidden_heap_v1 }
      - { .offset: 104, .size: 8, .value_kind: hidden_default_queue }
      - { .offset: 112, .size: 8, .value_kind: hidden_completion_action }
      - { .offset: 120, .size: 4, .value_kind: hidden_dynamic_lds_size }
      - { .offset: 208, .size: 4, .value_kind: hidden_private_base }
      - { .offset: 212, .size: 4, .value_kind: hidden_shared_base }
      - { .offset: 216, .size: 8, .value_kind: hidden_queue_ptr }
      - { .offset: 224, .size: 8, .value_kind: hidden_none }
  - .name: plain
    .symbol: plain.kd
    .kernarg_segment_size: 0
    .kernarg_segment_align: 4
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 32
    .sgpr_count: 4
    .vgpr_count: 25
    .max_flat_workgroup_size: 1024
    .end_amdgpu_metadata
