#!/bin/sh
# Makes the files of this folder anew (README.md); needs clang-14, clang-22, clang-tools-22, lld-22, llvm-22 of
# Debian, and python3.
set -eu
cd "$(dirname "$0")"
hip="-x hip --cuda-device-only -nogpuinc -nogpulib --no-gpu-bundle-output -fuse-cuid=none -Xclang -fno-ident -O2"
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
# shellcheck disable=SC2086
{
    clang-22 $hip --offload-arch=gfx90a:sramecc+:xnack- -mcode-object-version=4 -DACCUMULATE kernels.hip -o v4-gfx90a.co
    clang-22 $hip --offload-arch=gfx1100 -mcode-object-version=5 -DPOINTERS kernels.hip -o v5-gfx1100.co
    clang-22 $hip --offload-arch=gfx1151 -mcode-object-version=6 -mwavefrontsize64 kernels.hip -o v6-gfx1151-wave64.co
    clang-22 $hip --offload-arch=gfx9-generic:xnack+ -mcode-object-version=6 kernels.hip -o v6-gfx9-generic.co
    clang-14 -x hip --cuda-device-only -nogpuinc -nogpulib --no-gpu-bundle-output -Xclang -fno-ident -O2 \
        --offload-arch=gfx1030 -mcode-object-version=4 -DPOINTERS kernels.hip -o v4-gfx1030-clang14.co
    clang-22 $hip --offload-arch=gfx906 -mcode-object-version=4 kernels.hip -o "$t/gfx906.co"
}
llvm-strip-22 v6-gfx1151-wave64.co v6-gfx9-generic.co "$t/gfx906.co"
llvm-mc-22 -triple=amdgcn-amd-amdhsa -mcpu=gfx1201 -filetype=obj relocs.s -o "$t/relocs.o"
ld.lld-22 -shared "$t/relocs.o" -o relocs.co
llvm-mc-22 -triple=amdgcn-amd-amdhsa -mcpu=gfx1201 -defsym UNDEFINED=1 -filetype=obj relocs.s -o "$t/undefined.o"
ld.lld-22 -shared -s "$t/undefined.o" -o undefined.co

: >"$t/host"
targets=host-x86_64-unknown-linux-gnu-,hipv4-amdgcn-amd-amdhsa--gfx906,hipv4-amdgcn-amd-amdhsa--gfx9-generic:xnack+
bundle() { # bundle OPTIONS OUTPUT
    # shellcheck disable=SC2086
    clang-offload-bundler-22 -type=o -targets=$targets -input="$t/host" -input="$t/gfx906.co" \
        -input=v6-gfx9-generic.co $1 -output="$2"
}
bundle "" bundle.hipfb
COMPRESSED_BUNDLE_FORMAT_VERSION=2 bundle -compress bundle-v2.ccob
COMPRESSED_BUNDLE_FORMAT_VERSION=3 bundle -compress bundle-v3.ccob
# No bundler of Debian writes version 1 any more: it is version 2 without the field of the whole size.
python3 -c 'b = open("bundle-v2.ccob", "rb").read()
open("bundle-v1.ccob", "wb").write(b[:4] + b"\1\0" + b[6:8] + b[12:])'
chmod 644 ./*.co ./*.hipfb ./*.ccob
