"""Makes tests/isa/hand/NAME.txt.zst from NAME.case: cases worked by hand, in the format of tests/isa/vectors/README.md.

  make_hand.py tests/isa/hand

A case: `on TARGETS`, `wave 32|64` (both stay until changed), then
    ASM; ASM; ...
      in NAME=VALUES ...
      out NAME[:CLASS]=VALUES ...
VALUES of a vector register: hexadecimal, comma-separated, repeated over the lanes; `lane*N+M` is made of the lane's number.
Memory: `lds=VALUES`, `mem=VALUES` over 512 dwords. A `+` before `=` adds the address of the memory. The bytes are llvm-mc's."""
import glob
import os
import re
import subprocess
import sys

import make_vectors

ORDER = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151"]  # 8 to a file; gfx1201 has its own


def values(text, n):
    m = re.fullmatch(r"lane(?:\*(\d+))?(?:\+(\d+))?", text)
    if m:
        return [(i * int(m.group(1) or 1) + int(m.group(2) or 0)) & 0xFFFFFFFF for i in range(n)]
    parts = text.split(",")
    return [int(parts[i % len(parts)], 16) for i in range(n)], max(len(p) for p in parts)


def row(text, n):
    v = values(text, n)
    v, digits = v if isinstance(v, tuple) else (v, 8)
    return "".join("%0*x" % (16 if digits > 8 else 8, x) for x in v)


def main(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.case"))):
        cases, on, wave, line_no = [], [], 32, 0
        for line in open(path):
            line_no += 1
            line = line.rstrip("\n")
            w = line.split()
            if not w or w[0].startswith("#"):
                continue
            if w[0] == "on":
                on = w[1:]
            elif w[0] == "wave":
                wave = int(w[1])
            elif w[0] in ("in", "out"):
                cases[-1][w[0]] += w[1:]
            else:
                cases.append({"asm": line.strip(), "on": on, "wave": wave, "in": [], "out": [], "line": line_no})
        for suffix, targets in (("", ORDER), ("_gfx12", ["gfx1201"])):
            write(path[:-5] + suffix, targets, cases)


def write(name, targets, cases):
    pools, body, last = {}, [], None
    for c in cases:
        by_code = {}
        for t in (t for t in targets if t in c["on"]):
            parts = [p.strip() for p in c["asm"].split(";")]
            codes = make_vectors.assemble(t, c["wave"], parts)
            if None in codes:
                raise SystemExit("%s line %d: %s refuses %r" % (name, c["line"], t, parts[codes.index(None)]))
            by_code.setdefault("".join(codes), []).append(t)
        for code, ts in by_code.items():
            ins, outs = [], []
            for x in c["in"]:
                k, v = x.split("=")
                if k[0] == "v" or k in ("lds", "mem"):
                    hexes = row(v, 64 if k[0] == "v" else 512)
                    p = pools.setdefault(hexes, ("" if k[0] == "v" else "mem.") + "p%d" % len(pools))
                    ins.append("%s@%s" % (k, p))
                else:
                    ins.append(x)
            for x in c["out"]:
                k, v = x.split("=")
                if k[0] == "v" or k.startswith(("lds", "mem")):
                    v = row(v, c["wave"] if k[0] == "v" else 512)
                    k += "" if ":" in k else ":e"
                outs.append("%s=%s" % (k, v))
            mnemonic = c["asm"].split()[0]
            if mnemonic != last:
                body.append("inst HAND " + mnemonic)
                last = mnemonic
            mask = sum(1 << targets.index(t) for t in ts)
            body.append("%x %d %s %s | %s" % (mask, c["wave"], code, " ".join(ins), " ".join(outs)))
    if not body:
        return
    with open(name + ".txt", "w") as f:
        f.write("targets %s\n" % " ".join(targets))
        for hexes, p in pools.items():
            f.write("pool %s %s\n" % (p, hexes))
        f.write("\n".join(body) + "\n")
    subprocess.run(["zstd", "-19", "-q", "-f", "--rm", name + ".txt"], check=True)
    print(name, len(body))


if __name__ == "__main__":
    main(sys.argv[1])
