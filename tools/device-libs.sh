#!/bin/sh
# Makes a folder of device libraries for targets that the installed ones do not know: all of theirs, and for each target
# the module that holds its number.
#
#   tools/device-libs.sh FOLDER TARGET...      tools/device-libs.sh build/bitcode gfx1151 gfx1201
#   clang++-19 --rocm-device-lib-path=FOLDER --offload-arch=gfx1151 ...
#
# BITCODE: the installed folder (default: found). LLVM: the suffix of llvm-dis and llvm-as, as in LLVM=-19
# (default: the oldest ones that read it, since a compiler reads what older ones wrote).
set -eu

if [ $# -lt 2 ]; then
    echo "usage: tools/device-libs.sh FOLDER TARGET..." >&2
    exit 2
fi
folder=$1
shift
from=${BITCODE:-}
for d in /usr/lib/*/amdgcn/bitcode; do
    if [ -z "$from" ] && [ -e "$d/ocml.bc" ]; then from=$d; fi
done
model=$from/oclc_isa_version_1030.bc
if [ ! -e "$model" ]; then
    echo "device-libs: no device libraries in ${from:-/usr/lib/*/amdgcn/bitcode}; install rocm-device-libs" >&2
    exit 1
fi
text=$(mktemp)
trap 'rm -f "$text"' EXIT
llvm=none
versions="-15 -16 -17 -18 -19 -20 -21 -22"
for v in ${LLVM-$versions}; do
    if "llvm-dis$v" -o "$text" "$model" 2>/dev/null && command -v "llvm-as$v" >/dev/null; then
        llvm=$v
        break
    fi
done
if [ "$llvm" = none ] || ! grep -q '@__oclc_ISA_version.* 10300,' "$text"; then
    echo "device-libs: no llvm-dis that reads $model as what it should be; install llvm-19, or say LLVM=-NN" >&2
    exit 1
fi
mkdir -p "$folder"
for f in "$from"/*.bc; do
    ln -sf "$f" "$folder/"
done
for target in "$@"; do
    # gfx, major (decimal), minor (a digit), stepping (a hexadecimal digit): 1000 * major + 100 * minor + stepping
    digits=${target#gfx}
    case $target in
    gfx[0-9][0-9][0-9a-f] | gfx1[0-9][0-9][0-9a-f]) ;;
    *)
        echo "device-libs: $target is not a target such as gfx1151" >&2
        exit 2
        ;;
    esac
    major=${digits%??}
    rest=${digits#"$major"}
    number=$((major * 1000 + ${rest%?} * 100 + 0x${rest#?}))
    rm -f "$folder/oclc_isa_version_$digits.bc"
    sed "s/\(@__oclc_ISA_version.* \)10300,/\1$number,/" "$text" | "llvm-as$llvm" -o "$folder/oclc_isa_version_$digits.bc"
done
echo "$folder"
