#!/usr/bin/env python3
"""check_kernels.py OCHRE [--planted]

Every kernel compiles for every target in two values and more of each parameter, kernels of the decode path spill nothing, and
code holds the instructions that the kernel's comments promise: `ochre kernels check --strict`, with a cache of its own. What its
report says is added up here once more. --planted: kernels with a defect each (tests/kl/planted), which it must name; and some that
are compiled alone as well.

77 (skipped) where no clang is that knows all targets."""
import collections
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TARGETS = ("gfx906 gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1200 gfx1201 "
           "gfx1250 sm_80 sm_90").split()
DECODE = set("add glu gather cast fill embed rms_norm layer_norm rope kv_write qkv_post act_q8 matvec matvec_glu attention_part "
             "attention_merge softmax logsumexp argmax sample".split())
PLANTED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kl", "planted")
WMMA, MFMA = ("gfx1100", "gfx1201"), ("gfx90a", "gfx942")


class Failures:
    def __init__(self):
        self.n = 0

    def expect(self, ok, what):
        if not ok:
            print(f"FAILED: {what}")
            self.n += 1


def run(ochre, *args, cache):
    return subprocess.run([ochre, "kernels", "check", *args], env=dict(os.environ, OCHRE_CACHE_DIR=cache), capture_output=True, text=True)


def whole(ochre, folder, f):
    report = os.path.join(folder, "report.csv")
    p = subprocess.run([ochre, "kernels", "check", "--strict", "--report", report],
                       env=dict(os.environ, OCHRE_CACHE_DIR=os.path.join(folder, "cache")), stdout=subprocess.PIPE, text=True)
    print(p.stdout, end="")
    f.expect(p.returncode == 0, f"exit status {p.returncode}")
    add_up(report, f)


def add_up(report, f):
    with open(report, newline="") as file:
        rows = list(csv.DictReader(file))
    kernels = {r["kernel"] for r in rows}
    f.expect(DECODE <= kernels, f"no kernels {DECODE - kernels}")
    f.expect(len({(r["kernel"], r["target"]) for r in rows}) == len(kernels) * len(TARGETS) and {r["target"] for r in rows} == set(TARGETS),
             f"every kernel for {len(TARGETS)} targets")
    values = collections.defaultdict(set)
    for r in rows:
        spilled = [r[k] for k in ("vgpr_spills", "sgpr_spills", "scratch_bytes") if r[k] not in ("", "0")]
        f.expect(r["ok"] == "1", f"{r['kernel']} {r['parameters']} for {r['target']}: {r['message']}")
        f.expect(not spilled or r["kernel"] not in DECODE, f"{r['kernel']} {r['parameters']} for {r['target']} spills")
        f.expect((r["vgprs"] == "") == r["target"].startswith("sm_"), f"registers of {r['kernel']} for {r['target']}: {r['vgprs']}")
        for p in filter(None, r["parameters"].split(",")):
            values[r["kernel"], p.split("=")[0]].add(p.split("=")[1])
    for (kernel, parameter), v in values.items():
        f.expect(len(v) > 1, f"{kernel}: {parameter} is {v} alone")
    print(f"{len(rows)} compilations; specialisations that spill, of kernels that may: "
          f"{sum(r['vgpr_spills'] not in ('', '0') or r['sgpr_spills'] not in ('', '0') for r in rows)}")


def alone(ochre, folder, f):
    """Specialisations that are compiled together, in one text, are what each is alone."""
    env = dict(os.environ, OCHRE_CACHE_DIR=os.path.join(folder, "cache"))
    path = os.path.join(folder, "list.txt")
    with open(path, "w") as file:
        file.write("matvec F=Q4_K,Q6_K,F16 B=1,8\nattention_part T=f16 HD=64 GG=1,3\nmatmul F=Q4_K,F16\nsample WAVES=4,8\n")
    targets = ("gfx906", "gfx1151", "gfx942")
    p = subprocess.run([ochre, "kernels", "check", "--list", path, "--target", ",".join(targets), "--json"], env=env, capture_output=True, text=True)
    f.expect(p.returncode == 0, p.stdout + p.stderr)
    results = json.loads(p.stdout)["results"]
    f.expect(len(results) == 12 * len(targets), p.stdout)
    for r in results:
        if r["target"] == "gfx942" and r["kernel"] != "attention_part":
            continue
        args = [a for v in r["parameters"].split(",") for a in ("-p", v)]
        one = json.loads(subprocess.run([ochre, "kernels", "build", r["kernel"], *args, "--target", r["target"], "--json"], env=env, capture_output=True,
                                        text=True).stdout)
        for k in ("vgprs", "agprs", "sgprs", "vgpr_spills", "sgpr_spills", "scratch_bytes"):
            f.expect(one[k] == r[k], f"{r['kernel']} {r['parameters']} for {r['target']}: {k} is {r[k]} together, {one[k]} alone")


