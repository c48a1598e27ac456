#!/bin/sh
# tools/build.sh PRESET [JOBS]: configures when needed and builds; quiet unless something is wrong.
set -eu
cd "$(dirname "$0")/.."
preset=$1 jobs=${2:-$(nproc)}
mkdir -p build
log=build/$preset.log
if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    echo "build: configuring $preset failed" >&2
    exit 1
fi
if [ -t 1 ]; then
    # ninja keeps one line up to date on a terminal.
    cmake --build "build/$preset" -j "$jobs"
elif ! cmake --build "build/$preset" -j "$jobs" >"$log" 2>&1; then
    grep -v '^\[[0-9]*/[0-9]*\] \(Building\|Linking\)' "$log" >&2
    echo "build: building $preset failed" >&2
    exit 1
fi
echo "build: build/$preset is up to date"
