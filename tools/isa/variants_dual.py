"""VOPD: two operations in one instruction, both of which read before either writes."""
import eval as E
import number as N
from variants import Spec, pool_kind

LITERAL = 0x40490FDB


def text_of(manuals, arch, name):
    """(manual, key) of the operation that a half names; only one text describes the halves by their own names."""
    plain = name.replace("V_DUAL_", "V_")
    for a, fmt, n in ((arch, "VOPD", name), (arch, "VOP2", plain + "_E32"), (arch, "VOP1", plain + "_E32"), ("rdna4", "VOPD", name)):
        if (fmt, n) in manuals[a].sections:
            return manuals[a], (fmt, n)
    return None


def half(name, dst, s0, s1):
    base = name.lower()
    if "MOV" in name:
        return "%s v%d, v%d" % (base, dst, s0)
    if "FMAAK" in name:
        return "%s v%d, v%d, v%d, 0x%x" % (base, dst, s0, s1, LITERAL)
    if "FMAMK" in name:
        return "%s v%d, v%d, 0x%x, v%d" % (base, dst, s0, LITERAL, s1)
    return "%s v%d, v%d, v%d" % (base, dst, s0, s1)


def specs(arch, manuals, rows):
    names = [n for f, n in rows if f == "VOPD"]
    x_only = [n for n in names if "NC_U32" not in n and "LSHLREV" not in n and "AND_B32" not in n]
    out = []
    for i, y in enumerate(names):
        for j in range(2):
            x = x_only[(i * 3 + j * 5 + 1) % len(x_only)]
            out += pair(arch, manuals, x, y, j)
    for i, x in enumerate(x_only):
        out += pair(arch, manuals, x, names[(i * 2 + 5) % len(names)], 2)
    # each half reads what the other writes
    out += pair(arch, manuals, "V_DUAL_MOV_B32", "V_DUAL_MOV_B32", 3, (8, 9, 24, 9, 8, 25))
    out += pair(arch, manuals, "V_DUAL_ADD_F32", "V_DUAL_FMAC_F32", 3, (8, 9, 24, 9, 8, 25))
    return out


def pair(arch, manuals, x, y, var, regs=(8, 16, 24, 9, 17, 25)):
    if not text_of(manuals, arch, x) or not text_of(manuals, arch, y):
        return []
    s = Spec([])
    s.fmt, s.name, s.base, s.arch, s.wave, s.var = "VOPD", y, y.lower(), arch, 32, var
    s.x, s.y, s.regs, s.manuals = x, y, regs, manuals
    s.mode = 0x3F0 if arch == "rdna3" else 0x0F0
    s.texts = [half(x, *regs[:3]) + " :: " + half(y, *regs[3:])]
    return [s]


def evaluate(family, manual, fp8, s, text, code, pools):
    rows, ins = {}, []
    vcc = 0x5A0FF3C1
    for name, (dst, s0, s1) in ((s.x, s.regs[:3]), (s.y, s.regs[3:])):
        kind = "hs" if "F16" in name and "DOT" in name else "bs" if "BF16" in name else "u32" if "32" in name and "F32" not in name else "f32"
        for r, k in ((s0, kind), (s1, kind), (dst, "fs" if "DOT" in name else "f32")):
            if r not in rows:
                p = "%s.%d.%d" % (k, r % 7, s.var)
                rows[r] = pools.get(p)[:32]
                ins.append("v%d@%s" % (r, p))
    outs, loose = {}, {}
    for name, (dst, s0, s1) in ((s.x, s.regs[:3]), (s.y, s.regs[3:])):
        man, key = text_of(s.manuals, s.arch, name)
        m = E.Machine(man, fp8)
        m.mode["ieee"] = s.mode >> 9 & 1
        prog = man.__dict__.setdefault("programs", {}).setdefault(key, E.Parser(man.sections[key]).program())
        out = []
        loose[dst] = False
        for lane in range(32):
            m.start()
            m.regs = {"S0": E.vb(32, rows[s0][lane]), "S1": E.vb(32, rows[s1][lane]), "S2": E.vb(32, rows[dst][lane]),
                      "D0": E.vb(32, rows[dst][lane]), "VCC": E.vb(64, vcc), "laneId": E.vi(32, lane), "SIMM32": E.vb(32, LITERAL)}
            prog(m)
            out.append(m.regs["D0"].bits())
            loose[dst] |= m.loose_nan
        outs[dst] = out
    return "32 %s m=%x x=ffffffff c=%x %s | %s" % (code, s.mode, vcc, " ".join(ins), " ".join(
        "v%d:%s=%s" % (d, "f" if loose[d] else "e", "".join("%08x" % v for v in r)) for d, r in sorted(outs.items())))
