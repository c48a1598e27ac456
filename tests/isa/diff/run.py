#!/usr/bin/env python3
"""Random programs on the host and on the simulator.

    run.py SIM_DIFF [--targets gfx1100,gfx942,...] [--programs N] [--seed S] [--levels 0,3] [--keep DIR] [--log FILE]

Units of 50 programs (generate.py) are compiled for the host (clang-22, -O1) and for each target and wave size at each
optimisation level; SIM_DIFF (ochre_sim_diff) runs the device's code objects and compares every word. Contraction is off on
both sides. Exit status: 0 all agree, 1 some differ, 77 no clang-22.

A program that differs at one level on every target and wave size, and agrees on all of them at the other level, is set aside:
what all instruction sets share, and only one level shows, is the compiler's middle end as a rule. Such programs are printed
and counted, and are to be looked at by hand; they do not fail the run.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
UNIT = 50
ALL = {f"k{i}" for i in range(UNIT)}
# target -> wave sizes
TARGETS = {"gfx90a": [64], "gfx942": [64], "gfx950": [64], "gfx1100": [32, 64], "gfx1151": [32, 64], "gfx1201": [32, 64],
           "gfx906": [64], "gfx908": [64], "gfx1030": [32, 64]}
CAMPAIGN = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"]
COMMON = ["-w", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing"]


def fresh_seed():
    """A commit's own seed: fresh programs for every change, the same ones for whoever looks at that change."""
    head = subprocess.run(["git", "-C", HERE, "rev-parse", "HEAD"], capture_output=True, text=True) if shutil.which("git") else None
    return int(head.stdout[:8], 16) if head and head.returncode == 0 else int(time.time())


def run(cmd, timeout=600):
    return subprocess.run(cmd, capture_output=True, text=True, timeout=timeout)


def bpermute_lanes(target, wave):
    return 32 if wave == 64 and target.startswith(("gfx10", "gfx11")) else wave


def compile_host(programs, wave, lanes, out):
    r = run(["clang-22", "-O1", *COMMON, "-Xclang", "-ffloat16-excess-precision=none", "-Xclang",
             "-fbfloat16-excess-precision=none", f"-DW={wave}", f"-DBW={lanes}", f'-DPROGRAMS="{programs}"', f"{HERE}/host.c", "-o", out, "-lm"])
    if r.returncode:
        raise SystemExit(f"the host's compiler refused a unit:\n{r.stderr[:2000]}")


def compile_device(programs, target, wave, level, out):
    flags = ["-mwavefrontsize64"] if wave == 64 and target.startswith("gfx1") else []
    return run(["clang-22", "-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", f"--offload-arch={target}",
                f"-O{level}", *COMMON, *flags, "-mcode-object-version=5", "--no-gpu-bundle-output", f"-DW={wave}", f"-DBW={bpermute_lanes(target, wave)}",
                f'-DPROGRAMS="{programs}"', f"{HERE}/device.hip", "-o", out])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("sim_diff")
    ap.add_argument("--targets", default=",".join(CAMPAIGN))
    ap.add_argument("--programs", type=int, default=50, help="of each target, wave size and level")
    ap.add_argument("--seed", type=int, default=fresh_seed(), help="of the first unit (default: another one for each commit)")
    ap.add_argument("--levels", default="0,3")
    ap.add_argument("--keep", help="folder for the sources and code objects of units that differ")
    ap.add_argument("--log", help="file to which a line a unit is appended")
    ap.add_argument("--jobs", type=int, default=os.cpu_count())
    args = ap.parse_args()
    if not shutil.which("clang-22"):
        print("clang-22 is not installed")
        return 77
    print(f"first seed {args.seed}", flush=True)
    jobs = [(t, w, int(l)) for t in args.targets.split(",") for w in TARGETS[t] for l in args.levels.split(",")]
    totals = {j: [0, 0, 0] for j in jobs}  # programs, differing, set aside

    with tempfile.TemporaryDirectory() as tmp, ThreadPoolExecutor(args.jobs) as pool:
        def unit(seed, job, programs, host_out):
            target, wave, level = job
            code = f"{tmp}/{seed}_{target}_{wave}_{level}.hsaco"
            r = compile_device(programs, target, wave, level, code)
            if r.returncode:
                return UNIT, ALL, f"the compiler failed: {r.stderr.strip().splitlines()[-1:]}"
            try:
                r = run([args.sim_diff, target, code, host_out], 900)
            except subprocess.TimeoutExpired:
                return UNIT, ALL, "timed out"
            bad = {line.split(":")[0] for line in r.stdout.splitlines() if line.startswith("k")}
            if r.returncode not in (0, 1):
                return UNIT, ALL, f"exit status {r.returncode}: {r.stderr.strip()[:300]}"
            if bad and args.keep:
                os.makedirs(args.keep, exist_ok=True)
                shutil.copy(code, args.keep)
                shutil.copy(programs, args.keep)
            os.unlink(code)
            return UNIT, bad, r.stdout if bad else ""

        for first in range(0, args.programs, UNIT):
            seed = args.seed + first // UNIT
            programs = f"{tmp}/p{seed}.h"
            subprocess.run([sys.executable, f"{HERE}/generate.py", str(seed), str(UNIT), programs], check=True)
            hosts = {}
            for wave, lanes in {(w, bpermute_lanes(t, w)) for t, w, _ in jobs}:
                exe = f"{tmp}/host{wave}_{lanes}"
                compile_host(programs, wave, lanes, exe)
                hosts[wave, lanes] = exe + ".out"
                subprocess.run([exe, exe + ".out"], check=True)
            futures = [(j, pool.submit(unit, seed, j, programs, hosts[j[1], bpermute_lanes(j[0], j[1])])) for j in jobs]
            results = {job: f.result() for job, f in futures}
            aside = {}  # level -> programs that differ everywhere at it and nowhere at another
            for level in {j[2] for j in jobs}:
                here = [results[j][1] for j in jobs if j[2] == level]
                others = [results[j][1] for j in jobs if j[2] != level]
                aside[level] = set.intersection(*here) - set().union(*others) if others and len(here) > 2 else set()
            for job in jobs:
                n, bad, text = results[job]
                set_aside = bad & aside[job[2]]
                totals[job][0] += n
                totals[job][1] += len(bad - set_aside)
                totals[job][2] += len(set_aside)
                line = (f"seed {seed} {job[0]} wave{job[1]} -O{job[2]}: {n} programs, {len(bad - set_aside)} differ, "
                        f"{len(set_aside)} set aside")
                if bad:
                    print(line + "\n" + text, flush=True)
                if args.log:
                    with open(args.log, "a") as log:
                        log.write(line + "\n")
    for (t, w, l), (n, bad, aside) in totals.items():
        print(f"{t} wave{w} -O{l}: {n} programs, {bad} differ, {aside} set aside")
    return 1 if any(t[1] for t in totals.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
