#!/bin/sh
# llama.cpp with CUDA beside Ochre: packs the source where packages can be fetched, builds and runs it where the GPU is.
#
#   bench/llama_cuda.sh pack               # build/llama-src/llama.tar.gz, a few MB; needs pip
#   bench/llama_cuda.sh build [FOLDER]     # unpacks and builds llama-bench and llama-batched-bench (default: /tmp/llama)
#   bench/llama_cuda.sh run FILE.gguf [FOLDER]
#   bench/llama_cuda.sh toolkit FOLDER     # a CUDA compiler out of Python packages, to build where there is none and no GPU
#
# JOBS: jobs of the build (default: all processors). ARCH: CMake's CUDA architecture (default: 90a-real; "none": a build
# for the CPU, which shows that the packed tree is whole). The source is that of the package llama-cpp-python.
set -eu
version=0.3.36
root=$(cd "$(dirname "$0")/.." && pwd)
tar="$root/build/llama-src/llama.tar.gz"

pack() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    python3 -m pip download -q --no-deps --no-binary llama-cpp-python -d "$work" "llama-cpp-python==$version"
    tar xzf "$work"/llama_cpp_python-*.tar.gz -C "$work" --wildcards '*/vendor/llama.cpp/*'
    cd "$work"/llama_cpp_python-*/vendor/llama.cpp
    rm -rf .git .github .devops app benches ci conversion docs examples gguf-py grammars media models pocs requirements scripts \
        skills tests
    for d in ggml/src/ggml-*/; do
        case $d in */ggml-cpu/ | */ggml-cuda/) ;; *) rm -rf "$d" ;; esac
    done
    find tools -mindepth 1 -maxdepth 1 ! -name llama-bench ! -name batched-bench ! -name CMakeLists.txt -exec rm -rf {} +
    # Of the tools, the two that are run.
    printf '%s\n' 'llama_add_compile_flags()' 'add_subdirectory(llama-bench)' 'add_subdirectory(batched-bench)' >tools/CMakeLists.txt
    mkdir -p "$root/build/llama-src"
    tar czf "$tar" -C .. llama.cpp
    ls -l "$tar"
}

build() {
    folder=${1:-/tmp/llama}
    arch=${ARCH:-90a-real}
    mkdir -p "$folder"
    tar xzf "$tar" -C "$folder"
    cuda=ON
    if [ "$arch" = none ]; then cuda=OFF; fi
    if [ $cuda = ON ] && [ -z "${CUDACXX:-}" ] && ! command -v nvcc >/dev/null; then export CUDACXX=/usr/local/cuda/bin/nvcc; fi
    cmake -G Ninja -S "$folder/llama.cpp" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_CUDA=$cuda \
        -DCMAKE_CUDA_ARCHITECTURES="$arch" -DGGML_NATIVE=OFF -DGGML_CUDA_FA_ALL_QUANTS=OFF -DGGML_CUDA_NCCL=OFF -DLLAMA_OPENSSL=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_TOOLS_INSTALL=OFF
    cmake --build "$folder/build" -j "${JOBS:-$(nproc)}" --target llama-bench llama-batched-bench
}

toolkit() {
    mkdir -p "$1"
    python3 -m pip install -q --no-cache-dir --no-deps --target "$1" 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' \
        'nvidia-nvvm==13.0.*' 'nvidia-cuda-cccl==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cublas>=13,<13.2'
    cd "$1/nvidia/cu13"
    ln -sfn lib lib64
    for l in cudart cublas cublasLt; do ln -sf lib$l.so.13 lib/lib$l.so; done
    # The driver's library is not needed to build, only its name.
    mkdir -p lib/stubs
    names='cuDeviceGet cuDeviceGetAttribute cuGetErrorString cuMemAddressFree cuMemAddressReserve cuMemCreate cuMemGetAllocationGranularity
        cuMemMap cuMemRelease cuMemSetAccess cuMemUnmap cuDeviceGetPCIBusId cuCtxGetDevice'
    for f in $names; do echo "void $f(void) {}"; done | ${CC:-cc} -shared -fPIC -x c - -Wl,-soname,libcuda.so.1 -o lib/stubs/libcuda.so
    echo "CUDACXX=$PWD/bin/nvcc $0 build"
}

run() {
    bin=${2:-/tmp/llama}/build/bin
    # Prefill and decode at batch 1, then decode of many sequences at once; flash attention on, all layers on the GPU.
    "$bin/llama-bench" -m "$1" -ngl 99 -fa 1 -p 512,2048,8192 -n 64 -ub 2048 -b 8192 -r 3 -o md
    "$bin/llama-bench" -m "$1" -ngl 99 -fa 1 -p 0 -n 64 -d 512,32768 -ub 2048 -b 8192 -r 3 -o md
    "$bin/llama-batched-bench" -m "$1" -ngl 99 -fa on -c 40960 -b 8192 -ub 2048 -npp 512 -ntg 64 -npl 1,8,32,64
}

case ${1:-} in
pack) pack ;;
build) build "${2:-}" ;;
toolkit) toolkit "${2:?bench/llama_cuda.sh toolkit: into which folder?}" ;;
run) run "${2:?bench/llama_cuda.sh run: which file?}" "${3:-}" ;;
*) sed -n '2,12p' "$0" && exit 2 ;;
esac
