#!/usr/bin/env python3
"""Writes the decoding tables sim/isa/tables/<format>.def.

    make_tables.py INSTRUCTIONS.tsv OUT_DIR

INSTRUCTIONS.tsv: one row an instruction and format (arch, format, opcode, name, operands as field=kind/bits/class), from
AMD's machine-readable descriptions; archs rdna3, rdna4, cdna. Which target has which opcode, the assembler's spelling, and
all of gfx906, gfx908, gfx90a and gfx1030 come from LLVM's disassembler (llvm-mc-22 on the path). A target that has no
description takes names and operands from the nearest one that has, found by name (the assembler's aliases help); what is in
none has its operands read from LLVM's text."""
import collections
import os
import re
import sys

import llvm
import probe

ISAS = ["GFX906", "GFX908", "GFX90A", "GFX942", "GFX950", "GFX1030", "GFX1100", "GFX1150", "GFX1200"]
ARCH = {"GFX942": "cdna", "GFX950": "cdna", "GFX1100": "rdna3", "GFX1150": "rdna3", "GFX1200": "rdna4"}
RENAME = {"VBUFFER": "MUBUF", "VFLAT": "FLAT", "VGLOBAL": "GLOBAL", "VSCRATCH": "SCRATCH", "VDSDIR": "LDSDIR",
          "VEXPORT": "EXP", "VIMAGE": "MIMG", "VSAMPLE": "SAMPLE"}
# Described, executed by the hardware, but not known to LLVM.
BEYOND_LLVM = {("rdna3", "VOP3", 386), ("rdna4", "VOP3", 386), ("cdna", "VOP3", 322), ("cdna", "VOP3", 402)}
NO_MEANING = re.compile(r"^(v_interp_|image_bvh)")
PLAIN = {"ANY": "ANY", "B8": "B8", "B16": "B16", "B32": "B32", "B64": "B64", "B96": "B96", "B128": "B128", "B256": "BN",
         "U8": "U8", "U16": "U16", "U24": "U24", "U32": "U32", "U64": "U64", "I8": "I8", "I16": "I16", "I24": "I24",
         "I32": "I32", "I64": "I64", "F16": "F16", "BF16": "BF16", "F32": "F32", "F64": "F64", "FP8": "FP8", "BF8": "BF8",
         "M64": "M64", "PK2_F16": "PK_F16", "PK2_BF16": "PK_BF16", "PK2_U16": "PK_U16", "PK2_I16": "PK_I16",
         "PK2_B16": "PK_U16", "PK2_F32": "PK_F32", "PK2_B32": "PK_B32", "PK2_B64": "BN", "PK2_FP8": "PK_8", "PK2_BF8": "PK_8",
         "PK2_U8": "PK_8", "PK2_I8": "PK_8", "PK4_U8": "PK_8", "PK4_I8": "PK_8", "PK4_B8": "PK_8", "PK4_IU8": "PK_8",
         "PK4_FP8": "PK_8", "PK4_BF8": "PK_8", "PK8_U4": "PK_4", "PK8_I4": "PK_4", "PK8_IU4": "PK_4", "PK2_FP4": "FP4",
         "IMG": "RSRC", "SAMP": "RSRC", "BUF": "B64", "WMMA_INDEX_SET": "B32", "IMG_BVH": "RSRC"}


def sim_type(kind, bits):
    if kind in PLAIN:
        return PLAIN[kind]
    if kind.startswith("RSRC"):
        return "RSRC"
    return "MATRIX"


