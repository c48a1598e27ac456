#!/bin/sh
# Builds the crimes' code objects into tests/golden/sim/crimes: tests/isa/crimes/build.sh, from the repository's root.
set -e
from=tests/isa/crimes to=tests/golden/sim/crimes
for t in gfx1100 gfx942 gfx1201; do
    for f in memory progress limits uninit race race_swap; do
        clang-22 -x hip --offload-arch=$t --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -O3 -std=c++17 \
            -mcode-object-version=5 -Wno-pass-failed $from/$f.hip -o $to/$f-$t.hsaco
        llvm-strip-22 --strip-unneeded $to/$f-$t.hsaco
        chmod 644 $to/$f-$t.hsaco
    done
    clang-22 -x hip --offload-arch=$t --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -O0 -std=c++17 \
        -mcode-object-version=5 -Wno-pass-failed $from/race_o0.hip -o $to/race_o0-$t.hsaco
    llvm-strip-22 --strip-unneeded $to/race_o0-$t.hsaco
    chmod 644 $to/race_o0-$t.hsaco
    edit='s/WAVE/32/;/accum_offset/d'
    [ $t = gfx942 ] && edit=s/WAVE/64/
    sed "$edit" $from/registers.s |
        llvm-mc-22 -triple=amdgcn-amd-amdhsa -mcpu=$t -filetype=obj --amdhsa-code-object-version=5 -o $to/registers-$t.o -
    ld.lld-22 -shared $to/registers-$t.o -o $to/registers-$t.hsaco
    chmod 644 $to/registers-$t.hsaco
    rm $to/registers-$t.o
done
