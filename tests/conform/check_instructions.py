#!/usr/bin/env python3
"""check_instructions.py OCHRE: what products are made of, by target, as the disassembly has it.

Tiled products hold v_wmma_ on gfx11 and gfx12, v_mfma_ on gfx90a, gfx942 and gfx950, and neither on gfx906 and gfx1030; integer
formats use dot products of four bytes everywhere, and on gfx11 and gfx12 say which side is signed. 77 (skipped) without a compiler."""
import re
import subprocess
import sys

WMMA, MFMA, NEITHER = "wmma", "mfma", None
TARGETS = {"gfx1100": WMMA, "gfx1103": WMMA, "gfx1151": WMMA, "gfx1200": WMMA, "gfx1201": WMMA, "gfx90a": MFMA, "gfx942": MFMA,
           "gfx950": MFMA, "gfx906": NEITHER, "gfx1030": NEITHER}
TILED = (("matmul", "F=Q4_K"), ("matmul", "F=F16"), ("attention_tiles", "T=f16", "HD=64"))
INTEGER = (("matvec", "F=Q4_K"), ("matvec", "F=Q8_0", "B=8"))


def disassemble(ochre, target, kernel, *params):
    args = [ochre, "kernels", "disasm", kernel, "--target", target]
    for p in params:
        args += ["-p", p]
    r = subprocess.run(args, capture_output=True, text=True, timeout=300)
    if r.returncode:
        print(r.stderr, file=sys.stderr)
        if "compiler" in r.stderr or "objdump" in r.stderr:
            sys.exit(77)
        sys.exit(1)
    return r.stdout


def main():
    ochre, failed = sys.argv[1], 0
    for target, kind in TARGETS.items():
        for k in TILED:
            found = {m for m in re.findall(r"\bv_(wmma|mfma)_", disassemble(ochre, target, *k))}
            if found != ({kind} if kind else set()):
                print(f"{target}, {' '.join(k)}: expected {kind or 'neither'}, found {' '.join(sorted(found)) or 'neither'}")
                failed += 1
        for k in INTEGER:
            text = disassemble(ochre, target, *k)
            dots = [line for line in text.splitlines() if re.search(r"\bv_dot4", line)]
            if not dots:
                print(f"{target}, {' '.join(k)}: expected v_dot4, found none")
                failed += 1
            if kind == WMMA and not all("neg_lo:[1,1,0]" in line for line in dots):
                print(f"{target}, {' '.join(k)}: expected both sides of every dot product signed")
                failed += 1
    print(f"{len(TARGETS)} targets, {failed} failures")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