def dwords(bits):
    return max(1, (bits + 31) // 32)


class Op:
    def __init__(self, role, kind, n, cls, half=False):
        self.role, self.type, self.n, self.cls, self.half = role, kind, n, cls, half

    def __str__(self):
        if self.half:
            return "OH(%s, %s, %s)" % (self.role, self.type, self.cls)
        return "OP(%s, %s, %d, %s)" % (self.role, self.type, self.n, self.cls)


def klass(cls, fmt):
    if cls in ("ACCVGPR", "SRC_ACCVGPR"):
        return "ACC"
    if "ACCVGPR" in cls:
        return "VACC"
    if cls.startswith(("VGPR", "SRC_VGPR")):
        return "V"
    if cls == "EXEC":
        return "EXEC"
    if cls == "SIMM4":
        return "IMM"
    return "ANY"


def is_store(name):
    return bool(re.search(r"_store|ds_write|_scratch_store", name)) and not name.startswith("ds_store_addtid_x")


def is_atomic(name):
    return "_atomic" in name or bool(re.match(r"ds_(add|sub|rsub|inc|dec|min|max|and|or|xor|mskor|cmpst|cmpstore|wrxchg|"
                                              r"storexchg|wrap|condxchg|pk_add|sub_clamp|cond_sub|ordered|append|consume|"
                                              r"gws|bvh)", name))


def roles(fmt, mnem, fields):
    """From a description's operands to roles, in the order in which an assembler writes them."""
    f = collections.OrderedDict()
    for text in fields.split():
        name, rest = text.split("=")
        kind, bits, cls = rest.split("/")
        f[name] = (sim_type(kind, int(bits)), dwords(int(bits)), klass(cls, fmt), int(bits) == 16)
    ops = []

    def add(role, *names):
        for name in names:
            if name in f:
                kind, n, k, half = f[name]
                ops.append(Op(role, kind, n, k, half and fmt.startswith("V")))
                return True
        return False

    if fmt in ("SOP1", "SOP2", "SOPC"):
        add("DST", "sdst"), add("SRC0", "ssrc0"), add("SRC1", "ssrc1")
        if mnem.startswith("s_sendmsg_rtn"):
            ops[-1].cls = "IMM"
    elif fmt == "SOPK":
        reads = re.match(r"s_cmpk|s_setreg|s_waitcnt|s_cbranch", mnem)
        add("SRC0" if reads else "DST", "sdst")
    elif fmt == "SOPP":
        pass
    elif fmt == "SMEM":
        if "sdata" in f:
            if is_store(mnem):
                add("DATA", "sdata")
            elif is_atomic(mnem):
                add("DATA", "sdata")
                ops.append(Op("DST", ops[0].type, ops[0].n // 2 if "cmpswap" in mnem else ops[0].n, "ANY"))
            elif re.search(r"prefetch|atc_probe", mnem):
                ops.append(Op("DATA", "B32", 1, "IMM"))
            else:
                add("DST", "sdata")
        add("BASE", "sbase"), add("SOFF", "soffset")
        if "prefetch" in mnem and "pc_rel" not in mnem and not any(o.role == "BASE" for o in ops):
            raise SystemExit("no base: " + mnem)
    elif fmt in ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P", "VINTERP"):
        valu_roles(fmt, mnem, f, ops, add)
    elif fmt == "VOP3PX2":
        for role, name in (("DST", "vdst"), ("SRC0", "src0"), ("SRC1", "src1"), ("SRC2", "src2"), ("SCALE0", "scale_src0"),
                           ("SCALE1", "scale_src1")):
            add(role, name)
    elif fmt == "VOPD":
        add("DST", "vdsty"), add("SRC0", "srcy0"), add("SRC1", "vsrcy1")
        literal(mnem, ops)
        if "cndmask" in mnem:
            ops.append(Op("SRC2", "M64", 2, "VCC"))
    elif fmt == "LDSDIR":
        add("DST", "vdst")
    elif fmt == "EXP":
        add("SRC0", "vsrc0"), add("SRC1", "vsrc1"), add("SRC2", "vsrc2"), add("DATA", "vsrc3")
    elif fmt == "DS":
        add("DST", "vdst"), add("ADDR", "addr"), add("DATA", "data0"), add("DATA1", "data1")
    elif fmt in ("FLAT", "GLOBAL", "SCRATCH"):
        if "_lds_" not in mnem:
            add("DST", "vdst")
        add("ADDR", "addr", "vaddr"), add("DATA", "data", "vsrc"), add("SADDR", "saddr")
        if "cmpswap" in mnem:  # it returns one value and takes two
            data = [o for o in ops if o.role == "DATA"][0]
            for o in ops:
                if o.role == "DST":
                    o.n = data.n // 2
    elif fmt in ("MUBUF", "MTBUF", "MIMG", "SAMPLE"):
        if "vdata" in f and "_lds" not in mnem:
            kind, n, k, _ = f["vdata"]
            if is_store(mnem) or is_atomic(mnem):
                ops.append(Op("DATA", kind, n, k))
            if is_atomic(mnem):
                ops.append(Op("DST", kind, n // 2 if "cmpswap" in mnem else n, k))
            if not is_store(mnem) and not is_atomic(mnem):
                ops.append(Op("DST", kind, n, k))
        add("ADDR", "vaddr")
        if fmt == "SAMPLE" or (fmt == "MIMG" and "vaddr" not in f):
            ops.append(Op("ADDR", "ANY", 1, "V"))
        add("BASE", "srsrc", "rsrc"), add("SAMP", "ssamp", "samp"), add("SOFF", "soffset")
    else:
        raise SystemExit("format " + fmt)
    return ops


def literal(mnem, ops):
    """The literal of FMAAK and FMAMK (and their older names) is a source of its own."""
    if re.search(r"(fma|mad)ak", mnem):
        ops.append(Op("SRC2", ops[-1].type, 1, "LIT"))
    elif re.search(r"(fma|mad)mk", mnem):
        ops[-1].role = "SRC2"
        ops.insert(len(ops) - 1, Op("SRC1", ops[-1].type, 1, "LIT"))


def valu_roles(fmt, mnem, f, ops, add):
    carry_in = re.match(r"v_(add|sub|subrev)_co_ci_u32|v_(addc|subb|subbrev)_co_u32", mnem)
    carry_out = re.match(r"v_(add|sub|subrev|addc|subb|subbrev)_co_(ci_)?u32", mnem)
    compare = mnem.startswith("v_cmp")
    if compare:
        if fmt == "VOPC":
            ops.append(Op("SDST", "M64", 2, "VCCX" if mnem.startswith("v_cmpx") else "VCC"))
        elif "vdst" in f:
            ops.append(Op("SDST", "M64", 2, f["vdst"][2]))
    else:
        add("DST", "vdst")
        if fmt == "VOP2" and carry_out:
            ops.append(Op("SDST", "M64", 2, "VCC"))
        else:
            add("SDST", "sdst")
    add("SRC0", "src0", "vsrc0"), add("SRC1", "src1", "vsrc1"), add("SRC2", "src2")
    if fmt == "VOP2":
        literal(mnem, ops)
        if carry_in or mnem.startswith("v_cndmask"):
            ops.append(Op("SRC2", "M64", 2, "VCC"))
    for o in ops:
        if o.role == "SRC2" and o.type in ("B64", "M64") and (carry_in or mnem.startswith("v_cndmask")):
            o.type, o.n = "M64", 2
    if mnem.startswith(("v_readlane", "v_readfirstlane")):
        for o in ops:
            if o.role == "DST":
                o.cls = "S"
    if mnem.startswith("v_div_scale"):
        for o in ops:
            if o.role == "SDST":
                o.type, o.n = "M64", 2
    if fmt == "VOP3" and not compare and any(o.role == "DST" and o.cls == "ANY" for o in ops):
        for o in ops:
            if o.role == "DST":
                o.cls = "S"


def suffix_type(mnem):
    m = re.findall(r"_(f16|bf16|f32|f64|u16|i16|u32|i32|u64|i64|b32|b64|i8|u8|i4|u4|b16)", mnem)
    return m[-1].upper() if m else "B32"


def from_text(fmt, mnem, text):
    """Operands of an instruction that no description has, from LLVM's text and the types in its name."""
    parts = text.split(None, 1)
    regs = re.findall(r"(?:\b([vsa])(?:\[(\d+):(\d+)\]|(\d+)\b)|\b0x12345678)", parts[1] if len(parts) > 1 else "")
    n = [int(b) - int(a) + 1 if a else 1 for _, a, b, _ in regs]
    kind = [k or "lit" for k, _, _, _ in regs]
    kt = suffix_type(mnem)
    plain = PLAIN.get(kt, "ANY")
    ops = []
    if fmt in ("VOP1", "VOP2", "VOP3", "VOP3P"):
        seq = ["DST", "SRC0", "SRC1", "SRC2"]
        if mnem.startswith("v_mfma") or mnem.startswith("v_accvgpr"):
            types = ["MATRIX"] * 4
            cls = ["VACC"] * 4
        else:
            types, cls = [plain] * 4, ["V"] + ["ANY"] * 3
            m = re.match(r"v_dot(\d)c?_(\w\d+)_(\w\d+)", mnem)
            if m:
                packed = {"f16": "PK_F16", "i16": "PK_I16", "u16": "PK_U16", "i8": "PK_8", "u8": "PK_8", "i4": "PK_4",
                          "u4": "PK_4"}[m.group(3)]
                types = [m.group(2).upper(), packed, packed, m.group(2).upper()]
        for i, (count, k) in enumerate(zip(n, kind)):
            ops.append(Op(seq[i], types[i], count, "LIT" if k == "lit" else cls[i]))
        return ops
    if fmt == "DS":
        if mnem == "ds_ordered_count":
            return [Op("DST", "B32", 1, "V"), Op("ADDR", "B32", 1, "V")]
        if mnem.startswith("ds_gws"):
            return [Op("DATA", "B32", 1, "VACC")] if n else []
        return [Op("ADDR", "B32", 1, "V")]
    if fmt in ("FLAT", "GLOBAL") and "_atomic" in mnem:
        dst = 2 if mnem.endswith("_x2") else 1
        seg = [Op("SADDR", "B64", 2, "ANY")] if fmt == "GLOBAL" else []
        return [Op("DST", "ANY", dst, "V"), Op("ADDR", "B64", 2, "V"),
                Op("DATA", "ANY", dst * (2 if "cmpswap" in mnem else 1), "V")] + seg
    if fmt == "MUBUF":
        if not regs:
            return []
        dst = 2 if mnem.endswith("_x2") else 1
        return [Op("DATA", "ANY", dst * (2 if "cmpswap" in mnem else 1), "V"), Op("DST", "ANY", dst, "V"),
                Op("ADDR", "ANY", 2, "V"), Op("BASE", "RSRC", 4, "ANY"), Op("SOFF", "ANY", 1, "ANY")]
    if fmt == "MIMG":
        ops = []
        if is_store(mnem) or is_atomic(mnem):
            ops.append(Op("DATA", "ANY", 4, "V"))
        if not is_store(mnem):
            ops.append(Op("DST", "ANY", 4, "V"))
        ops += [Op("ADDR", "ANY", 4, "V"), Op("BASE", "RSRC", 8, "ANY")]
        if re.search(r"sample|gather|get_lod", mnem):
            ops.append(Op("SAMP", "RSRC", 4, "ANY"))
        return ops
    if fmt == "SOPP" or (fmt in ("SMEM", "SOPK") and not regs):
        return []
    if fmt == "EXP":
        return [Op(r, "ANY", 1, "V") for r in ("SRC0", "SRC1", "SRC2", "DATA")]
    raise SystemExit("no operands for %s %s: %s" % (fmt, mnem, text))


def descriptions(path):
    """{(arch, format, opcode): (format, name, fields)}; VOP3SD shares VOP3's opcodes and TBUFFER leaves VBUFFER."""
    out = {}
    for line in open(path, encoding="ascii"):
        if line.startswith(("#", "arch\t")):
            continue
        arch, fmt, op, name, fields = (line.rstrip("\n").split("\t") + [""])[:5]
        fmt, op = RENAME.get(fmt, fmt), int(op)
        if arch == "rdna4" and fmt == "MUBUF" and op >= 128:
            fmt, op = "MTBUF", op - 128
        if fmt in ("FLAT",) and not name.startswith("FLAT"):
            continue
        key = "VOP3" if fmt == "VOP3SD" else fmt
        out[arch, key, op] = (fmt, re.sub(r"_E(32|64)$", "", name), fields)
    return out


class Row:
    def __init__(self, fmt, op, mnem, meaning, flags, ops):
        self.fmt, self.op, self.mnem, self.meaning, self.flags, self.ops = fmt, op, mnem, meaning, flags, ops

    def body(self):
        flags = " | ".join(self.flags) or "0"
        return '%d, "%s", %s, %s, %s' % (self.op, self.mnem, self.meaning, flags, " ".join(map(str, self.ops)) or "NO_OP")


def mnemonic(fmt, text):
    """(name, whether LLVM gives it an encoding suffix); of a pair the second half's."""
    token = (text.split("::")[1] if fmt == "VOPD" else text).split()[0]
    m = re.match(r"(.*?)_(e32|e64)$", token)
    return (m.group(1), True) if m else (token, False)


def flags_of(fmt, mnem, suffixed, ops):
    flags = []
    if suffixed:
        flags.append("SUFFIX")
    if any(o.cls == "LIT" for o in ops) or mnem == "s_setreg_imm32_b32":
        flags.append("LITERAL")
    if fmt in ("SMEM", "DS", "FLAT", "GLOBAL", "SCRATCH", "MUBUF", "MTBUF", "MIMG", "SAMPLE"):
        if is_atomic(mnem):
            flags.append("ATOMIC")
        elif is_store(mnem):
            flags.append("STORE")
    if mnem.startswith(("v_mfma", "v_smfmac")):
        flags.append("MFMA")
    return flags


def described_rows(isa, found, desc):
    arch, rows = ARCH[isa], []
    keys = set(found) | {(f, o) for a, f, o in desc if (a, f, o) in BEYOND_LLVM and a == arch}
    if isa == "GFX950":
        keys |= {(f, o) for a, f, o in desc if f == "VOP3PX2"}
    for key in sorted(keys):
        fmt, op = key
        if fmt == "VOPDX":
            continue
        mnem, suffixed = mnemonic(fmt, found[key][0]) if key in found else (None, True)
        if key not in found:
            mnem = desc[(arch,) + key][1].lower()
            suffixed = fmt == "VOP3"
        if NO_MEANING.match(mnem) and fmt not in ("VINTERP",):
            continue
        if (arch,) + key in desc:
            dfmt, meaning, fields = desc[(arch,) + key]
            ops = roles(dfmt, mnem, fields)
            scalar_literal(dfmt, mnem, ops)
            if not ops and dfmt.startswith("VOP3P") and key in found:
                ops = from_text(fmt, mnem, found[key][0])
        else:
            dfmt, meaning = fmt, mnem.upper()
            ops = from_text(fmt, mnem, found[key][0])
        rows.append(Row(dfmt, op, mnem, meaning, flags_of(dfmt, mnem, suffixed, ops), ops))
    return rows


def scalar_literal(fmt, mnem, ops):
    if fmt == "SOP2" and re.match(r"s_fma[am]k", mnem):
        literal(mnem, ops)


def mfma_name(mnem, by_name):
    """gfx908's and gfx90a's spelling of a matrix instruction that gfx940 spells with its blocks."""
    m = re.match(r"v_mfma_(\w+?)_(\d+x\d+x\d+)(f32|f16|bf16_1k|bf16|i8|f64)$", mnem)
    if not m or m.group(3) == "bf16":
        return None
    kind = m.group(3).replace("_1k", "")
    want = re.compile(r"v_mfma_%s_%s(_\d+b)?_%s$" % (m.group(1), m.group(2), kind))
    hits = [n for f, n in by_name if f == "VOP3P" and want.match(n)]
    return hits[0] if len(hits) == 1 else None


def derived_rows(isa, found, base, second, alias_cpu):
    """Rows of a target without a description: base and second are {(format, mnemonic): Row}."""
    keys = sorted(k for k in found if k[0] != "VOPDX")
    texts = [found[k][0] for k in keys]
    alias = [None] * len(keys)
    if alias_cpu:
        words = llvm.assemble(alias_cpu, texts)
        alias = llvm.disassemble(alias_cpu, [w if w and None not in w else [0xFFFFFFFF] for w in words])
    rows = []
    for key, text, other in zip(keys, texts, alias):
        fmt, op = key
        mnem, suffixed = mnemonic(fmt, text)
        if NO_MEANING.match(mnem):
            continue
        names = [mnem] + ([mnemonic(fmt, other)[0]] if other else [])
        mf = mfma_name(mnem, base)
        names = ([mf] if mf else []) + names[::-1]
        row = None
        for rowset in (base, second):
            for n in names:
                for f in (fmt, "VOP3SD") if fmt == "VOP3" else (fmt, "SAMPLE") if fmt == "MIMG" else (fmt,):
                    row = row or rowset.get((f, n))
        if row:
            dfmt, meaning = ("MIMG" if row.fmt == "SAMPLE" else row.fmt), row.meaning
            ops = [Op(o.role, o.type, o.n, o.cls, o.half) for o in row.ops]
            if isa in ("GFX906", "GFX908", "GFX1030") and not mnem.startswith(("v_mfma", "v_accvgpr")):
                for o in ops:
                    if o.cls == "VACC":
                        o.cls = "V"
        else:
            dfmt, meaning = fmt, mnem.upper()
            ops = from_text(fmt, mnem, text)
        rows.append(Row(dfmt, op, mnem, meaning, flags_of(dfmt, mnem, suffixed, ops), ops))
    return rows


def by_name(*rowlists):
    out = {}
    for rows in rowlists:
        for r in rows:
            out.setdefault((r.fmt, r.mnem), r)
    return out


HEAD = """/* Made by tools/isa/make_tables.py: one row an instruction. The columns: targets, opcode, assembler's name,
 * AMD's name, flags, operands as OP(role, type, dwords, class); OH has 16 bits. */
"""


def wrap(line):
    """The line in pieces of at most 128 columns, cut before an operand."""
    out = ""
    while len(line) > 128:
        at = max(line.rfind(" O%s(" % c, 8, 128) for c in "PH")
        if at < 0:
            at = line.rfind(", ", 8, 127) + 1
        out, line = out + line[:at] + "\n", "    " + line[at + 1 :]
    return out + line + "\n"


def write(out_dir, rows_of):
    merged = collections.OrderedDict()
    for isa in ISAS:
        for r in rows_of[isa]:
            fmt = r.fmt
            if fmt == "SAMPLE":
                fmt, r.op = "MIMG", r.op + 256
            merged.setdefault(fmt, collections.OrderedDict()).setdefault((r.op, r.body()), []).append(isa)
    for fmt in sorted(merged):
        with open(os.path.join(out_dir, fmt.lower() + ".def"), "w", encoding="ascii") as f:
            f.write(HEAD)
            for (_, body), isas in sorted(merged[fmt].items(), key=lambda kv: (kv[0][0], ISAS.index(kv[1][0]))):
                f.write(wrap("ROW(%s, %s)" % (" | ".join(isas), body)))


def main():
    desc = descriptions(sys.argv[1])
    found = {isa: probe.probe(isa) for isa in ISAS}
    # gfx1100 runs gfx1150's scalar floats where they were tried on hardware, though LLVM does not know them there.
    found["GFX1100"] = {**found["GFX1150"], **found["GFX1100"]}
    rows_of = {isa: described_rows(isa, found[isa], desc) for isa in ISAS if isa in ARCH}
    cdna, rdna3 = by_name(rows_of["GFX942"], rows_of["GFX950"]), by_name(rows_of["GFX1150"])
    for isa in ("GFX906", "GFX908", "GFX90A"):
        rows_of[isa] = derived_rows(isa, found[isa], cdna, rdna3, "gfx942")
    rows_of["GFX1030"] = derived_rows("GFX1030", found["GFX1030"], rdna3, cdna, "gfx1150")
    write(sys.argv[2], rows_of)
    for isa in ISAS:
        print(isa, len(rows_of[isa]), "rows")


if __name__ == "__main__":
    main()
