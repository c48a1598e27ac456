#!/bin/sh
# Installs what building and testing Ochre needs and this machine lacks, from the distribution's packages, and says what
# and why. Where nothing is missing it says nothing.
#
#   tools/setup.sh           build, run and test
#   tools/setup.sh sim       and the compilers that the simulator is tested with
#   tools/setup.sh hip       and a compiler for HIP programs of one's own (docs/simulator.md)
#   tools/setup.sh fuzz      and clang with libFuzzer
#   tools/setup.sh bench     and the compiler that builds llama.cpp, the peer of make bench
set -eu

missing=""
# need WHY PACKAGE TEST...: the package is missing when the test fails.
need() {
    why=$1 package=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then
        printf 'setup: missing %-24s %s\n' "$package" "($why)"
        missing="$missing $package"
    fi
}
have() { command -v "$1"; }
header() { test -e "/usr/include/$1"; }
library() { ls /usr/lib/*/$1; } # unquoted: $1 may be a pattern

need "C compiler" gcc have gcc
need "C++ compiler: the C++ client test" g++ have g++
need "C library headers" libc6-dev header stdio.h
need "build configuration" cmake have cmake
need "build tool" ninja-build have ninja
need "make demo, make test" make have make
need "finding libochre from outside" pkg-config have pkg-config
need "nm, for the symbol tests" binutils have nm
need "JSON" libjansson-dev library libjansson.a
need "regular expressions of tokenizers" libpcre2-dev library libpcre2-8.a
need "Unicode properties" libutf8proc-dev library libutf8proc.a
need "keys and checksums" libxxhash-dev library libxxhash.a
need "code objects: ELF" libelf-dev library libelf.a
need "code objects: metadata" libmsgpack-dev library libmsgpackc.a
need "code objects: compressed bundles" libzstd-dev library libzstd.a
need "libelf" zlib1g-dev library libz.a
need "unit tests" libcmocka-dev library libcmocka.so
need "test scripts, fetching models" python3 have python3
if have python3 >/dev/null 2>&1; then
    need "fetching models" python3-pip python3 -m pip --version
    need "fetching models, the peer of make bench" python3-venv python3 -c "import venv, ensurepip"
fi
if ! have python3 >/dev/null 2>&1; then
    missing="$missing python3-pip python3-venv"
fi
need "ochre pull" libcurl4 library "libcurl*.so.4"
need "HTTPS certificates" ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
case " $* " in *" fuzz "*)
    need "fuzzing" clang have clang
    need "libFuzzer and sanitizers of clang" libclang-rt-14-dev library "lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a"
    ;;
esac
case " $* " in *" sim "*)
    need "kernels that tests compile for the simulator" clang-22 have clang-22
    need "linking code objects" lld-22 have ld.lld-22
    need "bundles of code objects, which a test makes" clang-tools-22 have clang-offload-bundler-22
    need "LLVM's reading of instructions, to compare with" llvm-22 have llvm-objdump-22
    need "HIP's headers and library, to compare with" libamdhip64-dev header hip/hip_runtime_api.h
    ;;
esac
case " $* " in *" hip "*)
    need "compiling HIP programs (Debian's headers of HIP 5.2 are too old for later ones)" clang-19 have clang++-19
    need "linking code objects" lld-19 have ld.lld-19
    need "device libraries for more targets" llvm-19 have llvm-dis-19
    need "HIP's headers" libamdhip64-dev header hip/hip_runtime_api.h
    need "device libraries" rocm-device-libs library amdgcn/bitcode/ocml.bc
    ;;
esac
case " $* " in *" bench "*)
    need "building llama.cpp: GCC 12 breaks its AMX path" clang-22 have clang-22
    ;;
esac

test -n "$missing" || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: this machine has no apt-get; install the equivalents of:$missing" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "setup: installing needs root; run:  sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi
echo "setup: installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
if ! { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    echo "setup: the installation failed; its last lines are above" >&2
    exit 1
fi
echo "setup: done"
