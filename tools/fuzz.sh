#!/bin/sh
# tools/fuzz.sh SECONDS [TARGET...]: runs each libFuzzer target of build/fuzz for that long, from its committed seeds. New
# inputs go to build/fuzz/corpus, a failing one and the log to build/fuzz/findings.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
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
    # shellcheck disable=SC2086
    if build/fuzz/tests/$target -max_total_time="$seconds" -artifact_prefix=$findings/$target- -rss_limit_mb=2048 \
        -timeout=20 -print_final_stats=1 "$corpus" $seeds >"$log" 2>&1; then
        printf 'fuzz: %-24s %ss  %s executions, clean\n' "$target" "$seconds" \
            "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
    else
        tail -30 "$log"
        echo "fuzz: $target FAILED; log $log" >&2
        failed=1
    fi
done
exit $failed
