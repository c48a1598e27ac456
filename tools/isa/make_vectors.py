"""Makes the instruction vectors of tests/isa/vectors: bytes from llvm-mc, operands chosen here, results from eval.py.

  make_vectors.py --texts DIR --table instructions.tsv --out DIR [--family gfx11] [--only REGEX]

DIR holds rdna3.txt, rdna4.txt, cdna.txt (AMD's pseudocode) and is not part of this repository. See the README beside the
vectors for the format and for what is left out."""
import argparse
import os
import random
import re
import subprocess
import time

import eval as E
import llvm
import number as N
import operands as O
import variants
import variants_dual
import variants_mem

FAMILIES = {
    "gfx9": ("cdna", ("rdna3",), ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"], 64),
    "gfx10": ("rdna3", ("cdna",), ["gfx1030"], 32),
    "gfx11": ("rdna3", ("cdna",), ["gfx1100", "gfx1151"], 32),
    "gfx12": ("rdna4", ("rdna3",), ["gfx1201"], 32),
}
FP8 = {"gfx942": "fnuz"}


def read_table(path):
    """{arch: {(format, name): [(field, kind, bits, class)]}}"""
    out = {}
    for line in open(path):
        if line.startswith("#") or line.startswith("arch\t"):
            continue
        arch, fmt, _, name, *rest = line.rstrip("\n").split("\t")
        ops = []
        for x in (rest[0].split() if rest else []):
            field, spec = x.split("=")
            kind, bits, cls = spec.split("/")
            ops.append((field, kind, int(bits or 0), cls))
        out.setdefault(arch, {})[fmt, name] = ops
    return out


def assemble(target, wave, texts):
    """Hex of each text, or None."""
    feature = ["-mattr=+wavefrontsize%d,+real-true16" % wave] if target[:5] in ("gfx11", "gfx12") else \
        ["-mattr=+wavefrontsize%d" % wave] if not target.startswith("gfx9") else []
    r = llvm.run([llvm.tool("llvm-mc"), "-triple=amdgcn-amd-amdhsa", "-mcpu=" + target, "-show-encoding"] + feature,
                 "\n".join(texts) + "\n")
    bad = {int(m) for m in re.findall(r"<stdin>:(\d+):\d+: error", r.stderr)}
    codes = [re.sub(r"0x|,", "", m) for m in re.findall(r"encoding: \[([^\]]*)\]", r.stdout)]
    good = [i for i in range(len(texts)) if i + 1 not in bad]
    if len(codes) != len(good):
        raise SystemExit("%s: %d encodings for %d texts" % (target, len(codes), len(good)))
    out = [None] * len(texts)
    for i, c in zip(good, codes):
        out[i] = c
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--texts", required=True)
    ap.add_argument("--table", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--family", action="append")
    ap.add_argument("--only", default="")
    args = ap.parse_args()
    table = read_table(args.table)
    manuals = {a: E.Manual(os.path.join(args.texts, a + ".txt")) for a in ("rdna3", "rdna4", "cdna")}
    manuals["cdna"].fallback = manuals["rdna4"]  # gfx950 calls minimum and maximum by names only that text has
    for family in args.family or FAMILIES:
        make_family(family, manuals, table, args)


def borrow_texts(sections, rows):
    """A form that the manual lists without a text of its own has the text of its other form."""
    for fmt, name in rows:
        if (fmt, name) not in sections and fmt in ("VOP3", "VOP3SD"):
            plain = name.removesuffix("_E64")
            for other in ("VOP1", "VOP2", "VOPC", "VOP3"):
                for n in (plain, plain + "_E32"):
                    if (other, n) in sections:
                        sections[fmt, name] = sections[other, n]


def make_family(family, manuals, table, args):
    primary, others, targets, wave = FAMILIES[family]
    began = time.time()
    items, seen, left = [], set(), {}
    for arch in (primary,) + others:
        borrow_texts(manuals[arch].sections, table[arch])
        for key, text in list(manuals[arch].sections.items()):
            fmt, name = key
            base = variants.mnemonic(family, name)
            if (fmt, base) in seen or not (variants.wanted(fmt, name) or variants_mem.wanted(fmt, name)) or not re.search(args.only, name):
                continue
            ops = table[arch].get(key)
            if ops is None:
                continue
            seen.add((fmt, base))
            items.append((arch, fmt, name, base, ops, text))
    # every variant of every instruction, and its candidate texts
    specs, short = [], {base for _, fmt, _, base, _, _ in items if fmt in ("VOP1", "VOP2", "VOPC")}
    for arch, fmt, name, base, ops, text in items:
        why = variants.left_out(arch, fmt, name, text)
        if why:
            left[fmt, base] = why
            continue
        rng = random.Random("%s %s" % (fmt, base))
        for w in ((wave,) if family == "gfx9" else (32, 64)):
            if fmt in variants_mem.FORMATS:
                found = variants_mem.variants(family, fmt, name, base, ops, w, rng)
            else:
                found = variants.variants(family, fmt, name, base, ops, w, rng, base in short)
            for s in found:
                s.arch, s.fmt, s.name, s.base, s.ops, s.wave = arch, fmt, name, base, ops, w
                specs.append(s)
    if family in ("gfx11", "gfx12"):
        specs += variants_dual.specs(primary, manuals, table[primary])
    for target in targets:
        for w in (32, 64):
            mine = [s for s in specs if s.wave == w]
            if not mine:
                continue
            lines, owner = [], []
            for s in mine:
                for t in s.texts:
                    lines.append(t)
                    owner.append(s)
            for s, t, code in zip(owner, lines, assemble(target, w, lines)):
                if code and target not in s.code:
                    s.code[target] = (code, t)
    # a name from another text may be a second spelling of an instruction that is here already
    codes = {c for s in specs if s.arch == primary for c in ((t, x[0]) for t, x in s.code.items())}
    alias = set()
    for s in specs:
        if s.arch != primary and any((t, x[0]) in codes for t, x in s.code.items()):
            alias.add((s.fmt, s.base))
    for k in alias:
        left[k] = "another spelling of an instruction that has vectors"
    specs = [s for s in specs if (s.fmt, s.base) not in alias]
    known = {}
    for s in specs:
        known[s.fmt, s.base] = known.get((s.fmt, s.base), False) or bool(s.code)
    for k, ok in known.items():
        if not ok:
            left[k] = "not a name of llvm-mc for these targets"
    pools = O.Pools(family)
    groups = {}
    count = {}
    for s in specs:
        kinds = {}
        for target, (code, text) in s.code.items():
            kinds.setdefault((code, FP8.get(target, "ocp") if re.search("FP8|BF8", s.name) else ""), []).append((target, text))
        for (code, fp8), tt in kinds.items():
            key = (s.arch, fp8)
            try:
                where = variants_mem if s.fmt in variants_mem.FORMATS else variants_dual if s.fmt == "VOPD" else variants
                line = where.evaluate(family, manuals[s.arch], fp8 or "ocp", s, tt[0][1], code, pools)
            except E.EvalError as e:
                left.setdefault((s.fmt, s.base), "not evaluated: %s" % e)
                continue
            if not line:
                continue
            mask = sum(1 << targets.index(t) for t, _ in tt)
            groups.setdefault((s.fmt, s.base), []).append("%x %s" % (mask, line))
            count[s.fmt, s.base] = count.get((s.fmt, s.base), 0) + 1
    path = os.path.join(args.out, family + ".txt")
    with open(path, "w") as f:
        f.write("targets %s\n" % " ".join(targets))
        for p in pools.used():
            f.write("pool %s %s\n" % p)
        for (fmt, base), lines in groups.items():
            f.write("inst %s %s\n" % (fmt, base))
            for x in lines:
                f.write(x + "\n")
    with open(os.path.join(args.out, family + ".left"), "w") as f:
        for (fmt, base), why in sorted(left.items()):
            if (fmt, base) not in groups:
                f.write("%s\t%s\t%s\n" % (fmt, base, why))
    subprocess.run(["zstd", "-19", "-q", "-f", "--rm", path], check=True)
    path += ".zst"
    n = sum(count.values())
    print("%s: %d instructions, %d vectors, %d left out, %d bytes, %.0f s" %
          (family, len(groups), n, len([k for k in left if k not in groups]), os.path.getsize(path), time.time() - began))


if __name__ == "__main__":
    main()
