#!/usr/bin/env python3
"""DRAM bytes on simulated boards over the floor, for the ops that decode is made of: each matrix-vector format at 8192 x 8192 and
14336 x 4096, and attention of one token over 8,192 tokens.

    python3 bench/dram.py --ochre build/release/ochre            print the tables; exit status 1 where a row is above the limit
    python3 bench/dram.py --write                                and put them into docs/performance.md
    python3 bench/dram.py --boards gfx1151 --formats Q4_K,Q8_0   a part of them

The floor is each input once and each output once, weights with the bytes that the file has. Counts, never seconds.
"""
import argparse, concurrent.futures, json, os, pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOARDS = ["gfx1151", "gfx1201", "gfx942"]
FORMATS = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "MXFP4"]
SHAPES = [(8192, 8192), (14336, 4096)]  # rows, columns
CONTEXT, LIMIT = 8192, 1.05
BEGIN, END = "<!-- made by bench/dram.py -->", "<!-- end of bench/dram.py -->"


def run(ochre, board, what):
    if what[0] == "attention":
        args, name = ["attention", "--context", str(CONTEXT), "--dtype", what[1]], f"attention, {CONTEXT:,} tokens, {what[1]}"
    else:
        args, name = ["linear", "--m", str(what[2][0]), "--k", str(what[2][1]), "--dtype", what[1]], f"{what[1]} {what[2][0]} x {what[2][1]}"
    p = subprocess.run([ochre, "bench", "op", *args, "--device", f"sim:{board}", "--json"], capture_output=True, text=True,
                       env={**os.environ, "OCHRE_SIM_THREADS": "1"})
    if p.returncode or not p.stdout:
        return board, name, what, None, p.stderr.strip().splitlines()[-1:] or [f"exit status {p.returncode}"]
    return board, name, what, json.loads(p.stdout), None


def row(name, what, r):
    """Of the launch that moves most; DRAM bytes and misses are sums over all launches of the op."""
    top = max(r["launches"], key=lambda l: l["dram_bytes_read"] + l["dram_bytes_written"])
    weights = what[2][0] * what[2][1] if what[0] == "linear" else 2 * CONTEXT * 8 * 128
    waves = sum(v for l in r["launches"] for k, v in l["instructions"].items() if k != "control")
    spills = max(l["scratch_lane_bytes"] for l in r["launches"])
    return (f'| {name} | {r["floor_bytes"] / 1e6:.2f} | {r["dram_over_floor"]:.3f} | {r["workgroup_miss_bytes"] / r["floor_bytes"]:.2f} | '
            f'{waves / weights:.4f} | {top["bytes_in_flight_multiprocessor"] / 1024:.0f} | {top["vgprs"]} | {spills} | {top["waves_simd"]} |')


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ochre", default=str(ROOT / "build/release/ochre"))
    p.add_argument("--boards", type=lambda s: s.split(","), default=BOARDS)
    p.add_argument("--formats", type=lambda s: s.split(","), default=FORMATS)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--write", action="store_true", help="only with all boards and formats")
    a = p.parse_args()
    if a.write and (a.boards != BOARDS or a.formats != FORMATS):
        p.error("--write takes no part of the tables")
    work = [("linear", f, s) for s in SHAPES for f in a.formats] + [("attention", t) for t in ("F16", "F32", "BF16")]
    text, bad = [], []
    # The first run of a board compiles its kernels: one process at a time does not compile what another is compiling.
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for board in a.boards:
            rows = []
            for _, name, what, r, why in pool.map(lambda w: run(a.ochre, board, w), work):
                if r is None:
                    bad.append(f"{board}: {name}: {why[0]}")
                    rows.append(f"| {name} | did not run | | | | | | | |")
                    continue
                if r["dram_over_floor"] > LIMIT:
                    bad.append(f'{board}: {name}: {r["dram_over_floor"]:.3f} of the floor, at most {LIMIT} expected')
                rows.append(row(name, what, r))
            text.append(f"### {board}\n\n| product, or attention of one token | floor, MB | DRAM bytes / floor | workgroup misses / floor | instructions a weight | "
                        "KiB in flight a multiprocessor | registers | spills, bytes a lane | waves a SIMD |\n|---|---|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n")
            print(text[-1], flush=True)
    for b in bad:
        print(f"dram.py: {b}", file=sys.stderr)
    if a.write:
        page = ROOT / "docs/performance.md"
        old = page.read_text()
        if old.count(BEGIN) != 1 or old.count(END) != 1:
            sys.exit(f"dram.py: {page}: expected the lines {BEGIN} and {END} once each")
        note = "".join(f"- {b}\n" for b in bad)
        above = f"Not as they should be:\n\n{note}\n" if bad else ""
        page.write_text(old.split(BEGIN)[0] + BEGIN + "\n" + "\n".join(text) + above + END + old.split(END)[1])
    return bool(bad)


sys.exit(main())
