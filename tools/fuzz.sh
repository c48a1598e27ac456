#!/bin/sh
# tools/fuzz.sh [--keep] SECONDS [TARGET...]: runs each libFuzzer target of build/fuzz for that long, from its committed
# seeds; builds the preset when it is not there. New inputs go to build/fuzz/corpus, a failing one and the log to
# build/fuzz/findings. --keep writes the log's summary to docs/evidence/fuzz-TARGET.log (a campaign is one hour: 3600).
set -eu
cd "$(dirname "$0")/.."
keep=
if [ "${1:-}" = --keep ]; then
    keep=1
    shift
fi
seconds=${1:?usage: tools/fuzz.sh [--keep] SECONDS [TARGET...]}
shift
[ -d build/fuzz/tests ] || tools/build.sh fuzz
findings=build/fuzz/findings
mkdir -p $findings
failed=0
if [ $# = 0 ]; then
    for f in build/fuzz/tests/fuzz_*; do
        [ -x "$f" ] && [ -f "$f" ] && set -- "$@" "$(basename "$f")"
    done
fi
for target in "$@"; do
    corpus=build/fuzz/corpus/$target
    mkdir -p "$corpus"
    seeds=tests/fuzz/seeds/${target#fuzz_}
    [ -d "$seeds" ] || seeds=
    log=$findings/$target.log
    dict=tests/fuzz/${target#fuzz_}.dict
    [ -f "$dict" ] && dict=-dict=$dict || dict=
    # shellcheck disable=SC2086
    if build/fuzz/tests/$target -max_total_time="$seconds" -artifact_prefix=$findings/$target- -rss_limit_mb=2048 \
        -timeout=120 -print_final_stats=1 $dict "$corpus" $seeds >"$log" 2>&1; then
        printf 'fuzz: %-24s %ss  %s executions, clean\n' "$target" "$seconds" \
            "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
        result=clean
    else
        tail -30 "$log"
        echo "fuzz: $target FAILED; log $log" >&2
        failed=1
        result=FAILED
    fi
    if [ "$keep" ]; then
        mkdir -p docs/evidence
        {
            echo "# $target: ${seconds} s, $result. libFuzzer with ASan and UBSan, from tests/fuzz; tools/fuzz.sh --keep $seconds"
            echo "# commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(clang --version | head -1)"
            grep -E '^INFO: (Loaded|seed corpus)|INITED|DONE|^Done|^stat::|ERROR|SUMMARY|runtime error' "$log" | sed 's/ \[0x.*//'
        } >"docs/evidence/fuzz-${target#fuzz_}.log"
    fi
done
exit $failed
