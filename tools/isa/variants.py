"""Which forms of an instruction are tried, with which operands, and what they must give."""
import math
import re

import eval as E
import number as N

# --- names -------------------------------------------------------------------------------------------------------------

RENAMED = {  # AMD's name in the text used for a family -> LLVM's name there
    "gfx9": {"V_MAD_MIX_F32": "v_fma_mix_f32", "V_MAD_MIXLO_F16": "v_fma_mixlo_f16", "V_MAD_MIXHI_F16": "v_fma_mixhi_f16"},
    "gfx10": {
        "V_FMAC_DX9_ZERO_F32": "v_fmac_legacy_f32", "V_MUL_DX9_ZERO_F32": "v_mul_legacy_f32",
        "V_FMA_DX9_ZERO_F32": "v_fma_legacy_f32", "V_CLZ_I32_U32": "v_ffbh_u32", "V_CTZ_I32_B32": "v_ffbl_b32",
        "V_CLS_I32": "v_ffbh_i32", "V_CVT_NEAREST_I32_F32": "v_cvt_rpi_i32_f32", "V_CVT_FLOOR_I32_F32": "v_cvt_flr_i32_f32",
        "S_CTZ_I32_B32": "s_ff1_i32_b32", "S_CTZ_I32_B64": "s_ff1_i32_b64", "S_CLZ_I32_U32": "s_flbit_i32_b32",
        "S_CLZ_I32_U64": "s_flbit_i32_b64", "S_CLS_I32": "s_flbit_i32", "S_CLS_I32_I64": "s_flbit_i32_i64",
        "S_AND_NOT1_B32": "s_andn2_b32", "S_AND_NOT1_B64": "s_andn2_b64", "S_OR_NOT1_B32": "s_orn2_b32",
        "S_OR_NOT1_B64": "s_orn2_b64", "V_CVT_PK_RTZ_F16_F32": "v_cvt_pkrtz_f16_f32",
        "V_CVT_PK_NORM_I16_F32": "v_cvt_pknorm_i16_f32", "V_CVT_PK_NORM_U16_F32": "v_cvt_pknorm_u16_f32",
        "V_CVT_PK_NORM_I16_F16": "v_cvt_pknorm_i16_f16", "V_CVT_PK_NORM_U16_F16": "v_cvt_pknorm_u16_f16",
        "V_DOT2ACC_F32_F16": "v_dot2c_f32_f16",
    },
}
for _a, _b in (("AND_NOT0", "andn1"), ("OR_NOT0", "orn1"), ("AND_NOT1", "andn2"), ("OR_NOT1", "orn2")):
    for _w in ("B32", "B64"):
        for _s in ("SAVEEXEC", "WREXEC"):
            RENAMED["gfx10"]["S_%s_%s_%s" % (_a, _s, _w)] = "s_%s_%s_%s" % (_b, _s.lower(), _w.lower())
for _t in ("F16", "F32", "F64"):
    RENAMED["gfx10"]["V_CMP_T_" + _t] = "v_cmp_tru_" + _t.lower()
    RENAMED["gfx10"]["V_CMPX_T_" + _t] = "v_cmpx_tru_" + _t.lower()

VALU = ("VOP1", "VOP2", "VOP3", "VOPC", "VOP3SD", "VOP3P", "VOPD")
SALU = ("SOP1", "SOP2", "SOPC", "SOPK")


def mnemonic(family, name):
    plain = re.sub(r"_E(32|64)$", "", name)
    if family == "gfx10":
        m = re.fullmatch(r"(GLOBAL|FLAT|BUFFER)_ATOMIC_(MIN|MAX|CMPSWAP)_F32", plain)
        if m:
            return "%s_atomic_f%s" % (m.group(1).lower(), m.group(2).lower())
        if plain.endswith("ATOMIC_CSUB_U32"):
            return plain[:-4].lower()
    return RENAMED.get(family, {}).get(plain, plain.lower())


def wanted(fmt, name):
    return fmt in VALU[:-1] or fmt in SALU


MATRIX = re.compile(r"MFMA|WMMA|SMFMAC|SWMMAC|ACCVGPR")
CONTROL = re.compile(r"^S_(GETPC|SETPC|SWAPPC|RFE|CALL|CBRANCH|GETREG|SETREG|VERSION|WAITCNT|BARRIER|GET_BARRIER|ALLOC|SLEEP|"
                     r"SENDMSG|SETVSKIP|SET_GPR|MOVREL|TRAP|INST_PREFETCH|SUBVECTOR)")


def left_out(arch, fmt, name, text):
    if MATRIX.search(name):
        return "matrix: described only by shape; has its own tests"
    if CONTROL.search(name):
        return "control: program counter, hardware registers or wave state"
    if "INTERP" in name:
        return "interpolation: reads parameters that compute kernels do not have"
    if "_SR_" in name:
        return "stochastic rounding: described only in words"
    if re.match(r"V_(NOP|PIPEFLUSH|CLREXCP|READFIRSTLANE_B32_E64|EXPORT)", name):
        return "no result"
    return None


OVERRIDE = {  # texts whose formula rounds where the instruction does not; the words of the manual hold
    "RNDNE_F16": "D0.f16 = rndne(S0.f16)", "RNDNE_F32": "D0.f32 = rndne(S0.f32)", "RNDNE_F64": "D0.f64 = rndne(S0.f64)",
    "FREXP_EXP_I32_F32": "D0.i32 = frexp_exp(S0.f32)", "FREXP_EXP_I32_F64": "D0.i32 = frexp_exp(S0.f64)",
    "FREXP_EXP_I16_F16": "D0.i16 = frexp_exp(S0.f16)", "LDEXP_F32": "D0.f32 = ldexp(S0.f32, S1.i32)",
    "LDEXP_F64": "D0.f64 = ldexp(S0.f64, S1.i32)", "LDEXP_F16": "D0.f16 = ldexp(S0.f16, S1.i16)",
    # the texts say sin(x * 2 pi) with a rounded product; the words say the sine of x turns
    "SIN_F32": "D0.f32 = sin_turns(S0.f32)", "COS_F32": "D0.f32 = cos_turns(S0.f32)",
    "SIN_F16": "D0.f16 = sin_turns(S0.f16)", "COS_F16": "D0.f16 = cos_turns(S0.f16)",
    # div_scale scales by 2^64 (2^128): what undoes it is that power, up or down by the size of the numerator; the 2^32 of the
    # text would not
    "DIV_FMAS_F32": "if VCC.u64[laneId] then D0.f32 = exponent(S2.f32) > 127 ? ldexp(fma(S0.f32, S1.f32, S2.f32), 64) : "
                    "ldexp(fma(S0.f32, S1.f32, S2.f32), -64) else D0.f32 = fma(S0.f32, S1.f32, S2.f32) endif",
    "DIV_FMAS_F64": "if VCC.u64[laneId] then D0.f64 = exponent(S2.f64) > 1023 ? ldexp(fma(S0.f64, S1.f64, S2.f64), 128) : "
                    "ldexp(fma(S0.f64, S1.f64, S2.f64), -128) else D0.f64 = fma(S0.f64, S1.f64, S2.f64) endif",
    "TRIG_PREOP_F64": "D0.f64 = trig_preop(S0.f64, S1.u32)",
    "CVT_OFF_F32_I4": "D0.f32 = i32_to_f32(i4_to_i32(S0[3 : 0].i4)) * 0.0625F",
}


def fn_frexp_exp(m, a):
    f = a.f
    if f.is_nan(a.n) or f.is_inf(a.n) or f.is_zero(a.n):
        return E.vi(32, 0)
    _, man, e = f.parts(a.n)
    return E.vi(32, man.bit_length() + e)


def turns(f):
    def g(m, a):
        x = N.to_float(a.f, a.n)
        if math.isnan(x) or math.isinf(x):
            return m.made(a.f, a.f.qnan)
        m.approximate = True
        x = math.fmod(x, 1.0)
        eighths = x * 8
        r = f(2 * math.pi * x)
        if eighths == int(eighths) and int(eighths) % 2 == 0:
            r = float(round(r))  # whole quarters are exact
        return m.made(a.f, N.from_float(a.f, r))
    return g