def planted(ochre, folder, f):
    def check(name, targets, status, *patterns, args=("--strict",)):
        p = run(ochre, "--file", os.path.join(PLANTED, name + ".ok"), "--target", ",".join(targets), *args, cache=os.path.join(folder, "cache"))
        f.expect(p.returncode == status, f"{name}: expected exit status {status}, found {p.returncode}: {p.stdout}{p.stderr}")
        for pattern in patterns:
            f.expect(re.search(pattern, p.stdout, re.M), f"{name}: expected {pattern}, found: {p.stdout}{p.stderr}")
        return p.stdout

    # A few hundred sums are more than 256 registers hold; eight are not.
    out = check("spills", ("gfx906", "sm_90"), 1,
                r"^spills N=300 for gfx906: a decode kernel that spills: [1-9]\d* vector and \d+ scalar registers, [1-9]\d* bytes of scratch memory$",
                r"^spills +2 +!1 +ok", r"3 of 4 right")
    f.expect("N=8" not in out, f"spills: {out}")

    with open(os.path.join(PLANTED, "counts_lanes.ok")) as file:
        lines = file.read().split("\n")
    marked = [i for i, line in enumerate(lines, 1) if line.endswith("// counts lanes")]
    out = check("counts_lanes", ("gfx1151",), 1)
    found = [int(m) for m in re.findall(r"counts_lanes\.ok:(\d+):\d+: error: \d+ counts lanes", out)]
    f.expect(found == marked and len(marked) > 8, f"counts_lanes: expected lines {marked}, found {found}")

    out = check("no_matrix", WMMA + MFMA + ("gfx906", "gfx1030"), 1, r"^no_matrix +2 +!2 +!2 +!2 +!2 +\d+ +\d+ ",
                *(rf"^no_matrix K=16 for {t}: a product without matrix instructions: expected v_wmma_, found none" for t in WMMA),
                *(rf"^no_matrix K=16 for {t}: a product without matrix instructions: expected v_mfma_, found none" for t in MFMA))
    f.expect("for gfx906" not in out and "for gfx1030" not in out, f"no_matrix: {out}")

    out = check("no_dot4", ("gfx906", "gfx1151", "sm_90"), 1,
                *(rf"^no_dot4 F=Q4_0 for {t}: a product of codes without dot products of four bytes" for t in ("gfx906", "gfx1151", "sm_90")),
                *(rf"^unsigned_dot4 F=Q8_0 for {t}: a product of codes with \d+ dot products of unsigned" for t in ("gfx906", "gfx1151", "sm_90")))
    f.expect("F=F16" not in out, f"no_dot4: {out}")

    # One value of a parameter: said, and wrong where it is asked for. One that follows from another has two.
    check("one_value", ("gfx1100",), 1, r"one_value\.ok:\d+: one_value is checked with one value only of WAVES$")
    check("one_value", ("gfx1100",), 0, r"one value only of WAVES$", args=())
    check("right", WMMA + MFMA + ("gfx906", "sm_90"), 0, r"36 of 36 right")
    p = run(ochre, "--file", os.path.join(PLANTED, "right.ok"), "--target", "gfx1100", "--json", cache=os.path.join(folder, "cache"))
    results = json.loads(p.stdout)
    f.expect(results["wrong"] == 0 and len(results["results"]) == 6, p.stdout)
    by = {r["kernel"] + " " + r["parameters"]: r for r in results["results"]}
    f.expect(by["right_dot4 F=Q8_0,B=1,TWICE=2"]["dot4_instructions"] >= 8 and "dot4_instructions" not in by["right_dot4 F=F16,B=1,TWICE=2"], p.stdout)
    f.expect(by["right_matrix N=16"]["matrix_instructions"] >= 2, p.stdout)


def main():
    if not shutil.which("clang-22") or not shutil.which("llvm-objdump-22"):
        print("skipped: clang-22 and llvm-objdump-22 are not installed")
        return 77
    f = Failures()
    with tempfile.TemporaryDirectory() as folder:
        if "--planted" in sys.argv:
            planted(sys.argv[1], folder, f)
            alone(sys.argv[1], folder, f)
        else:
            whole(sys.argv[1], folder, f)
    print(f"{f.n} failures")
    return f.n != 0


if __name__ == "__main__":
    sys.exit(main())
