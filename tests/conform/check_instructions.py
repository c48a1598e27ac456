#!/usr/bin/env python3
"""check_instructions.py OCHRE: what products are made of, by target, as the disassembly has it.

Tiled products hold v_wmma_ on gfx11 and gfx12, each in its own form (gfx11 gives a lane whole rows of 16 halves in 8 registers, gfx12
halves of them in 4), v_mfma_ on gfx90a, gfx942 and gfx950 (f16 by the instructions that these have), and neither on gfx906 and
gfx1030. Integer formats use dot products of four bytes everywhere, activations signed; weights too where their codes are below 0.
77 (skipped) without a compiler."""
import re
import subprocess
import sys

WMMA11, WMMA12, MFMA, NEITHER = "wmma of gfx11", "wmma of gfx12", "mfma", "neither"
TARGETS = {"gfx1100": WMMA11, "gfx1103": WMMA11, "gfx1151": WMMA11, "gfx1200": WMMA12, "gfx1201": WMMA12, "gfx90a": MFMA, "gfx942": MFMA,
           "gfx950": MFMA, "gfx906": NEITHER, "gfx1030": NEITHER}
TILED = (("matmul", "F=Q4_K"), ("matmul", "F=F16"), ("attention_tiles", "T=f16", "HD=64"))
# Formats of GGUF with integer codes; whether a code may be negative.
INTEGER = {"Q4_K": False, "Q8_0": True, "Q4_0": False, "Q4_1": False, "Q5_0": False, "Q5_1": False, "IQ4_NL": True, "MXFP4": True,
           "Q5_K": False, "Q6_K": False, "Q3_K": False, "Q2_K": False}
ALL_FORMATS_ON = ("gfx906", "gfx1030", "gfx1151", "gfx942")
# A and B of f16 with 16 x 16 x 16, in registers of a lane (CDNA3 and RDNA3, RDNA4 manuals, matrix instructions).
OPERAND_REGISTERS = {WMMA11: 8, WMMA12: 4}


def instructions(text, word):
    return [re.sub(r"\s*//.*", "", line).strip() for line in text.splitlines() if re.search(rf"^\s*{word}", line)]


def registers(operand):
    m = re.fullmatch(r"[va]\[(\d+):(\d+)\]", operand)
    return int(m.group(2)) - int(m.group(1)) + 1 if m else 1


def tiled(kind, text):
    """What is wrong with a tiled product; None: nothing."""
    wmma, mfma = instructions(text, "v_wmma_"), instructions(text, "v_mfma_")
    if kind == NEITHER and (wmma or mfma):
        return f"expected neither, found {(wmma + mfma)[0]}"
    if kind == MFMA and (wmma or not mfma):
        return f"expected v_mfma_, found {wmma[0] if wmma else 'neither'}"
    if kind == MFMA:
        wrong = [i for i in mfma if not re.match(r"v_mfma_f32_\d+x\d+x\d+_?f16", i)]
        return f"expected products of f16, found {wrong[0]}" if wrong else None
    if kind in OPERAND_REGISTERS:
        if mfma or not wmma:
            return f"expected v_wmma_, found {mfma[0] if mfma else 'neither'}"
        for i in wmma:
            operands = [o.strip() for o in re.findall(r"[va]\[\d+:\d+\]|[va]\d+", i.split(None, 1)[1])]
            if not i.startswith("v_wmma_f32_16x16x16_f16") or [registers(o) for o in operands[1:3]] != [OPERAND_REGISTERS[kind]] * 2:
                return f"expected the form of {kind}, found {i}"
    return None


def integer(kind, negative, text):
    dots = instructions(text, "v_dot4")
    if not dots:
        return "expected v_dot4, found none"
    for i in dots:
        if kind in OPERAND_REGISTERS:
            m = re.search(r"neg_lo:\[([01]),([01]),0\]", i)
            sides = int(m.group(1)) + int(m.group(2)) if m else 0
            if not i.startswith("v_dot4_i32_iu8") or sides < (2 if negative else 1):
                return f"expected signed {'codes and ' if negative else ''}activations, found {i}"
        elif not re.match(r"v_dot4c?_i32_i8", i):
            return f"expected a product of signed bytes, found {i}"
    return None


def self_test():
    own = "\tv_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]    // 000000001900: BF850003\n"
    other = "\tv_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[16:19], v[0:7]\n"
    mfma, of_f32 = "\tv_mfma_f32_32x32x8f16 a[0:15], v[8:9], v[29:30], a[0:15]\n", "\tv_mfma_f32_32x32x2f32 a[0:15], v8, v29, a[0:15]\n"
    dot = "\tv_dot4_i32_iu8 v14, v27, v15, v14"
    right = [tiled(WMMA11, own), tiled(WMMA12, other), tiled(MFMA, mfma), tiled(NEITHER, "\tv_dot2_f32_f16 v1, v2, v3, v1\n"),
             integer(WMMA11, True, dot + " neg_lo:[1,1,0]\n"), integer(WMMA12, False, dot + " neg_lo:[0,1,0]\n"),
             integer(MFMA, True, "\tv_dot4c_i32_i8_e32 v1, v2, v3\n"), integer(NEITHER, True, "\tv_dot4_i32_i8 v1, v2, v3, v1\n")]
    wrong = [tiled(WMMA11, other), tiled(WMMA12, own), tiled(WMMA11, ""), tiled(MFMA, own), tiled(MFMA, ""), tiled(MFMA, of_f32),
             tiled(NEITHER, mfma), tiled(NEITHER, own), tiled(WMMA11, own + other), integer(WMMA11, False, dot + "\n"),
             integer(WMMA11, True, dot + " neg_lo:[0,1,0]\n"), integer(NEITHER, False, "\tv_dot4_u32_u8 v1, v2, v3, v1\n"), integer(MFMA, False, "")]
    return sum(r is not None for r in right) + sum(w is None for w in wrong)


def disassemble(ochre, target, kernel, *params):
    args = [ochre, "kernels", "disasm", kernel, "--target", target]
    for p in params:
        args += ["-p", p]
    r = subprocess.run(args, capture_output=True, text=True, timeout=300)
    if r.returncode:
        print(r.stderr, file=sys.stderr)
        if "no compiler" in r.stderr or "no disassembler" in r.stderr:
            sys.exit(77)
        sys.exit(1)
    return r.stdout


def main():
    ochre, failed, n = sys.argv[1], self_test(), 0
    if failed:
        print(f"{failed} rules of this test take wrong instructions for right ones or right ones for wrong ones")
    for target, kind in TARGETS.items():
        asked = [(k, tiled(kind, disassemble(ochre, target, *k))) for k in TILED]
        for f, negative in INTEGER.items():
            if target not in ALL_FORMATS_ON and f not in ("Q4_K", "Q8_0"):
                continue
            k = ("matvec", f"F={f}", "B=8" if negative else "B=1")
            asked.append((k, integer(kind, negative, disassemble(ochre, target, *k))))
        for k, wrong in asked:
            n += 1
            if wrong:
                print(f"{target}, {' '.join(k)}: {wrong}")
                failed += 1
    print(f"{len(TARGETS)} targets, {n} kernels, {failed} failures")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
