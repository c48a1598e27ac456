#!/usr/bin/env python3
"""Every opcode of every target with random operand fields, our text against LLVM's. Run by hand: some minutes.

    roundtrip.py SIM_DECODE [N_PER_OPCODE [SEED [TARGET ...]]]

Random words are formed from the probes of probe.py by changing fields at random. What LLVM refuses or prints as invalid is
not compared; what it accepts and we refuse, or print otherwise, is listed by mnemonic."""
import collections
import random
import re
import subprocess
import sys

import llvm
import probe

WAVE = {"GFX1030": 32, "GFX1100": 32, "GFX1150": 32, "GFX1200": 32}
# Bits that may change without changing format or opcode, by format and generation: (word, mask).
MASKS = {
    "SOP1": (0x007F00FF,), "SOP2": (0x007FFFFF,), "SOPC": (0x0000FFFF,), "SOPK": (0x007FFFFF,), "SOPP": (0x0000FFFF,),
    "VOP1": (0x01FE01FF,), "VOP2": (0x01FFFFFF,), "VOPC": (0x0001FFFF,), "VOP3": (0x0000FFFF, 0xFFFFFFFF),
    "VOP3P": (0x0000FFFF, 0xFFFFFFFF), "VOPD": (0x0001FFFF, 0xFFFFFFFF), "VOPDX": (0x0001FFFF, 0xFFFFFFFF),
    "VINTERP": (0x0000FFFF, 0xFFFFFFFF), "DS": (0x0000FFFF, 0xFFFFFFFF), "LDSDIR": (0x000FFFFF,)}
BY_GEN = {
    ("SMEM", 9): (0x0003DFFF, 0xFE1FFFFF), ("SMEM", 10): (0x00015FFF, 0xFE1FFFFF), ("SMEM", 11): (0x00007FFF, 0xFE1FFFFF),
    ("SMEM", 12): (0x01E01FFF, 0xFEFFFFFF), ("FLAT", 9): (0x02033FFF, 0xFFFFFFFF), ("FLAT", 10): (0x00033FFF, 0xFFFFFFFF),
    ("FLAT", 11): (0x0000FFFF, 0xFFFFFFFF), ("FLAT", 12): (0x000000FF, 0x7FFFFFFF, 0xFFFFFFFF),
    ("MUBUF", 9): (0x0003FFFF, 0xFFFFFFFF), ("MUBUF", 10): (0x0001FFFF, 0xFFDFFFFF), ("MUBUF", 11): (0x00007FFF, 0xFFFFFFFF),
    ("MUBUF", 12): (0x0040007F, 0xFFFFFFFF, 0xFFFFFFFF), ("MTBUF", 9): (0x03F87FFF, 0xFFFFFFFF),
    ("MTBUF", 10): (0x03F8FFFF, 0xFFDFFFFF), ("MTBUF", 11): (0x03F87FFF, 0xFFFFFFFF),
    ("MTBUF", 12): (0x0040007F, 0xFFFFFFFF, 0xFFFFFFFF), ("MIMG", 9): (0x0203FF80, 0x83FFFFFF),
    ("MIMG", 10): (0x0203FFBE, 0xFFFFFFFF), ("MIMG", 11): (0x0003FF9D, 0x7FFFFFFF),
    ("MIMG", 12): (0x03C000F7, 0xFFFFFFFF, 0xFFFFFFFF), ("SAMPLE", 12): (0x03C020FF, 0xFFFFFFFF, 0xFFFFFFFF)}


def mutate(rng, fmt, gen, words):
    masks = BY_GEN.get(("FLAT" if fmt in ("GLOBAL", "SCRATCH") else fmt, gen), MASKS.get(fmt, ()))
    out = list(words)
    kind = rng.random()
    for i, mask in enumerate(masks):
        if i >= len(out):
            break
        bits = rng.getrandbits(32)
        if kind < 0.5:  # a few bits only: nearer to what is valid
            bits = out[i] ^ (rng.getrandbits(32) & rng.getrandbits(32) & rng.getrandbits(32))
        out[i] = (out[i] & ~mask | bits & mask) & 0xFFFFFFFF
    need = 1 if fmt in ("SOP1", "SOP2", "SOPC", "SOPK", "VOP1", "VOP2", "VOPC", "VOP3", "VOP3P", "VOPD", "VOPDX") else 0
    extra = 4 if fmt == "MIMG" and gen in (10, 11) else need
    return out, [rng.getrandbits(32) for _ in range(extra)]