def two_over_pi(bits):
    """floor(2/pi * 2^bits); pi by Machin's formula."""
    one = 1 << (bits + 64)

    def arctan_inverse(n):
        term = total = one // n
        k, sign = 3, -1
        while term:
            term //= n * n
            total += sign * (term // k)
            k, sign = k + 2, -sign
        return total
    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return (2 * one * (1 << bits)) // pi


FRACTION = two_over_pi(1201)


def fn_trig_preop(m, a, n):
    """53 bits of 2/pi, from the place where bits that make whole turns end."""
    shift = (n.n & 31) * 53
    e = a.f.exponent(a.n)
    if e > 1077:
        shift += e - 1077
    part = FRACTION >> (1201 - 53 - shift) if shift <= 1148 else FRACTION << (shift - 1148)
    part &= (1 << 53) - 1
    scale = -53 - shift + (128 if e >= 1968 else 0)
    return E.vf(N.F64, N.F64.round_to(0, part, scale))


E.FUNCTIONS["trig_preop"] = fn_trig_preop
E.FUNCTIONS["sin_turns"] = turns(math.sin)
E.FUNCTIONS["cos_turns"] = turns(math.cos)
E.FUNCTIONS["rndne"] = E.fn_round("rndne")
E.FUNCTIONS["frexp_exp"] = fn_frexp_exp

# ULP a manual allows, or a<n>: absolute 2^-n
TOLERANCE = [
    (r"^[VS]_(S_)?(RCP|RCP_IFLAG|RSQ|SQRT|EXP|LOG)(_LEGACY)?_F32", "u1"), (r"^[VS]_(S_)?(RCP|RSQ|SQRT|EXP|LOG)_F16", "u1"),
    (r"^V_(RCP|RSQ|SQRT)_F64", "u536870912"), (r"^V_(SIN|COS)_F32", "a18"), (r"^V_(SIN|COS)_F16", "a9"),
]

ZEROES_HIGH = re.compile(r"^v_(cvt_f16_(f32|u16|i16)|(rcp|rsq|sqrt|log|exp|sin|cos|floor|ceil|trunc|rndne|fract|frexp_mant|add|sub|"
                         r"subrev|mul|max|min|ldexp|mac)_f16|frexp_exp_i16_f16|(lshlrev|lshrrev|ashrrev)_[bi]16|"
                         r"(add|sub|subrev|mul_lo)_u16|(max|min)_[ui]16|mad_legacy_.*|fma_legacy_f16|div_fixup_legacy_f16)$")
KEEPS_HIGH = re.compile(r"^v_(mad_f16|mad_u16|mad_i16|fma_f16|div_fixup_f16)$")

# --- specifications ------------------------------------------------------------------------------------------------------

FLOATS = {"F16": N.F16, "F32": N.F32, "F64": N.F64, "BF16": N.BF16, "PK2_F16": N.F16, "PK2_BF16": N.BF16, "PK2_F32": N.F32}
SRC_V = (16, 24, 32)
SRC_S = (16, 18, 20)
DST_V, DST_S, MASK_S = 8, 30, 34
MODE_DEFAULT = {"gfx9": 0x3F0, "gfx10": 0x3F0, "gfx11": 0x3F0, "gfx12": 0x0F0}


class Spec:
    def __init__(self, texts, **k):
        self.texts, self.code = texts, {}
        self.src = []             # per source: ("v", reg) ("s", reg) ("c", bits) ("m", sreg): a lane mask
        self.var = 0              # which pools
        self.neg = self.abs = self.opsel = 0
        self.opsel_hi = 7
        self.clamp, self.omod = False, 0
        self.mode = None
        self.exec_seed = None     # None: all lanes
        self.dpp = self.sdwa = None
        self.bitop = 0
        self.simm = None
        self.svals = None
        self.__dict__.update(k)


def reg(cls, n, dwords, half=None):
    if dwords > 1:
        return "%s[%d:%d]" % (cls, n, n + dwords - 1)
    return "%s%d%s" % (cls, n, half or "")


def fields(ops, ldexp=False):
    """(vdst, sdst, sources) of a row of the table; a row's optional literal is not listed there."""
    vdst = next((o for o in ops if o[0] in ("vdst", "vdsty", "vdstx")), None)
    sdst = next((o for o in ops if o[0] == "sdst"), None)
    src = []
    for i in range(3):
        o = next((o for o in ops if re.fullmatch(r"[vs]?src[xy]?%d" % i, o[0]) or o[0] == "ssrc%d" % i), None)
        if o:
            src.append(o)
    if vdst is not None and len(src) == 2 and src[0][1] == src[1][1] == vdst[1] == "F16" and ldexp:
        src[1] = (src[1][0], "I16", 16, src[1][3])  # the table has it as a float, for its constants' sake
    return vdst, sdst, src


def dwords(bits):
    return max(1, (bits + 31) // 32)


def src_reg(i, bits, cls):
    if cls == "v":
        return 96 if bits > 256 and i == 0 else 64 if bits > 256 else SRC_V[i]
    return SRC_S[i] if bits <= 64 else 24


def dst_reg(bits):
    return DST_V if bits <= 256 else 128


def has_half(family, bits):
    return family in ("gfx11", "gfx12") and bits == 16


CONSTS = {  # text, value by kind
    "f": [("1.0", 1.0), ("-4.0", -4.0), ("0.5", 0.5), ("-2.0", -2.0)],
    "i": [("7", 7), ("-16", -16), ("64", 64), ("1", 1)],
}


def constant(kind, bits, rng):
    """An inline constant that suits the kind: (text, bits) or None where its meaning is not plain."""
    if kind in ("F16", "F32", "F64") :
        t, v = rng.choice(CONSTS["f"])
        return t, N.from_float(FLOATS[kind], v)
    if kind in ("U32", "I32", "B32", "U16", "I16", "B16", "U64", "I64", "B64"):
        t, v = rng.choice(CONSTS["i"])
        return t, v & ((1 << bits) - 1)
    return None


def wave_mask(wave):
    return "vcc" if wave == 64 else "vcc_lo"


def sreg_mask(n, wave):
    return "s[%d:%d]" % (n, n + 1) if wave == 64 else "s%d" % n


def variants(family, fmt, name, base, ops, wave, rng, short):
    """short: the instruction has a 32-bit form too, whose vectors cover the plain operation."""
    if fmt in SALU:
        return salu_variants(family, fmt, name, base, ops, wave, rng)
    return valu_variants(family, fmt, name, base, ops, wave, rng, short and fmt in ("VOP3", "VOP3SD"))


NATIVE = {"gfx9": 64, "gfx10": 32, "gfx11": 32, "gfx12": 32}
CROSS = re.compile(r"READ|WRITELANE|PERMLANE|MBCNT")


def valu_variants(family, fmt, name, base, ops, wave, rng, lean):
    vdst, sdst, src = fields(ops, "LDEXP" in name)
    native = NATIVE[family]
    masks = any(o[1] == "M64" for o in ops) or fmt == "VOPC" or "_CO_" in name or "DIV_FMAS" in name or CROSS.search(name)
    if wave != native and not masks:
        return []
    plain = valu_spec(family, fmt, name, base, ops, wave, rng, {})
    if not plain:
        return []
    out = [plain]
    add = lambda k: out.append(valu_spec(family, fmt, name, base, ops, wave, rng, k))
    floats = [i for i, o in enumerate(src) if o[1] in FLOATS]
    float_dst = vdst is not None and vdst[1] in FLOATS
    if wave != native:
        plain.exec_seed = None if "PERMLANE" in name else 2
        return out
    if wave == 32 and not CROSS.search(name) and not lean:
        add({"var": 1})
    if "DIV_SCALE" in name:
        for v in (0, 1, 2, 3):
            add({"var": v, "same": 1 + v % 2})
        return out
    add({"var": 2, "exec_seed": 1, "scalar": True})
    if re.search("PERMLANEX?16_", name) and "SWAP" not in name:
        for x in filter(None, out):
            x.exec_seed = None  # the texts say nothing of sources that are off ...
        add({"var": 2, "exec_seed": 1, "raw_opsel": 1})  # ... and op_sel[0] fetches them
        add({"var": 3, "exec_seed": 2, "raw_opsel": 1})
    if CROSS.search(name):
        return [x for x in out if x]
    if not lean:
        add({"var": 3, "const": True, "exec_seed": 3})
    if fmt == "VOP3P":
        if "PK_" in name or "DOT" in name:
            if "PK_" in name and "MOV" not in name:
                add({"var": 1, "opsel": rng.randint(1, 7), "opsel_hi": rng.randint(0, 6)})
            if floats:
                add({"var": 2, "neg_lo": rng.randint(1, 7), "neg_hi": rng.randint(1, 7)})
            if "IU" in name:
                add({"var": 2, "neg_lo": 3})
                add({"var": 2, "neg_lo": 1})
            if "MUL_LO" not in name:
                add({"var": 3, "clamp": True})
        if "MOV_B32" in name:
            add({"var": 1, "opsel": 1, "opsel_hi": 7})
            add({"var": 1, "opsel": 2, "opsel_hi": 7})
        if "MIX" in name:
            for k in ({"opsel": 0, "opsel_hi": 7}, {"opsel": 5, "opsel_hi": 7}, {"opsel": 2, "opsel_hi": 3, "neg_lo": 5},
                      {"opsel": 0, "opsel_hi": 0, "neg_hi": 6, "neg_lo": 1}, {"opsel": 1, "opsel_hi": 1, "clamp": True}):
                add(dict(k, var=1))
        return [x for x in out if x]
    if fmt in ("VOP3", "VOP3SD"):
        if floats and "DIV_SCALE" not in name and "BITOP" not in name:
            add({"var": 1, "neg": rng.choice([m for m in range(1, 8) if m & ((1 << len(src)) - 1)]), "abs": rng.randint(0, 7)})
            add({"var": 3, "neg": rng.randint(0, 7), "abs": rng.randint(1, 7)})
        if float_dst and "PK_FMAC" not in name:
            add({"var": 0, "clamp": True})
            if "BF16" not in name:
                add({"var": 3, "omod": rng.randint(1, 3)})
        elif "MUL" not in name and vdst is not None and vdst[1] in ("U32", "I32", "U16", "I16") and "CMP" not in name and not floats:
            add({"var": 0, "clamp": True})
        if not name.startswith("V_S_") and any(o[2] == 16 for o in src) or vdst is not None and vdst[2] == 16:
            add({"var": 1, "half": rng.randint(1, 7)})
            add({"var": 2, "half": 8 | rng.randint(0, 7)})
        if "BITOP3" in name:
            for b in (0x96, 0xE8, 0xCA, 0x1B):
                add({"var": 1, "bitop": b})
        if "FP8" in name or "BF8" in name or "FP4" in name:
            for o in (4, 8, 12) if byte_dst(name) else (1, 2, 3) if "SCALEF32_F16" in name else (1, 2, 8, 3):
                add({"var": 1, "raw_opsel": o})
        if MODES.match(name):
            add({"var": 1, "fpmode": "round"})
            add({"var": 0, "fpmode": "flush"})
        elif floats and re.match(r"V_(MIN|MAX)", name) and family != "gfx12":
            add({"var": 0, "fpmode": "ieee0"})
    if fmt in ("VOP1", "VOP2"):
        if MODES.match(name):
            add({"var": 1, "fpmode": "round"})
            add({"var": 0, "fpmode": "flush"})
        for d in rng.sample(DPP[family], 2):
            add({"var": 1, "dpp": d, "exec_seed": 4})
    if fmt in ("VOP3", "VOPC") and family in ("gfx11", "gfx12"):
        add({"var": 2, "dpp": rng.choice(DPP[family]), "exec_seed": 4})
        if floats and fmt == "VOP3":
            add({"var": 1, "dpp": rng.choice(DPP[family]), "exec_seed": 4, "neg": rng.randint(1, 7), "abs": rng.randint(0, 7)})
    if fmt in ("VOP1", "VOP2", "VOPC") and family in ("gfx9", "gfx10"):
        add({"var": 1, "sdwa": True})
        add({"var": 2, "sdwa": True})
    return [x for x in out if x]


def byte_dst(name):
    """op_sel[3:2] names the byte that is written."""
    return re.search(r"PK_FP4_", name) is not None


MODES = re.compile(r"V_(ADD|SUB|SUBREV|MUL|FMA|FMAC|FMAAK|FMAMK)_F(16|32|64)(_E32|_E64)?$|V_CVT_F(16|32)_F(32|64)(_E32|_E64)?$|"
                   r"V_CVT_F32_[IU]32")

# controls: (text, function of lane -> source lane or None, what must be 0 to 31)
def _row(fn):
    return lambda l, n: None if fn(l & 15) is None else (l & ~15) | fn(l & 15)


_COMMON = [
    ("quad_perm:[1,0,3,2]", lambda l, n: l ^ 1), ("quad_perm:[3,3,0,1]", lambda l, n: (l & ~3) | (3, 3, 0, 1)[l & 3]),
    ("row_shl:1", _row(lambda i: i + 1 if i + 1 < 16 else None)), ("row_shl:7", _row(lambda i: i + 7 if i + 7 < 16 else None)),
    ("row_shr:3", _row(lambda i: i - 3 if i >= 3 else None)), ("row_shr:15", _row(lambda i: i - 15 if i >= 15 else None)),
    ("row_ror:5", _row(lambda i: (i - 5) & 15)), ("row_mirror", _row(lambda i: 15 - i)),
    ("row_half_mirror", _row(lambda i: (i & 8) | 7 - (i & 7))),
]
_GFX9 = _COMMON + [
    ("wave_shl:1", lambda l, n: l + 1 if l + 1 < 64 else None), ("wave_rol:1", lambda l, n: (l + 1) & 63),
    ("wave_shr:1", lambda l, n: l - 1 if l else None), ("wave_ror:1", lambda l, n: (l - 1) & 63),
    ("row_bcast:15", lambda l, n: (l & ~15) - 1 if l >= 16 else None),
    ("row_bcast:31", lambda l, n: 31 if l >= 32 else None), ("row_newbcast:3", lambda l, n: (l & ~15) | 3),
]
_GFX10 = _COMMON + [
    ("row_share:6", lambda l, n: (l & ~15) | 6), ("row_xmask:9", lambda l, n: l ^ 9),
    ("dpp8:[7,6,5,4,3,2,1,0]", lambda l, n: l ^ 7), ("dpp8:[0,0,2,5,1,7,3,3]", lambda l, n: (l & ~7) | (0, 0, 2, 5, 1, 7, 3, 3)[l & 7]),
]
DPP = {"gfx9": _GFX9, "gfx10": _GFX10, "gfx11": _GFX10, "gfx12": _GFX10}


def pool_kind(name, i, kind, bits, s):
    """The pool of a vector source."""
    if "LDEXP" in name and i == 1:
        return "sh"
    if "DOT" in name:
        if "FP8" in name or "BF8" in name:
            return "p8" if i < 2 else "fs"
        if "BF16" in name:
            return "bs" if kind != "F32" else "fs"
        if "F16" in name:
            return "hs" if kind != "F32" else "fs"
    if ("PK_U8_F32" in name or "PKACCUM_U8" in name) and i == 0:
        return "fi"
    if re.search(r"_(SIN|COS)_F", name):
        return "trig" if "F32" in name else "trigh"
    if "MIX" in name:
        return "h" if s.opsel_hi >> i & 1 else "near" if "MAD" in name else "f32"
    if "SCALEF32" in name and kind == "F32" and bits == 32 and not (i == 0 or (i == 1 and name.endswith(("FP8_F32", "BF8_F32", "FP4_F32")))):
        return "sc"
    if "PERMLANE" in name and "VAR" in name and i == 1:
        return "u32"
    if kind in ("F32", "PK2_F32", "PK16_F32", "PK32_F32"):
        return "f32"
    if kind == "F64":
        return "f64"
    if kind in ("F16", "PK2_F16", "PK32_F16"):
        return "h"
    if kind in ("BF16", "PK2_BF16", "PK32_BF16"):
        return "bh"
    if kind in ("U64", "I64", "B64"):
        return "u64"
    if bits == 16 or kind in ("PK2_U16", "PK2_I16"):
        return "w"
    if bits == 128:
        return "q128"
    return "u32"


def valu_spec(family, fmt, name, base, ops, wave, rng, k):
    vdst, sdst, src = fields(ops, "LDEXP" in name)
    s = Spec([])
    s.var, s.exec_seed = k.get("var", 0), k.get("exec_seed")
    s.clamp, s.omod, s.bitop = k.get("clamp", False), k.get("omod", 0), k.get("bitop", 0)
    s.neg, s.abs = k.get("neg", 0), k.get("abs", 0)
    s.neg_lo, s.neg_hi = k.get("neg_lo", 0), k.get("neg_hi", 0)
    s.opsel, s.opsel_hi = k.get("opsel", 0), k.get("opsel_hi", 7 if "MIX" not in name else 0)
    if "BITOP3" in name and not s.bitop:
        s.bitop = 0x6A
    s.raw_opsel = k.get("raw_opsel", 0)
    s.half = k.get("half", 0)
    for i, o in enumerate(src):
        if o[2] != 16:
            s.half &= ~(1 << i)
    if vdst is None or vdst[2] != 16 or re.search("FP8|BF8|FP4", name):
        s.half &= 7
    if k.get("half") and not s.half or s.half and "SCALEF32" in name:
        return None
    s.dpp, s.sdwa = k.get("dpp"), None
    mode = MODE_DEFAULT[family]
    if s.omod:
        mode &= ~0x2F0  # output modifiers need IEEE off and output denormals off
    fp = k.get("fpmode")
    s.fpflush = fp == "flush"
    if fp == "round":
        mode |= rng.choice([0x5, 0xA, 0xF])
    elif fp == "flush":
        mode &= ~0xF0
    elif fp == "ieee0":
        mode &= ~0x200
    s.mode = mode
    n = len(src)
    if vdst is None and fmt != "VOPC":
        return None
    # the operands' places
    scalar_at = None
    if k.get("scalar") or k.get("const"):
        free = [i for i, o in enumerate(src) if o[3].startswith(("SRC", "SSRC")) and o[3] != "SRC_VGPR" and o[1] != "M64"]
        if fmt in ("VOP1", "VOP2", "VOPC"):
            free = [i for i in free if i == 0]
        elif any(o[1] == "M64" for o in src) or fmt == "VOP3P" and k.get("const"):
            free = []
        if not free:
            return None
        scalar_at = rng.choice(free)
    texts = []
    for i, (field, kind, bits, cls) in enumerate(src):
        if kind == "M64":
            s.src.append(("m", MASK_S))
            texts.append(sreg_mask(MASK_S, wave))
            continue
        if cls.startswith("SSRC") or name.startswith("V_S_") or cls in ("SREG", "SSRC_LANESEL"):
            s.src.append(("s", SRC_S[i]))
            texts.append(reg("s", SRC_S[i], dwords(bits)))
            continue
        if i == scalar_at:
            c = constant(kind, bits, rng) if k.get("const") else None
            if k.get("const") and not c:
                return None
            if c:
                s.src.append(("c", c[1]))
                texts.append(c[0])
            else:
                s.src.append(("s", SRC_S[i]))
                texts.append(reg("s", SRC_S[i], dwords(bits)))
            continue
        r = src_reg(k["same"] if i == 0 and "same" in k else i, bits, "v")
        s.src.append(("v", r))
        half = (".h" if s.half >> i & 1 else ".l") if has_half(family, bits) and fmt != "VOP3P" else ""
        texts.append(reg("v", r, dwords(bits), half))
    # modifiers
    for i in range(n):
        if src[i][1] in ("F16", "F32", "F64", "BF16") and fmt != "VOP3P" and s.src[i][0] == "v":
            if s.abs >> i & 1:
                texts[i] = "|%s|" % texts[i]
            if s.neg >> i & 1:
                texts[i] = "-" + texts[i]
        else:
            s.neg &= ~(1 << i)
            s.abs &= ~(1 << i)
    s.neg &= (1 << n) - 1
    s.abs &= (1 << n) - 1
    if (k.get("neg") or k.get("abs")) and not (s.neg or s.abs):
        return None
    tail = ""
    bracket = lambda v: "[%s]" % ",".join(str(v >> i & 1) for i in range(n))
    if fmt == "VOP3P" and not MATRIX.search(name):
        if s.opsel & ((1 << n) - 1) or "MIX" in name:
            tail += " op_sel:" + bracket(s.opsel)
        if s.opsel_hi & ((1 << n) - 1) != (1 << n) - 1 or "MIX" in name:
            tail += " op_sel_hi:" + bracket(s.opsel_hi)
        if s.neg_lo:
            tail += " neg_lo:" + bracket(s.neg_lo)
        if s.neg_hi:
            tail += " neg_hi:" + bracket(s.neg_hi)
    if s.bitop:
        tail += " bitop3:0x%x" % s.bitop
    if s.raw_opsel:
        bits = [0, 1] if "PERMLANE" in name else range(4) if byte_dst(name) else list(range(n)) + [3]
        tail += " op_sel:[%s]" % ",".join(str(s.raw_opsel >> i & 1) for i in bits)
    if s.half and family in ("gfx9", "gfx10"):
        tail += " op_sel:[%s]" % ",".join(str(s.half >> i & 1) for i in list(range(n)) + [3])
    if s.clamp:
        tail += " clamp"
    if s.omod:
        tail += (" mul:2", " mul:4", " div:2")[s.omod - 1]
    # destinations
    dst = []
    s.dst = None
    if vdst is not None:
        _, kind, bits, cls = vdst
        if kind == "M64" or (cls in ("SREG", "SDST", "EXEC") and bits == 64 and "CMP" in name):
            s.dst = ("mask", DST_S)
            if "CMPX" in name and family != "gfx9":
                s.dst = ("exec", 0)
            else:
                dst.append(sreg_mask(DST_S, wave))
        elif cls.startswith("SREG") or cls == "SDST":
            s.dst = ("s", DST_S)
            dst.append(reg("s", DST_S, dwords(bits)))
        else:
            r = dst_reg(bits)
            s.dst = ("v", r)
            half = (".h" if s.half & 8 else ".l") if has_half(family, bits) else ""
            dst.append(reg("v", r, dwords(bits), half))
    s.sdst = None
    if fmt == "VOPC":
        s.dst = ("mask", "vcc")
        if "CMPX" in name and family != "gfx9":
            s.dst = ("exec", 0)
        else:
            dst.append(wave_mask(wave))
    if fmt == "VOP3SD":
        s.sdst = DST_S
        dst.append(sreg_mask(DST_S, wave))
    s.vcc_io = fmt == "VOP2" and ("_CO_" in name)
    if s.vcc_io:
        dst.append(wave_mask(wave))
        s.sdst = "vcc"
        if "CI" in name or "C_CO" in name or "BREV_CO" in name or "B_CO" in name:
            texts.append(wave_mask(wave))
    if fmt == "VOP2" and "CNDMASK" in name:
        texts.append(wave_mask(wave))
    s.simm32 = None
    if re.search(r"(FMA|MAD)(MK|AK)", name):
        s.simm32 = 0x4248 if "F16" in name else 0x40490FDB
        texts.insert(1 if "MK" in name else 2, "0x%x" % s.simm32)
    args = ", ".join(dst + texts)
    if s.dpp:
        if fmt not in ("VOP1", "VOP2", "VOPC", "VOP3") or s.sdst or re.search("SWAP|READ|PERM|MOVREL|(FMA|MAD)(MK|AK)", name):
            return None
        s.bound, s.rowm, s.bankm, s.fi = rng.random() < 0.5, 0xF, 0xF, False
        s.is_dpp8 = s.dpp[0].startswith("dpp8")
        ctl = s.dpp[0]
        mask_result = s.dst is not None and s.dst[0] != "v"
        if mask_result:
            s.bound = True  # a bit of a lane that is masked off is not defined
        if not s.is_dpp8:
            if rng.random() < 0.4 and not mask_result:
                s.rowm, s.bankm = rng.choice([(0xF, 0x5), (0xA, 0xF), (0x3, 0xE)])
            ctl += " row_mask:0x%x bank_mask:0x%x" % (s.rowm, s.bankm)
            if s.bound:
                ctl += " bound_ctrl:1"
            if family != "gfx9" and rng.random() < 0.4:
                s.fi = True
                ctl += " fi:1"
        else:
            s.bound = True
            if rng.random() < 0.5:
                s.fi = True
                ctl += " fi:1"
        if fmt == "VOP3":
            s.texts = ["%s_e64_dpp %s%s %s" % (base, args, tail, ctl)]
        else:
            s.texts = ["%s_dpp %s %s" % (base, args, ctl)]
        if has_half(family, 16):
            s.texts.append(re.sub(r"\.[lh]\b", "", s.texts[0]))
        return s
    if k.get("sdwa"):
        return sdwa_spec(family, fmt, name, base, src, vdst, s, dst, texts, wave, rng)
    suffix = {"VOP1": "_e32", "VOP2": "_e32", "VOPC": "_e32", "VOP3": "_e64", "VOP3SD": "_e64", "VOP3P": ""}[fmt]
    if s.simm32 is not None:
        suffix = ""
    s.texts = [base + suffix + " " + args + tail]
    if suffix == "_e64":
        s.texts.append(base + " " + args + tail)  # has only this form
    if has_half(family, 16) and not s.half:
        s.texts += [re.sub(r"\.[lh]\b", "", t) for t in s.texts]
    return s


def sdwa_spec(family, fmt, name, base, src, vdst, s, dst, texts, wave, rng):
    if s.simm32 is not None or re.search("SWAP|READ|PERM|MOVREL|DOT|_F64|_I64|_U64|PK_F|NOP|MOV_B64", name) or any(o[2] > 32 for o in src):
        return None
    if any(p[0] != "v" for p in s.src):
        return None
    narrow = any(o[2] == 16 for o in src)
    sel = []
    for i, o in enumerate(src):
        if o[1] in ("F32", "F16"):
            sel.append(rng.choice([4, 5, 6]) if o[1] == "F16" else 6)
        else:
            sel.append(rng.choice([0, 1, 2, 3, 4, 5, 6]))
    dsel = 6 if fmt == "VOPC" or vdst[1] == "F32" else rng.choice([4, 5, 6] if vdst[2] == 16 else [0, 1, 2, 3, 4, 5, 6])
    unused = rng.choice([0, 2] if vdst is not None and vdst[1] in FLOATS else [0, 1, 2])
    sext = [o[1] in ("I32", "I16") and x != 6 and rng.random() < 0.6 for o, x in zip(src, sel)]
    if "FP8" in name or "BF8" in name:
        sel, dsel = [rng.choice([0, 1, 2, 3]) if "PK" not in name else rng.choice([4, 5])], 6
    s.sdwa = (sel, sext, dsel, unused)
    names = ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"]
    t = list(texts)
    for i in range(len(src)):
        if sext[i]:
            t[i] = "sext(%s)" % t[i]
    ctl = ""
    if fmt != "VOPC":
        ctl += " dst_sel:%s dst_unused:%s" % (names[dsel], ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")[unused])
    ctl += " src0_sel:" + names[sel[0]]
    if len(sel) > 1:
        ctl += " src1_sel:" + names[sel[1]]
    if fmt == "VOPC" and "CMPX" in name and family == "gfx10":
        dst = []
    s.texts = ["%s_sdwa %s%s" % (base, ", ".join(dst + t), ctl)]
    del narrow
    return s


def salu_variants(family, fmt, name, base, ops, wave, rng):
    vdst, sdst, src = fields(ops, "LDEXP" in name)
    if wave != NATIVE[family] and not ("EXEC" in name and "B64" in name):
        return []
    if wave == 32 and "EXEC" in name and "B64" in name:
        return []
    if "EXEC" in name and "B32" in name and wave == 64:
        return []
    out = []
    values32 = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x8000, 31, 32, 33, 0x00100008, 0x12345678, 0x55555555]
    values64 = [0, 1, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0x100000000, 0xFFFFFFFF, 0x0123456789ABCDEF]
    from operands import F16, F32
    for j in range(10 if src else 6):
        s = Spec([])
        s.var, s.salu = j, True
        s.svals = []
        texts = []
        for i, (field, kind, bits, cls) in enumerate(src):
            if kind == "F32":
                v = F32[(j * 3 + i * 7) % len(F32)] if j < 7 else N.from_float(N.F32, rng.uniform(-99, 99))
            elif kind in ("F16", "PK2_F16") or "F16" in kind:
                v = F16[(j * 3 + i * 7) % len(F16)] | rng.getrandbits(16) << 16
            elif bits == 64:
                v = rng.choice(values64) if rng.random() < 0.6 else rng.getrandbits(64)
            else:
                v = rng.choice(values32) if rng.random() < 0.6 else rng.getrandbits(32)
            c = None
            if j == 4 and i == 0:
                c = constant(kind, bits, rng)
            if j == 5 and i == len(src) - 1 and bits == 32 and kind in ("U32", "I32", "B32", "F32"):
                c = ("0x%x" % (0x12345 + rng.getrandbits(20)), None)
                c = (c[0], int(c[0], 16))
            if c and cls.startswith("SSRC"):
                s.src.append(("c", c[1]))
                texts.append(c[0])
                s.svals.append(c[1])
            else:
                s.src.append(("s", SRC_S[i]))
                texts.append(reg("s", SRC_S[i], dwords(bits)))
                s.svals.append(v)
        s.scc = rng.getrandbits(1)
        s.exec = rng.choice([(1 << wave) - 1, rng.getrandbits(wave), 0xF0F0F0F0F0F0F0F0 & ((1 << wave) - 1)])
        s.old = rng.getrandbits(64)
        s.simm = rng.choice([0, 1, -1, 0x7FFF, -0x8000, rng.randint(-32768, 32767)])
        s.mode = MODE_DEFAULT[family]
        s.simm32 = None
        dst = []
        s.dst = None
        if fmt != "SOPC" and sdst is not None:
            s.dst = ("s", DST_S)
            dst.append(reg("s", DST_S, dwords(sdst[2])))
        if fmt == "SOPK":
            if rng.random() < 0.5 and "CMPK" in name:
                s.old = s.simm & 0xFFFFFFFF if not name.endswith("U32") else s.simm & 0xFFFF
            texts.append("0x%x" % (s.simm & 0xFFFF))
        if re.search("FMAMK|FMAAK", name):
            s.simm32 = 0x40490FDB
            texts.insert(1 if "MK" in name else 2, "0x%x" % s.simm32)
        s.texts = [base + " " + ", ".join(dst + texts)]
        out.append(s)
    return out


# --- evaluation ----------------------------------------------------------------------------------------------------------

def element_formats(kind):
    """(format, how many) of a float result."""
    f = FLOATS.get(kind)
    return (f, 2 if kind.startswith("PK2") else 1) if f else None


def map_elements(bits, fmt, n, fn):
    out = 0
    for i in range(n):
        out |= fn(bits >> fmt.width * i & ((1 << fmt.width) - 1)) << fmt.width * i
    return out


def clamp_float(f, x):
    if f.is_nan(x):
        return 0
    if f.sign(x):
        return 0
    one = N.from_float(f, 1.0)
    return one if N.compare(f, x, one) > 0 else x


def omod_float(f, x, omod):
    if f.is_nan(x) or f.is_inf(x):
        return x
    if f.is_zero(x) or f.is_denormal(x):
        return 0
    r = N.ldexp(f, x, (0, 1, 2, -1)[omod])
    return 0 if f.is_denormal(r) else r


def program(manual, key, name):
    cache = manual.__dict__.setdefault("programs", {})
    if key not in cache:
        text = manual.sections[key]
        plain = re.sub(r"^[VS]_|_E(32|64)$", "", name)
        text = OVERRIDE.get(plain, text)
        if "PK_MOV_B32" in name:
            text = re.sub(r"S([01])\.u32\[", r"S\1[", text)  # a part of 64 bits
        if "DIV_FIXUP_LEGACY_F16" in name:
            text = manual.sections["VOP3", "V_DIV_FIXUP_F16"]  # the same, but for the high half
        if "MAD_MIX" in name:
            text = text.replace("in[0] * in[1] + in[2]", "fma(in[0], in[1], in[2])")
        cache[key] = E.Parser(text).program()
    return cache[key]


def machine(manual, fp8, s):
    m = E.Machine(manual, fp8)
    m.mode = {"round32": s.mode & 3, "round64": s.mode >> 2 & 3, "ieee": s.mode >> 9 & 1, "dx10": s.mode >> 8 & 1}
    return m


def evaluate(family, manual, fp8, s, text, code, pools):
    if getattr(s, "salu", False):
        return evaluate_salu(family, manual, fp8, s, code)
    return evaluate_valu(family, manual, fp8, s, text, code, pools)


def evaluate_salu(family, manual, fp8, s, code):
    m = machine(manual, fp8, s)
    m.start()
    _, sdst, src = fields(s.ops, "LDEXP" in s.name)
    prog = program(manual, (s.fmt, s.name), s.name)
    bits = sdst[2] if sdst else 32
    old = s.old & ((1 << bits) - 1)
    m.regs = {"SCC": E.vu(1, s.scc), "EXEC": E.vb(64, s.exec), "EXEC_LO": E.vb(32, s.exec), "D0": E.vb(max(bits, 32), old)}
    if sdst is None:
        m.regs["D0"] = E.vb(64, 0)
    for i, (v, o) in enumerate(zip(s.svals, src)):
        m.regs["S%d" % i] = E.vb(max(o[2], 32), v & ((1 << max(o[2], 32)) - 1))
    if s.fmt == "SOPK":
        imm = E.vb(16, s.simm)
        m.regs["SIMM16"] = imm
        if "CMPK" in s.name:
            m.regs["S0"], m.regs["S1"] = E.vb(32, old), imm
        else:
            m.regs["S0"] = imm
    if s.simm32 is not None:
        m.regs["SIMM32"] = E.vb(32, s.simm32)
    before = dict(m.regs)
    prog(m)
    if m.doubtful:
        return None
    ins = ["m=%x" % s.mode, "x=%x" % s.exec, "k=%d" % s.scc]
    for p, v, o in zip(s.src, s.svals, src):
        if p[0] == "s":
            for d in range(dwords(o[2])):
                ins.append("s%d=%x" % (p[1] + d, v >> 32 * d & 0xFFFFFFFF))
    outs = []
    cls = "e"
    if sdst is not None:
        f = FLOATS.get(sdst[1])
        if m.loose_nan and f:
            cls = {16: "h", 32: "f"}[f.width]
        for d in range(dwords(bits)):
            ins.append("s%d=%x" % (DST_S + d, old >> 32 * d & 0xFFFFFFFF))
            new = m.regs["D0"].bits() >> 32 * d & 0xFFFFFFFF
            if sdst[2] == 16:
                cls = "l" if not m.loose_nan else "lh"
            outs.append("s%d%s=%x" % (DST_S + d, "" if cls == "e" else ":" + cls, new))
    outs.append("k=%d" % m.regs["SCC"].n)
    if m.regs["EXEC"].n != before["EXEC"].n or "EXEC" in s.name:
        ex = m.regs["EXEC"].bits()
        outs.append("x=%x" % (ex & ((1 << s.wave) - 1)))
    return "%d %s %s | %s" % (s.wave, code, " ".join(ins), " ".join(outs))


def lanes_of(s, seed):
    import random
    full = (1 << s.wave) - 1
    if seed is None:
        return full
    r = random.Random("exec %s %s %d" % (s.base, s.fmt, seed))
    return r.getrandbits(s.wave) | 1 << r.randrange(s.wave)


def evaluate_valu(family, manual, fp8, s, text, code, pools):
    import random
    vdst, sdst, src = fields(s.ops, "LDEXP" in s.name)
    half_text = re.search(r"v\d+\.[lh]", text) is not None
    rng = random.Random("state %s %s %d" % (s.base, s.fmt, s.var))
    rows, ins, sregs = {}, [], {}
    wave = s.wave

    def give(r, name, n):
        """Rows of a pool from register r."""
        values = pools.get(name)
        for d in range(n):
            rows[r + d] = [v >> 32 * d & 0xFFFFFFFF for v in values[:wave]]
        ins.append("v%d@%s" % (r, name))

    order = sorted(range(len(src)), key=lambda i: -i) if "DIV_SCALE" in s.name else range(len(src))
    for i in order:
        p, o = s.src[i], src[i]
        _, kind, bits, cls = o
        if p[0] == "v":
            pk = pool_kind(s.name, i, kind, bits, s)
            n = dwords(bits)
            if p[1] in rows:
                continue
            if s.fpflush and pk in ("f32", "h", "f64"):
                pk = "d" + pk
            if pk in ("df64", "f64", "u64") or (pk == "q128"):
                give(p[1], "%s.%d.%d" % (pk, i, s.var), n)
            else:
                for d in range(n):
                    give(p[1] + d, "%s.%d.%d" % (pk, (i + d) % 7 if n > 1 else i, s.var), 1)
        elif p[0] == "s":
            pk = pool_kind(s.name, i, kind, bits, s)
            v = pools.get("%s.%d.%d" % (pk, i, s.var))[rng.randrange(64)]
            if "LANESEL" in cls:
                v = rng.randrange(wave)
            for d in range(dwords(bits)):
                sregs[p[1] + d] = v >> 32 * d & 0xFFFFFFFF
        elif p[0] == "m":
            v = rng.getrandbits(wave)
            sregs[p[1]] = v & 0xFFFFFFFF
            sregs[p[1] + 1] = v >> 32
    vcc = rng.getrandbits(wave)
    exec_mask = lanes_of(s, s.exec_seed)
    n_dst = dwords(vdst[2]) if vdst is not None and s.dst[0] == "v" else 0
    wide_accumulate = re.search("FMAC|MAC_|DOT.*C_|DOT2ACC", s.name) is not None
    for d in range(n_dst):
        kind = "u32"
        if wide_accumulate and n_dst == 1:
            kind = pool_kind(s.name, 2, vdst[1], vdst[2], s)
        if n_dst == 2 and wide_accumulate:
            give(s.dst[1], "f64.2.%d" % s.var, 2)
            break
        give(s.dst[1] + d, "%s.%d.%d" % (kind, 4 + d % 2, s.var), 1)
    prog = program(manual, (s.fmt, s.name), s.name)
    wave_level = re.search(r"VGPR\[(?!laneId)", manual.sections[s.fmt, s.name]) is not None
    flush = s.mode & 0xF0 == 0
    ctx = Context(family, manual, fp8, s, src, vdst, rows, sregs, vcc, prog, wave, flush, half_text)
    if re.match("V_(SWAP|MOVREL)", s.name):
        return ctx.run_moves(exec_mask, code, ins, give)
    if wave_level:
        return ctx.run_wave(exec_mask, code, ins)
    return ctx.run_lanes(exec_mask, code, ins)


class Context:
    def __init__(self, family, manual, fp8, s, src, vdst, rows, sregs, vcc, prog, wave, flush, half_text):
        self.__dict__.update(locals())
        self.m = machine(manual, fp8, s)

    def base_regs(self, exec_mask, lane):
        s = self.s
        w32 = self.wave == 32
        r = {"EXEC": E.vb(64, exec_mask), "EXEC_LO": E.vb(32, exec_mask), "VCC": E.vb(64, self.vcc), "SCC": E.vu(1, 0),
             "laneId": E.vi(32, lane), "WAVE32": E.vbool(w32), "WAVE64": E.vbool(not w32), "wave32": E.vbool(w32),
             "D1": E.vb(64, 0), "OPSEL": E.vb(4, s.raw_opsel or s.opsel or s.half), "OPSEL_HI": E.vb(3, s.opsel_hi),
             "NEG": E.vb(3, s.neg_lo), "INST.OMOD": E.vb(2, s.bitop >> 6), "INST.ABS": E.vb(3, s.bitop >> 3),
             "INST.NEG": E.vb(3, s.bitop), "SDWA_SRC0_SEL": E.vb(3, s.sdwa[0][0] if s.sdwa else 6)}
        for i in range(4):
            r["BYTE%d" % i] = E.vb(3, i)
        r["WORD1"] = E.vb(3, 5)
        if s.simm32 is not None:
            r["SIMM32"] = r["SIMM16"] = E.vb(32, s.simm32)
        for i, p in enumerate(s.src):
            if p[0] == "v":
                r["SRC%d" % i] = E.vu(32, p[1])
        if s.dst and s.dst[0] == "v":
            r["VDST"] = E.vu(32, s.dst[1])
        return r

    def head(self, exec_mask, code, ins, extra=()):
        s = self.s
        t = ["m=%x" % s.mode, "x=%x" % exec_mask, "c=%x" % self.vcc]
        t += ["s%d=%x" % kv for kv in sorted(self.sregs.items())]
        return "%d %s %s |" % (self.wave, code, " ".join(t + list(ins) + list(extra)))

    def scalar(self, i):
        p, o = self.s.src[i], self.src[i]
        if p[0] == "c":
            return p[1]
        return sum(self.sregs[p[1] + d] << 32 * d for d in range(dwords(o[2])))

    def run_wave(self, exec_mask, code, ins):
        s, m = self.s, self.m
        m.start()
        m.vgpr = {r: list(row) + [0] * (64 - len(row)) for r, row in self.rows.items()}
        m.vgpr_written = {}
        m.regs = self.base_regs(exec_mask, 0)
        for i, p in enumerate(s.src):
            if p[0] in ("s", "c"):
                m.regs["S%d" % i] = E.vb(max(32, self.src[i][2]), self.scalar(i))
        m.regs["D0"] = E.vb(32, 0)
        self.prog(m)
        outs = []
        if s.dst[0] == "s":
            outs.append("s%d=%x" % (s.dst[1], m.regs["D0"].bits()))
        for r in sorted({r for r, _ in m.vgpr_written}):
            outs.append("v%d:e=%s" % (r, "".join("%08x" % v for v in m.vgpr[r][:self.wave])))
        if not outs:
            outs = ["v%d:e=%s" % (s.dst[1], "".join("%08x" % v for v in m.vgpr[s.dst[1]][:self.wave]))] if s.dst[0] == "v" else []
        if not outs:
            return None
        return self.head(exec_mask, code, ins) + " " + " ".join(outs)

    def run_moves(self, exec_mask, code, ins, give):
        """Instructions that write registers other than their destination: exchanges and relative addressing."""
        s, m = self.s, self.m
        relative = "REL" in s.name
        m0 = 0x00010002 if "_2_" in s.name or "SWAPREL" in s.name else 2
        if relative:
            for r in (9, 10, 11, 17, 18, 19):
                give(r, "u32.%d.%d" % (r % 7, s.var), 1)
            ins.append("s124=%x" % m0)
        if s.src[0][0] != "v" or s.dpp or s.sdwa:
            return None
        rows = {r: list(v) for r, v in self.rows.items()}
        written = set()
        for lane in range(self.wave):
            if not exec_mask >> lane & 1:
                continue
            m.start()
            m.regs = self.base_regs(exec_mask, lane)
            m.vgpr, m.vgpr_written = {r: list(v) for r, v in self.rows.items()}, {}
            d, a = s.dst[1], s.src[0][1]
            part = self.src[0][2] == 16
            at = lambda r, up: self.rows[r][lane] >> (16 if part and up else 0) & (0xFFFF if part else 0xFFFFFFFF)
            m.regs.update({"D0": E.vb(32, at(d, s.half & 8)), "S0": E.vb(32, at(a, s.half & 1)), "M0": E.vb(32, m0), "DST": E.vu(32, d)})
            m.fixed |= {"M0"}
            self.prog(m)
            if relative and not m.vgpr_written:
                rows[d][lane] = m.regs["D0"].bits()
                written.add(d)
            for (r, l), bits in m.vgpr_written.items():
                rows[r][l] = bits
                written.add(r)
            if not relative:
                for r, name, up in ((d, "D0", s.half & 8), (a, "S0", s.half & 1)):
                    v = m.regs[name].bits()
                    if part:
                        keep = rows[r][lane]
                        v = (keep & 0xFFFF) | (v & 0xFFFF) << 16 if up else (keep & 0xFFFF0000) | v & 0xFFFF
                    rows[r][lane] = v
                    written.add(r)
        outs = ["v%d:e=%s" % (r, "".join("%08x" % v for v in rows[r])) for r in sorted(written)]
        return self.head(exec_mask, code, ins) + " " + " ".join(outs)

    def source(self, i, lane):
        """Bits of source i as the operation sees them (32-bit containers for narrow ones)."""
        s, o, p = self.s, self.src[i], self.s.src[i]
        _, kind, bits, cls = o
        if p[0] == "m":
            return None
        if lane is None:
            v = 0  # what DPP reads where there is nothing to read; the modifiers come after
        elif p[0] == "v":
            v = sum(self.rows[p[1] + d][lane] << 32 * d for d in range(dwords(bits)))
        else:
            v = self.scalar(i)
        if s.sdwa:
            sel, sext = s.sdwa[0][i], s.sdwa[1][i]
            if not ("FP8" in s.name or "BF8" in s.name):
                if sel < 4:
                    w, v = 8, v >> 8 * sel & 0xFF
                elif sel < 6:
                    w, v = 16, v >> 16 * (sel - 4) & 0xFFFF
                else:
                    w = 32
                if sext and v >> (w - 1):
                    v |= (0xFFFFFFFF << w) & 0xFFFFFFFF
        elif bits == 16 and p[0] == "v" and s.half >> i & 1:
            v >>= 16
        if bits == 16 and "SAT_PK" not in s.name and not s.sdwa:
            v &= 0xFFFF
        if s.fmt == "VOP3P":
            v = self.packed(i, v, kind)
        elif kind in FLOATS:
            f = FLOATS[kind]
            if s.abs >> i & 1:
                v &= ~f.sign_bit
            if s.neg >> i & 1:
                v ^= f.sign_bit
        if self.flush and kind in FLOATS:
            f, n = element_formats(kind)
            v = (v & ~((1 << f.width * n) - 1)) | map_elements(v, f, n, f.flush)
        return v

    def packed(self, i, v, kind):
        s = self.s
        lo, hi = s.neg_lo >> i & 1, s.neg_hi >> i & 1
        if "MIX" in s.name:
            if s.opsel_hi >> i & 1:
                sign = 0x80008000
            else:
                sign = 0x80000000
            if hi:
                v &= ~sign
            return v ^ sign if lo else v
        if "DOT" in s.name or "MOV" in s.name:
            if kind in ("PK2_F16", "PK2_BF16"):
                return v ^ (lo << 15 | hi << 31)
            if kind == "F32":
                return v ^ lo << 31
            return v
        w = 32 if kind == "PK2_F32" else 16
        if kind not in ("PK2_F16", "PK2_BF16", "PK2_F32", "PK2_U16", "PK2_I16"):
            return v
        half = lambda up: v >> (w if up else 0) & ((1 << w) - 1)
        a, b = half(s.opsel >> i & 1), half(s.opsel_hi >> i & 1)
        if kind in FLOATS:
            a, b = a ^ lo << (w - 1), b ^ hi << (w - 1)
        return a | b << w

    def run_lanes(self, exec_mask, code, ins):
        s, m = self.s, self.m
        results, approx, loose, drop = {}, False, False, 0
        m.wide = bool(s.clamp) and not self.float_dst()
        if m.wide and re.search("SUB", s.name):
            m.wide = "signed"
        for lane in range(self.wave):
            if not exec_mask >> lane & 1:
                continue
            src_lane = lane
            if s.dpp:
                ctl = s.dpp[1](lane, self.wave)
                enabled = s.is_dpp8 or (s.rowm >> (lane >> 4) & 1 and s.bankm >> (lane >> 2 & 3) & 1)
                if not enabled:
                    continue
                ok = ctl is not None and ctl < self.wave
                if ok and not s.fi and not exec_mask >> ctl & 1:
                    ok = False
                if not ok and not s.bound:
                    continue
                src_lane = ctl if ok else None
            r = self.lane(lane, src_lane, exec_mask)
            if r is None:
                drop |= 1 << lane
                continue
            results[lane] = r
            approx |= m.approximate
            loose |= m.loose_nan
        if drop:
            if s.dpp:
                return None
            exec_mask &= ~drop
        if not results and not s.dpp:
            return None
        return self.finish(exec_mask, code, ins, results, approx, loose)

    def float_dst(self):
        return self.vdst is not None and self.vdst[1] in FLOATS

    def lane(self, lane, src_lane, exec_mask):
        s, m = self.s, self.m
        m.start()
        m.regs = self.base_regs(exec_mask, lane)
        m.vgpr = {r: list(row) for r, row in self.rows.items()}
        m.vgpr_written = {}
        values = []
        for i in range(len(self.src)):
            at = src_lane if i == 0 else lane
            v = self.source(i, at)
            values.append(v)
            if v is None:
                m.regs["VCC"] = E.vb(64, self.sregs[s.src[i][1]] | self.sregs[s.src[i][1] + 1] << 32)
            else:
                m.regs["S%d" % i] = E.vb(max(32, self.src[i][2]), v)
            if s.dpp and i == 0 and v is not None:
                m.vgpr[s.src[0][1]][lane] = v  # for texts that name the register
        for i in range(len(self.src), 3):
            m.regs["S%d" % i] = E.vb(32, 0)
        old = None
        if s.dst[0] == "v":
            bits = max(32, dwords(self.vdst[2]) * 32)
            old = sum(self.rows[s.dst[1] + d][lane] << 32 * d for d in range(bits // 32))
            d0 = old
            if self.vdst[2] == 16 and s.half & 8:
                d0 = old >> 16
            if self.flush and self.float_dst() and re.search("FMAC|MAC_", s.name):
                f, n = element_formats(self.vdst[1])
                d0 = (d0 & ~((1 << f.width * n) - 1)) | map_elements(d0, f, n, f.flush)
            m.regs["D0"] = E.vb(bits, d0)
            if re.search("FMAC_DX9|FMAC_LEGACY", s.name):
                m.regs["S2"] = E.vb(32, d0)
            if "DIV_SCALE" in s.name:
                m.regs["D0"] = E.vb(bits, values[0])
        elif s.dst[0] == "s":
            m.regs["D0"] = E.vb(32, 0)
        else:
            m.regs["D0"] = E.vb(64, 0)
            m.regs["D"] = m.regs["D0"]
        if "BITOP3" in s.name:
            m.fixed.add("D")
            m.regs["D"] = m.regs["D0"]
        self.prog(m)
        if "RCP" in s.name:
            m.approximate = True
        if re.search("FREXP_MANT|DIV_FIXUP|CVT_F32_BF16", s.name):
            m.loose_nan = True  # whether a signalling NaN that passes is quieted is not said
        if "BITOP3" in s.name:
            m.regs["D0"] = m.regs["D"]
        if m.doubtful or self.doubtful(values, m):
            return None
        out = {}
        if s.dst[0] in ("mask", "exec"):
            name = "EXEC" if s.dst[0] == "exec" else "D0"
            out["bit"] = m.regs[name].bits() >> lane & 1
            return out
        d = m.regs["D0"].bits()
        if m.vgpr_written:
            d = m.vgpr[s.dst[1]][lane]
        kind, bits = self.vdst[1], self.vdst[2]
        if "MIXHI" in s.name:
            hi = d >> 16
            if s.clamp:
                hi = clamp_float(N.F16, hi)
            return {"d": (d & 0xFFFF) | hi << 16}
        if s.clamp and "_CO_" in s.name:
            d = self.carry_exact(values, m, lane)
        if self.float_dst():
            f, n = element_formats(kind)
            low = d & ((1 << f.width * n) - 1)
            if s.omod:
                low = map_elements(low, f, n, lambda x: omod_float(f, x, s.omod))
            if s.clamp:
                low = map_elements(low, f, n, lambda x: clamp_float(f, x))
            if self.flush:
                low = map_elements(low, f, n, f.flush)
            d = (d & ~((1 << f.width * n) - 1)) | low
        if s.sdwa:
            d = self.sdwa_result(old, d, bits)
        elif bits == 16 and not m.vgpr_written:
            d = self.narrow(old, d)
        out["d"] = d
        if s.sdst is not None:
            if "DIV_SCALE" in s.name:
                out["c"] = m.regs["VCC"].bits() & 1
            elif "MAD" in s.name:
                out["c"] = m.regs["D1"].bits() & 1
            else:
                out["c"] = m.regs["VCC"].bits() >> lane & 1
        return out

    def carry_exact(self, values, m, lane):
        """Additions with carry keep a wider sum than they return: what clamp sees."""
        a, b = values[0], values[1]
        c = 0
        if len(values) > 2:
            c = (self.sregs[MASK_S] | self.sregs[MASK_S + 1] << 32) >> lane & 1
        n = a + b + c if "ADD" in self.s.name else b - a - c if "SUBREV" in self.s.name or "BREV" in self.s.name else a - b - c
        return E.saturate(n, 0, 0xFFFFFFFF)

    def narrow(self, old, d):
        """Where a 16-bit result goes and what stays of the register."""
        s = self.s
        low = d & 0xFFFF
        if s.half & 8:
            return (old & 0xFFFF) | low << 16
        if self.family != "gfx9":
            return (old & 0xFFFF0000) | low
        if ZEROES_HIGH.match(s.base):
            return low
        return (old & 0xFFFF0000) | low

    def sdwa_result(self, old, d, bits):
        _, _, dsel, unused = self.s.sdwa
        if dsel == 6:
            return d & 0xFFFFFFFF if bits != 16 else d & 0xFFFF
        w, at = (8, 8 * dsel) if dsel < 4 else (16, 16 * (dsel - 4))
        part = d & ((1 << w) - 1)
        if unused == 2:
            return old & ~(((1 << w) - 1) << at) & 0xFFFFFFFF | part << at
        r = part << at
        if unused == 1 and part >> (w - 1):
            r |= (0xFFFFFFFF << (at + w)) & 0xFFFFFFFF
        return r

    def doubtful(self, values, m):
        """Lanes that the text or the manual does not settle."""
        s, name = self.s, self.s.name
        kinds = [o[1] for o in self.src]
        if "FREXP" in name and self.flush and FLOATS[kinds[0]].is_zero(values[0] & ((1 << FLOATS[kinds[0]].width) - 1)):
            return True  # perhaps a denormal that was flushed: whether it is here is not said
        if "BF8" in name and "F32_" not in name.replace("SCALEF32_", "") and any(
                k in FLOATS and any(FLOATS[k].is_nan(v >> FLOATS[k].width * j & ((1 << FLOATS[k].width) - 1))
                                    for j in range(2 if k.startswith("PK2") else 1)) for v, k in zip(values, kinds)):
            return True  # which of the three NaNs
        if m.approximate:
            for v, k in zip(values, kinds):
                if k in FLOATS and FLOATS[k].is_denormal(v & ((1 << FLOATS[k].width) - 1)):
                    return True
            k = self.vdst[1]
            if k in FLOATS:
                f = FLOATS[k]
                x = m.regs["D0"].bits() & ((1 << f.width) - 1)
                if f.is_denormal(x) or f.exponent(x) == f.emax_field - 1 and s.clamp is False and f is N.F64:
                    return True
                if f.is_zero(x) and "EXP" in name:
                    return True
        if re.match(r"V_(SIN|COS)", name):
            f = FLOATS[kinds[0]]
            v = values[0] & ((1 << f.width) - 1)
            return f.is_nan(v) or f.is_inf(v) or abs(N.to_float(f, v)) > 256
        if name.startswith("V_FRACT"):
            f = FLOATS[kinds[0]]
            v = values[0] & ((1 << f.width) - 1)
            return f.is_nan(v) or f.is_inf(v) or m.regs["D0"].bits() & ((1 << f.width) - 1) == N.from_float(f, 1.0)
        if re.match(r"V_CVT_(NEAREST|RPI)", name):
            v = values[0]
            if N.F32.is_nan(v) or N.F32.is_inf(v):
                return False
            return N.convert(N.F32, N.add(N.F32, v, 0x3F000000), N.F64) != N.add(N.F64, N.convert(N.F32, v, N.F64), 0x3FE0 << 48)
        if "DIV_FIXUP" in name:
            f = FLOATS[kinds[0]]
            a, b = f.exponent(values[1]), f.exponent(values[2])
            if f.is_nan(values[0] & (f.sign_bit * 2 - 1)):
                return True  # hardware gives an infinity
            return f is not N.F16 and (b - a < -f.bias - f.mbits or a == f.emax_field)
        if "DIV_FMAS" in name:
            f = FLOATS[kinds[0]]
            r = N.fma(f, values[0], values[1], values[2])
            d = m.regs["D0"].bits() & ((1 << f.width) - 1)
            return f.is_denormal(r) or f.is_denormal(d) or f.is_inf(r)
        if "DIV_SCALE" in name:
            f = FLOATS[kinds[0]]
            if any(f.is_nan(v) or f.is_inf(v) or f.is_denormal(v) for v in values):
                return True
            if f.is_zero(values[1]) or f.is_zero(values[2]):
                return True  # hardware sets VCC, the text clears it
            if not f.is_zero(values[1]) and not f.is_zero(values[2]) and f.is_zero(N.div(f, values[2], values[1])):
                return True  # is a quotient that underflows to zero denormal?
            if not f.is_zero(values[1]) and f.exponent(N.div(f, values[2], values[1])) == 1:
                return True  # hardware takes the smallest normal quotient for a denormal one
            if not f.is_zero(values[1]) and f.is_denormal(N.div(f, N.from_float(f, 1.0), values[1])):
                # the f32 text asks about a double-precision quotient; and where the quotient is denormal too, the text
                # scales a large denominator to infinity
                return True
            return values[0] != values[1] and values[0] != values[2]
        if "MAD_MIX" in name:
            return False
        if re.search(r"CVT_(PK_)?(FP8|BF8)_F32", name):
            small = m.small("fp8" if "FP8" in name else "bf8")
            return any(not N.F32.is_nan(v) and abs(N.to_float(N.F32, v)) > N.to_float(small, small.max_code)
                       for v, k in zip(values, kinds) if k == "F32")
        return False

    def finish(self, exec_mask, code, ins, results, approx, loose):
        s = self.s
        outs = []
        cls = "e"
        if s.dst[0] in ("mask", "exec"):
            bits = sum(r["bit"] << lane for lane, r in results.items())
            if s.dst[0] == "exec" or "CMPX" in s.name:
                outs.append("x=%x" % bits)
            if s.dst[0] == "mask":
                if s.dst[1] == "vcc":
                    outs.append("c=%x" % bits)
                else:
                    outs.append("s%d=%x" % (s.dst[1], bits & 0xFFFFFFFF))
                    if self.wave == 64:
                        outs.append("s%d=%x" % (s.dst[1] + 1, bits >> 32))
            return self.head(exec_mask, code, ins) + " " + " ".join(outs)
        kind, bits = self.vdst[1], self.vdst[2]
        f = FLOATS.get(kind)
        if approx:
            tol = next((t for p, t in TOLERANCE if re.match(p, s.name)), None)
            if tol is None:
                raise E.EvalError("approximate without a stated bound")
            cls = {16: "h", 32: "f", 64: "d"}[f.width] + tol
        elif loose and f:
            cls = {"BF16": "b", "PK2_BF16": "b"}.get(kind) or {16: "h", 32: "f", 64: "d"}[f.width]
        if bits == 16 and self.family == "gfx10" and s.sdwa and s.sdwa[2] == 6:
            cls = "l" + (cls if cls != "e" else "")
        if bits == 16 and self.family == "gfx9" and not s.sdwa and not (s.half & 8) and not ZEROES_HIGH.match(s.base) and \
                not KEEPS_HIGH.match(s.base):
            cls = "l" + (cls if cls != "e" else "")
        if s.dst[0] == "s":
            lane = min(results)
            outs.append("s%d%s=%x" % (s.dst[1], "" if cls == "e" else ":" + cls, results[lane]["d"] & 0xFFFFFFFF))
            return self.head(exec_mask, code, ins) + " " + " ".join(outs)
        n = dwords(bits)
        step = 2 if cls.startswith("d") else 1
        for d in range(0, n, step):
            row = []
            for lane in range(self.wave):
                old = sum(self.rows[s.dst[1] + d + e][lane] << 32 * e for e in range(step))
                v = results[lane]["d"] >> 32 * d & ((1 << 32 * step) - 1) if lane in results else old
                row.append("%0*x" % (8 * step, v))
            outs.append("v%d:%s=%s" % (s.dst[1] + d, cls, "".join(row)))
        if s.sdst is not None:
            mask = sum(r["c"] << lane for lane, r in results.items())
            if s.sdst == "vcc":
                outs.append("c=%x" % mask)
            else:
                outs.append("s%d=%x" % (s.sdst, mask & 0xFFFFFFFF))
                if self.wave == 64:
                    outs.append("s%d=%x" % (s.sdst + 1, mask >> 32))
        return self.head(exec_mask, code, ins) + " " + " ".join(outs)
