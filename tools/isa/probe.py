"""Every opcode of every format of a target, asked of LLVM: mnemonic, whether it carries an encoding suffix, and a text."""
import llvm

CPUS = {"GFX906": "gfx906", "GFX908": "gfx908", "GFX90A": "gfx90a", "GFX942": "gfx942", "GFX950": "gfx950",
        "GFX1030": "gfx1030", "GFX1100": "gfx1100", "GFX1150": "gfx1150", "GFX1200": "gfx1200"}
GEN = {"GFX906": 9, "GFX908": 9, "GFX90A": 9, "GFX942": 9, "GFX950": 9, "GFX1030": 10, "GFX1100": 11, "GFX1150": 11,
       "GFX1200": 12}


def put(words, lo, value):
    while len(words) <= lo // 32:
        words.append(0)
    words[lo // 32] |= value << (lo % 32) & 0xFFFFFFFF


def pack(*fields):
    words = []
    for lo, value in fields:
        put(words, lo, value)
    return words


def salu(gen):
    yield "SOP1", 256, lambda o: [pack((23, 0x17D), (8, o), (16, d), (0, s)) for s in (16, 0xC1) for d in (8,)]
    yield "SOP2", 96, lambda o: [pack((30, 2), (23, o), (16, 8), (8, 24), (0, 16)) + m for m in ([], [0x12345678])]
    yield "SOPC", 128, lambda o: [pack((23, 0x17E), (16, o), (8, 24), (0, 16))]
    yield "SOPK", 29, lambda o: [w for w in (pack((28, 0xB), (23, o), (16, 8), (0, 1)),
                                             pack((28, 0xB), (23, o), (16, 125 if gen >= 11 else 124 if gen == 10 else 8),
                                                     (0, 1)),
                                             pack((28, 0xB), (23, o), (16, 8), (0, 1), (32, 0x1234567)))]
    yield "SOPP", 128, lambda o: [pack((23, 0x17F), (16, o), (0, 1)), pack((23, 0x17F), (16, o))]
    if gen == 12:
        yield "SMEM", 64, lambda o: [pack((26, 0x3D), (13, o), (6, 16), (0, 4), (57, 124), (32, 16)),
                                     pack((26, 0x3D), (13, o), (6, 1), (0, 4), (57, 124), (32, 16)), pack((26, 0x3D), (13,
                                             o), (32, 0))]
    elif gen == 11:
        yield "SMEM", 256, lambda o: [pack((26, 0x3D), (18, o), (6, 16), (0, 4), (57, 124), (32, 16)), pack((26, 0x3D), (18,
                o), (32, 0))]
    elif gen == 10:
        yield "SMEM", 256, lambda o: [pack((26, 0x3D), (18, o), (6, 16), (0, 4), (57, 125), (32, 16)),
                                      pack((26, 0x3D), (18, o), (6, 16), (0, 4), (57, 125), (32, 16), (16, 1)),
                                      pack((26, 0x3D), (18, o), (6, 16), (32, 0)), pack((26, 0x3D), (18, o), (32, 0))]
    else:
        yield "SMEM", 256, lambda o: [pack((26, 0x30), (18, o), (6, 16), (0, 4), (17, 1), (32, 16)),
                                      pack((26, 0x30), (18, o), (6, 16), (0, 4), (17, 1), (32, 16), (16, 1)),
                                      pack((26, 0x30), (18, o), (6, 16), (32, 0)), pack((26, 0x30), (18, o), (32, 0))]


def valu(gen):
    v = 256
    yield "VOP1", 128, lambda o: [pack((25, 0x3F), (9, o), (17, d), (0, s)) for s, d in ((v + 16, 8), (16, 8), (129, 8), (0,
            0))]
    lit = lambda w: w + [0x12345678]
    yield "VOP2", 62, lambda o: [w for w in (pack((25, o), (17, 8), (9, 24), (0, v + 16)),
                                             lit(pack((25, o), (17, 8), (9, 24), (0, v + 16))),
                                             pack((25, o), (17, 8), (9, 24), (0, 16)))]
    yield "VOPC", 256, lambda o: [pack((25, 0x3E), (17, o), (9, 24), (0, v + 16))]
    enc = 0x34 if gen == 9 else 0x35
    top = 0x380 if gen == 9 else 0x400
    regs = ((v + 16, v + 24, v + 32), (v + 16, v + 24, 16), (16, 24, v + 32), (v + 16, v + 24, 128), (v + 16, 129, v + 32),
            (v + 16, 0, 0), (0, 0, 0), (129, 129, 129))
    vop3 = lambda o, d, r: pack((26, enc), (16, o), (0, d), (32, r[0]), (41, r[1]), (50, r[2]))
    yield "VOP3", top, lambda o: [vop3(o, d, r) for r in regs for d in (8, 126, 106 | 106 << 8, 0)]
    enc, width = (0x1A7, 128) if gen == 9 else (0xCC, 128)
    lo = 23 if gen == 9 else 24
    p3 = lambda o, r, more=(): pack((lo, enc), (16, o), (0, 8), (32, r[0]), (41, r[1]), (50, r[2]), *more)
    yield "VOP3P", width, lambda o: [p3(o, r, m) for r in regs[:6] + ((v + 16, v + 32, v + 8), (129, 129, 0))
                                     for m in (((14, 1), (59, 3)), ((59, 3),), ((59, 0),), ((63, 1),))]
    if gen >= 11:
        yield "VOPD", 32, lambda o: [pack((26, 0x32), (22, 8), (17, o), (56, 8), (49, 4), (0, v + 16), (32, v + 17), (41, y))
                                     + m for m in ([], [0x12345678]) for y in (35, 0)]
        yield "VINTERP", 32, lambda o: [pack((24, 0xCD), (16, o), (0, 8), (32, v + 16), (41, v + 24), (50, v + 32))]
        yield "LDSDIR", 4, lambda o: [pack((24, 0xCE), (20, o), (0, 8))]
    if gen == 11 or gen == 12:
        yield "VOPDX", 16, lambda o: [pack((26, 0x32), (22, o), (17, 8), (56, 8), (49, 4), (0, v + 16), (9, 34), (32, v + 17))
                                      + m for m in ([], [0x12345678])]


def memory(isa, gen):
    acc = isa in ("GFX90A", "GFX942", "GFX950")
    ds = 17 if gen == 9 else 18
    gds = 16 if gen == 9 else 17
    yield "DS", 256, lambda o: [pack((26, 0x36), (ds, o), (32, a), (40, b), (48, c), (56, d), (gds, g)) for a in (2, 0)
                                for b in (16, 0) for c in (24, 0) for d in (8, 0) for g in (0, 1)]
    if gen == 12:
        for name, seg in (("FLAT", 0xEC), ("SCRATCH", 0xED), ("GLOBAL", 0xEE)):
            yield name, 256, (lambda seg: lambda o: [
                pack((24, seg), (14, o), (0, 124), (32, d), (55, x), (64, a), (72, 8), (49, s), (52, t)) for d in (8, 0)
                        for s in (0, 1)
                for x in (16, 0)
                for t in (0, 1) for a in (2, 0)])(seg)
        yield "MUBUF", 128, lambda o: [pack((26, 0x31), (14, o), (0, 16), (32, 8), (64, 2), (41, 8), (52, t), (72, 8), (62,
                1), (55, f))
                                       for t in (0, 1) for f in (0, 1)]
        yield "MTBUF", 16, lambda o: [pack((26, 0x31), (21, 1), (14, o), (0, 16), (32, 8), (64, 2), (41, 8), (72, 8), (62,
                1), (55, 1))]
        image = lambda o, m, r, t, a, n: pack((26, 0x34), (14, o), (22, m), (0, 1), (32, 8), (41, 16), (64, 0), (72, a[0]),
                                              (80, a[1]), (88, a[2]), (56, n), (4, r), (52, t))
        sample = lambda o, m, a, p: pack((26, 0x39), (14, o), (22, m), (0, 1), (32, 8), (41, 16), (55, p), (64, 0), (72, a[0]),
                                         (80, a[1]), (88, a[2]))
        addrs = ((1, 2, 3), (1, 2, 0), (1, 0, 0), (0, 0, 0))
        yield "MIMG", 256, lambda o: [image(o, m, r, t, a, n) for m in (15, 3, 1) for r in (0, 1) for t in (0, 1) for a in addrs
                                      for n in (0, 4)]
        yield "SAMPLE", 256, lambda o: [sample(o, m, a, p) for m in (15, 1) for a in addrs for p in (32, 0)]
        yield "EXP", 1, lambda o: [pack((26, 0x3E), (0, 15), (4, 12), (32, 1), (40, 2), (48, 3), (56, 4))]
        return
    off = 125 if gen == 10 else 124 if gen == 11 else 127
    segs = ((0, "FLAT"), (1, "SCRATCH"), (2, "GLOBAL"))
    segat = 16 if gen == 11 else 14
    glc = {9: 16, 10: 16, 11: 14}[gen]
    for seg, name in segs:
        yield name, 128, (lambda seg: lambda o: [
            pack((26, 0x37), (segat, seg), (18, o), (0, 8), (32, a), (40, x), (48, s), (56, d), (glc, g), (55, e))
            for s in (off, 16) + ((0,) if seg == 0 and gen == 9 else ()) for d in (8, 0) for x in (16, 0) for g in (0, 1)
                    for a in (2, 0) for e in ((0, 1) if gen == 11 else (0,))])(seg)
    if gen == 9:
        mub = lambda o, g, l: pack((26, 0x38), (18, o), (12, 1), (14, g), (16, l), (32, 2), (40, 8), (48, 4), (56, 16), (0, 8))
        yield "MUBUF", 128, lambda o: [mub(o, g, l) for g in (0, 1) for l in (0, 1)] + [pack((26, 0x38), (18, o), (32, 0))]
        yield "MTBUF", 16, lambda o: [pack((26, 0x3A), (15, o), (12, 1), (19, 1), (23, 1), (32, 2), (40, 8), (48, 4), (56,
                16), (0, 8))]
    elif gen == 10:
        mub = lambda o, g, l: pack((26, 0x38), (18, o), (12, 1), (14, g), (16, l), (32, 2), (40, 8), (48, 4), (56, 16), (0, 8))
        yield "MUBUF", 256, lambda o: [mub(o, g, l) for g in (0, 1) for l in (0, 1)] + [pack((26, 0x38), (18, o), (32, 0))]
        yield "MTBUF", 16, lambda o: [pack((26, 0x3A), (16, o & 7), (53, o >> 3), (12, 1), (19, 1), (32, 2), (40, 8), (48,
                4), (56, 16), (0, 8))]
    else:
        mub = lambda o, g: pack((26, 0x38), (18, o), (54, 1), (14, g), (32, 2), (40, 8), (48, 4), (56, 16), (0, 8))
        yield "MUBUF", 256, lambda o: [mub(o, g) for g in (0, 1)] + [pack((26, 0x38), (18, o), (32, 0))]
        yield "MTBUF", 16, lambda o: [pack((26, 0x3A), (15, o), (54, 1), (19, 1), (32, 2), (40, 8), (48, 4), (56, 16), (0, 8))]
    if gen == 11:
        img = lambda o, m, d, g, r, s: pack((26, 0x3C), (18, o), (8, m), (2, d), (14, g), (15, r), (32, 0), (40, 8), (48, 4),
                (58, s))
        yield "MIMG", 256, lambda o: [img(o, m, d, g, r, s) for m in (15, 3, 1) for d in (1,) for g in (0, 1) for r in (0,
                1) for s in (8, 0)]
    elif gen == 10:
        img = lambda o, m, d, g, r, s: pack((26, 0x3C), (18, o & 127), (0, o >> 7), (8, m), (3, d), (13, g), (15, r), (32,
                0), (40, 8), (48, 4), (53, s))
        yield "MIMG", 256, lambda o: [img(o, m, d, g, r, s) for m in (15, 3, 1) for d in (1,) for g in (0, 1) for r in (0,
                1) for s in (8, 0)]
    elif isa in ("GFX906", "GFX908", "GFX90A"):
        img = lambda o, m, g, u, s: pack((26, 0x3C), (18, o & 127), (0, o >> 7), (8, m), (13, g), (12, u), (32, 0), (40, 8),
                (48, 4), (53, s))
        yield "MIMG", 256, lambda o: [img(o, m, g, u, s) for m in (15, 3, 1) for g in (0, 1) for u in (0, 1) for s in (8, 0)]
    enc = 0x31 if gen == 9 else 0x3E
    yield "EXP", 1, lambda o: [pack((26, enc), (0, 15), (4, 12), (32, 1), (40, 2), (48, 3), (56, 4))]


def formats(isa):
    gen = GEN[isa]
    for part in (salu(gen), valu(gen), memory(isa, gen)):
        yield from part


def probe(isa):
    """{(format, opcode): (text, dwords)} for the first variant that LLVM accepts."""
    items, keys = [], []
    for fmt, top, make in formats(isa):
        for op in range(top):
            for words in make(op) if (fmt, op) != ("SOPP", 0) else ():  # the marker of llvm.py
                items.append(words)
                keys.append((fmt, op))
    texts = llvm.disassemble(CPUS[isa], items)
    if GEN[isa] == 12:  # true16 instructions are a feature there, and change how halves are written
        texts = [a or b for a, b in zip(texts, llvm.disassemble(CPUS[isa], items, "+real-true16"))]
    out = {("SOPP", 0): ("s_nop 0", [0xBF800000])}
    for key, words, text in zip(keys, items, texts):
        if text and (key not in out or prefer(text, out[key][0])):
            out[key] = (text, words)
    return out


def prefer(new, old):
    """Of two texts of one opcode the one that shows more operands (a returning atomic) is kept."""
    bad = "Invalid register"
    return (bad not in new, new.count(",")) > (bad not in old, old.count(","))


if __name__ == "__main__":
    import sys
    for isa in sys.argv[1:]:
        for (fmt, op), (text, words) in sorted(probe(isa).items()):
            print(isa, fmt, op, text, " ".join("%08x" % w for w in words), sep="\t")
