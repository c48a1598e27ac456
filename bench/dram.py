#!/usr/bin/env python3
"""What decode moves and executes on simulated boards: DRAM bytes over the floor, workgroup-level misses, instructions, bytes in
flight, registers, spills and occupancy for each op of it: the matrix-vector formats at 8192 x 8192 and 14336 x 4096, attention of
one token, and the ops of a step of llama-8b; then what a token asks of each board.

    python3 bench/dram.py --ochre build/release/ochre            print the tables; exit status 1 where a row is above the limit
    python3 bench/dram.py --before OLD/ochre                     beside what an older ochre did: "before → after", from 0.5% on
    python3 bench/dram.py --write                                and put them into docs/performance.md
    python3 bench/dram.py --boards gfx1151 --formats Q4_K,Q8_0   a part of them

The floor is each input once and each output once, weights with the bytes that the file has. Counts, never seconds.
"""
import argparse, concurrent.futures, json, os, pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMATS = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "MXFP4"]
SHAPES = [(8192, 8192), (14336, 4096)]  # rows, columns
LIMIT = 1.05
BEGIN, END = "<!-- made by bench/dram.py -->", "<!-- end of bench/dram.py -->"

# Of src/target/boards.def: name, peak GB/s, MHz, SIMDs (two a CU, four on gfx942), cycles for which a vector instruction of a wave
# holds one (64 lanes on 16 take 4). Then what others measured or publish (docs/performance.md says who): GB/s of a read, us from a
# kernel of a replayed graph to the next, tokens/s for 8B in 4 bits.
BOARDS = {
    "gfx1151": ("Radeon 8060S (Strix Halo)", 256, 2900, 80, 1, 215, 1.75, "42.0 Vulkan, 37.2 HIP"),
    "gfx1100": ("RX 7900 XTX", 960, 2500, 192, 1, None, 2.82, "105.8 HIP"),
    "gfx1201": ("RX 9070 XT", 640, 2970, 128, 1, None, 2.15, "119.6 Vulkan, 107.7 HIP (Q4_0)"),
    "gfx942": ("MI300X", 5300, 2100, 1216, 4, 4199, None, "161 HIP (second-hand)"),
}

# Ops of a step of llama-8b, one token after 512: name, how often a step has it, arguments. What the model's passes fuse away comes
# after, since models of other kinds have it.
LAYERS, D, FF, KV, VOCABULARY = 32, "4096", "14336", "1024", "128256"
QKV = ["linear", "--m", f"{D},{KV},{KV}", "--k", D, "--norm"]
GATE, DOWN = ["linear", "--m", FF, "--k", D, "--gate", "--norm"], ["linear", "--m", D, "--k", FF, "--residual"]
O, HEAD = ["linear", "--m", D, "--k", D, "--residual"], ["linear", "--m", VOCABULARY, "--k", D, "--norm"]
STEP = [
    ("embed, Q4_K", 1, ["embed", "--m", VOCABULARY, "--k", D, "--dtype", "Q4_K"]),
    ("norm, q, k, v, Q4_K", LAYERS, [*QKV, "--dtype", "Q4_K"]),
    ("qkv_post (rope, state written)", LAYERS, ["qkv_post"]),
    ("attention, 512 tokens, F16", LAYERS, ["attention", "--context", "512", "--dtype", "F16"]),
    ("o, residual, Q4_K", LAYERS, [*O, "--dtype", "Q4_K"]),
    ("norm, gate, up, silu, Q4_K", LAYERS, [*GATE, "--dtype", "Q4_K"]),
    ("down, residual, Q4_K", LAYERS, [*DOWN, "--dtype", "Q4_K"]),
    ("norm, logits, Q4_K", 1, [*HEAD, "--dtype", "Q4_K"]),
    ("sample", 1, ["sample", "--k", VOCABULARY]),
]
OTHERS = [
    ("norm, q, k, v, BF16", [*QKV, "--dtype", "BF16"]),
    ("norm, gate, up, silu, BF16", [*GATE, "--dtype", "BF16"]),
    ("down, residual, BF16", [*DOWN, "--dtype", "BF16"]),
    ("rms_norm", ["rms_norm", "--k", D]),
    ("rope", ["rope"]),
    ("kv_write", ["kv_write"]),
    ("glu", ["glu", "--k", FF]),
    ("add", ["add", "--k", D]),
    ("gather", ["gather", "--k", D]),
]
ATTENTION = [(8192, "F16"), (8192, "BF16"), (8192, "F32"), (32768, "F16")]


def run(ochre, board, args):
    """The counts, or why there are none."""
    p = subprocess.run([ochre, "bench", "op", *args, "--device", f"sim:{board}", "--json"], capture_output=True, text=True,
                       env={**os.environ, "OCHRE_SIM_THREADS": "1"})
    if p.returncode or not p.stdout:
        return (p.stderr.strip().splitlines() or [f"exit status {p.returncode}"])[0]
    return json.loads(p.stdout)


def instructions(r):
    return sum(v for l in r["launches"] for k, v in l["instructions"].items() if k != "control")


def vector(r):
    """Instructions by the cycles that they take of a SIMD: transcendental ones four times those of others."""
    return sum(v * {"trans": 4}.get(k, 1) for l in r["launches"] for k, v in l["instructions"].items()
               if k in ("valu", "valu_dual", "packed", "dot", "trans"))


def cells(r):
    """Bytes, misses and instructions of all launches; the rest of the launch that moves most, spills of any."""
    top = max(r["launches"], key=lambda l: l["dram_bytes_read"] + l["dram_bytes_written"])
    return [f'{r["dram_over_floor"]:.3f}', f'{r["workgroup_miss_bytes"] / r["floor_bytes"]:.2f}', f'{instructions(r) / r["weights"]:.4f}',
            f'{top["bytes_in_flight_multiprocessor"] / 1024:.0f}', str(top["vgprs"]),
            str(max(l["scratch_lane_bytes"] for l in r["launches"])), str(top["waves_simd"])]