def clean(text):
    return " ".join(text.split())


MODIFIERS = re.compile(r" (op_sel|op_sel_hi|neg_lo|neg_hi|neg|format|byte_sel|bitop3|cbsz|abid|blgp|fi|bound_ctrl|index_key)"
                       r":(\[[^\]]*\]|0x[0-9a-f]+|\d+)| (clamp|mul:2|mul:4|div:2|r128)\b")


def aligned(m):
    prefix, a, b = m.group(1), int(m.group(2)), int(m.group(3))
    n = b - a + 1
    if prefix != "v" and prefix != "a":
        a -= a % (2 if n == 2 else 4)
    return "%s[%d:%d]" % (prefix, a, a + n - 1)


def bare(text):
    """The text without what LLVM and we may print of bits that the instruction does not use: modifiers of integer operands,
    and registers of tuples that should be aligned and are not."""
    text = MODIFIERS.sub("", text)
    text = re.sub(r"neg\(([^)]*)\)|sext\(([^)]*)\)", lambda m: m.group(1) or m.group(2), text)
    text = re.sub(r"(^|[ ,\[])-(?=[vsa|mtelfn])", r"\1", text).replace("|", "")
    text = re.sub(r"\b(v\d+)\.[lh]\b", r"\1", text)
    return re.sub(r"\b(s|ttmp|v|a)\[(\d+):(\d+)\]", aligned, text)


def main():
    tool = sys.argv[1]
    per = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    total = bad = exact = 0
    for isa in sys.argv[4:] or probe.CPUS:
        found, gen = probe.probe(isa), probe.GEN[isa]
        wave = WAVE.get(isa, 64)
        items = []
        for (fmt, op), (_, words) in sorted(found.items()):
            if (fmt, op) == ("SOPP", 0):  # the marker of llvm.py
                continue
            for _ in range(per):
                base, extra = mutate(rng, fmt, gen, words)
                items.append(base + extra)
        # Ours first: it says how long each is, so that LLVM is given exactly that many dwords.
        text = "\n".join(" ".join("%08x" % w for w in ws) for ws in items) + "\n"
        r = subprocess.run([tool, isa.lower(), str(wave), "--lines"], input=text, capture_output=True, text=True)
        mine = [line.split("\t", 2) for line in r.stdout.splitlines()]
        assert len(mine) == len(items), (r.returncode, len(mine), len(items))
        given, who = [], []
        for ws, (_, n, ours) in zip(items, mine):
            lengths = [int(n)] if not ours.startswith("?") else range(1, len(ws) + 1)
            for k in lengths:
                given.append(ws[:k])
                who.append(ours)
        theirs = llvm.disassemble(probe.CPUS[isa], given)
        kinds = collections.OrderedDict()
        for ws, ours, other in zip(given, who, theirs):
            if other is None or "Invalid" in other or "invalid" in other or other.startswith("s_nop"):
                continue
            total += 1
            exact += clean(other) == clean(ours)
            if bare(clean(other)) != bare(clean(ours)):
                bad += 1
                kinds.setdefault(other.split()[0], []).append((" ".join("%08X" % w for w in ws), clean(other), clean(ours)))
        print("%s: %d encodings, %d mnemonics differ" % (isa, len(items), len(kinds)))
        for name, rows in kinds.items():
            print("  %s (%d) %s\n    llvm %s\n    ours %s" % ((name, len(rows)) + rows[0]))
    print("%d compared, %d equal to the letter, %d differ in more than unused bits" % (total, exact, bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
