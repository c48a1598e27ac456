#!/usr/bin/env python3
"""How fast the simulator executes: million wave-instructions a second and core.

    python3 bench/sim.py [--bench build/release/sim/ochre_sim_bench] [-r 5] [--seconds 1] [--csv FILE]

Kernels (bench/sim/kernels.hip) are compiled by clang-22. Each row is the median of interleaved runs: host instruction sets
and thread counts take turns inside each round. s_nop, s_waitcnt, s_delay_alu and s_clause are not counted; bounds checks are
on, counters off.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = [  # target, bench, what the issue of speed is
    ("gfx1151", "matvec_cache", "f32 matrix-vector, wave32, in cache"),
    ("gfx1151", "matvec_64mib", "f32 matrix-vector, wave32, 64 MiB"),
    ("gfx942", "matvec64_cache", "f32 matrix-vector, wave64, in cache"),
    ("gfx942", "matvec64_64mib", "f32 matrix-vector, wave64, 64 MiB"),
    ("gfx1151", "dot8", "int8 dot products, wave32"),
    ("gfx942", "dot8_w64", "int8 dot products, wave64"),
    ("gfx1151", "lds_sum", "tree sums in LDS, wave32"),
    ("gfx942", "lds_sum", "tree sums in LDS, wave64"),
    ("gfx1151", "wmma", "WMMA 16x16x16 f16, wave32"),
    ("gfx942", "mfma", "MFMA 32x32x8 f16, wave64"),
]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bench", default=f"{ROOT}/build/release/sim/ochre_sim_bench")
    ap.add_argument("-r", "--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=1.0)
    ap.add_argument("--levels", default="avx512,avx2")
    ap.add_argument("--csv")
    args = ap.parse_args()
    if not shutil.which("clang-22"):
        sys.exit("bench/sim.py: clang-22 is not installed (apt-get install clang-22 lld-22)")
    with open("/proc/cpuinfo") as f:
        cpu = next((l.split(":")[1].strip() for l in f if l.startswith("model name")), "?")
    levels = args.levels.split(",")
    if "avx512" in levels and "avx512vbmi" not in open("/proc/cpuinfo").read():
        levels.remove("avx512")
    cores = len(os.sched_getaffinity(0))
    settings = [(l, 1) for l in levels] + ([(levels[0], 2)] if cores > 1 else [])
    results = {}
    with tempfile.TemporaryDirectory() as tmp:
        for target in sorted({c[0] for c in CASES}):
            subprocess.run(["clang-22", "-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", f"--offload-arch={target}",
                            "-O3", "-ffp-contract=fast", "-mcode-object-version=5", "--no-gpu-bundle-output",
                            f"{ROOT}/bench/sim/kernels.hip", "-o", f"{tmp}/{target}.hsaco"], check=True)
        for r in range(args.rounds):
            for target, bench, _ in CASES:
                for level, threads in settings:
                    env = dict(os.environ, OCHRE_SIM_ISA=level, OCHRE_SIM_THREADS=str(threads))
                    p = subprocess.run([args.bench, target, f"{tmp}/{target}.hsaco", str(args.seconds), bench], env=env,
                                       capture_output=True, text=True)
                    if p.returncode:
                        sys.exit(f"{bench} on {target}: {p.stderr.strip()}")
                    results.setdefault((target, bench, level, threads), []).append(json.loads(p.stdout)["million_per_second"])
            print(f"round {r + 1} of {args.rounds}", file=sys.stderr)
    head = ["target", "kernel"] + [f"{l}, {t} thread{'s' if t > 1 else ''}" for l, t in settings] + ["2 threads over 1"]
    rows = []
    for target, bench, about in CASES:
        m = [statistics.median(results[(target, bench, l, t)]) for l, t in settings]
        spread = [(max(results[(target, bench, l, t)]) - min(results[(target, bench, l, t)])) / (2 * x) if x else 0
                  for (l, t), x in zip(settings, m)]
        rows.append([target, about] + [f"{x:.0f} ±{100 * s:.0f}%" for x, s in zip(m, spread)] +
                    [f"{m[-1] / m[0]:.2f}" if settings[-1][1] > 1 else "-"])
    print(f"million wave-instructions a second; {cpu}, {cores} CPUs; median of {args.rounds}")
    widths = [max(len(str(r[i])) for r in [head] + rows) for i in range(len(head))]
    for r in [head] + rows:
        print("  ".join(str(x).ljust(w) for x, w in zip(r, widths)).rstrip())
    if args.csv:
        with open(args.csv, "w") as f:
            f.write("target,kernel,host,threads,million_per_second\n")
            for (t, b, l, n), v in results.items():
                for x in v:
                    f.write(f"{t},{b},{l},{n},{x}\n")


if __name__ == "__main__":
    main()