def row(name, r, old):
    if isinstance(r, str):
        return f"| {name} | did not run |" + " |" * 7
    now, was = cells(r), cells(old) if isinstance(old, dict) else None
    same = lambda a, b: abs(float(a) - float(b)) <= 0.005 * float(a)
    both = [a if not was or same(a, was[i]) else f"{was[i]} → {a}" for i, a in enumerate(now)]
    if isinstance(old, str):
        both[0] = f"- → {both[0]}"
    return f'| {name} | {r["floor_bytes"] / 1e6:.3f} | ' + " | ".join(both) + " |"


HEADER = ("| {} | floor, MB | DRAM bytes / floor | workgroup misses / floor | instructions a weight | KiB in flight a multiprocessor | "
          "registers | spills, bytes a lane | waves a SIMD |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")


def token(board, rows):
    """What a token of llama-8b in Q4_K asks of a board: the step's ops, as often as it has them."""
    name, peak, mhz, simds, cycles, read, gap, others = BOARDS[board]
    total = lambda f: sum(n * f(rows[what]) for what, n, _ in STEP)
    floor, dram, n_launches = total(lambda r: r["floor_bytes"]), total(lambda r: r["dram_bytes"]), total(lambda r: len(r["launches"]))
    arithmetic = total(vector) * cycles / (simds * mhz * 1e6)
    allowed = f"{peak * 1e9 / floor:,.0f}" + (f"; {read * 1e9 / floor:,.0f} at {read:,}" if read else "")
    gaps = f"{n_launches * gap * 1e-3:.2f}" if gap else "not published"
    return (f"| {board}, {name} | {floor / 1e9:.3f} | {dram / floor:.3f} | {peak:,} | {floor / peak * 1e-6:.2f} | "
            f"{arithmetic * 1e3:.2f} | {n_launches} | {gaps} | {allowed} | {others} |")


TOKEN = ("| board | floor, GB | DRAM bytes / floor | peak, GB/s | ms of the floor at the peak | ms of vector instructions, all SIMDs "
         "busy | kernels | ms between kernels | tokens/s of the floor at the peak; at what others read (GB/s) | llama.cpp as published, "
         "8B Q4_K_M |\n|---|--:|--:|--:|--:|--:|--:|--:|---|---|\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ochre", default=str(ROOT / "build/release/ochre"))
    p.add_argument("--before", metavar="OCHRE", help="an older one; ops and options that it has not are counted for the new one only")
    p.add_argument("--boards", type=lambda s: s.split(","), default=list(BOARDS))
    p.add_argument("--formats", type=lambda s: s.split(","), default=FORMATS)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--write", action="store_true", help="only with all boards and formats")
    a = p.parse_args()
    if a.write and (a.boards != list(BOARDS) or a.formats != FORMATS):
        p.error("--write takes no part of the tables")
    for b in a.boards:
        if b not in BOARDS:
            p.error(f"no board {b}; known: {', '.join(BOARDS)}")
    products = [(f"{f} {m} x {k}", ["linear", "--m", str(m), "--k", str(k), "--dtype", f]) for m, k in SHAPES for f in a.formats]
    products += [(f"attention, {n:,} tokens, {t}", ["attention", "--context", str(n), "--dtype", t]) for n, t in ATTENTION]
    step = [(name, args) for name, _, args in STEP] + OTHERS
    text, tokens, bad = [], [], []
    # The first run of a board compiles its kernels: one process at a time does not compile what another is compiling.
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for board in a.boards:
            now = dict(zip([n for n, _ in products + step], pool.map(lambda w: run(a.ochre, board, w[1]), products + step)))
            old = dict(zip(now, pool.map(lambda w: run(a.before, board, w[1]), products + step))) if a.before else {}
            for name, r in now.items():
                if isinstance(r, str):
                    bad.append(f"{board}: {name}: {r}")
                    continue
                if r["dram_over_floor"] > LIMIT:
                    bad.append(f'{board}: {name}: {r["dram_over_floor"]:.3f} of the floor, at most {LIMIT} expected')
                if any(l["scratch_lane_bytes"] for l in r["launches"]):
                    bad.append(f"{board}: {name}: spills")
            text.append(f"### {board}, {BOARDS[board][0]}, simulated\n\n" + HEADER.format("product, or attention of one token") +
                        "\n".join(row(n, now[n], old.get(n)) for n, _ in products) + "\n\n" + HEADER.format("op of a step of llama-8b") +
                        "\n".join(row(n, now[n], old.get(n)) for n, _ in step) + "\n")
            if all(isinstance(now[n], dict) for n, _, _ in STEP):
                tokens.append(token(board, now))
            print(text[-1], flush=True)
    text.insert(0, "### A token of llama-8b in Q4_K after 512, predicted from the counts\n\n" + TOKEN + "\n".join(tokens) + "\n")
    print(text[0])
    for b in bad:
        print(f"dram.py: {b}", file=sys.stderr)
    if a.write:
        page = ROOT / "docs/performance.md"
        old = page.read_text()
        if old.count(BEGIN) != 1 or old.count(END) != 1:
            sys.exit(f"dram.py: {page}: expected the lines {BEGIN} and {END} once each")
        note = "".join(f"- {b}\n" for b in bad)
        above = f"### Above the limit\n\n{note}\n" if bad else ""
        page.write_text(old.split(BEGIN)[0] + BEGIN + "\n" + "\n".join(text) + "\n" + above + END + old.split(END)[1])
    return bool(bad)


sys.exit(main())
