// What the kernels share: no header of any toolkit is included.
#define GLOBAL extern "C" __attribute__((global))
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))
#define TID ((int)__builtin_amdgcn_workitem_id_x())
#define GID ((int)(__builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x()) + TID)
typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned short u16;
typedef unsigned char u8;
typedef signed char i8;
typedef _Float16 f16;
template <typename T, int N> using vec = T __attribute__((ext_vector_type(N)));
