"""Forms, operands and results of the instructions that touch memory: LDS, global, flat, buffer and scalar memory.

Memory is 512 dwords; every lane of a store or an atomic has a place of its own, so that no order of lanes shows."""
import random
import re

import eval as E
from variants import MODE_DEFAULT, NATIVE, Spec, dwords, reg

FORMATS = {"DS": "ds", "GLOBAL": "global", "VGLOBAL": "global", "FLAT": "flat", "VFLAT": "flat", "MUBUF": "buffer",
           "VBUFFER": "buffer", "SMEM": "smem"}
SKIP = re.compile(r"GWS|GS_REG|BVH|ORDERED|CONSUME|APPEND|_TR|LDS_|_LDS|PREFETCH|INV|WB|BLOCK|FORMAT|SWIZZLE|NOP|GL0|GL1|DCACHE|TIME|"
                  r"ATC|PROBE|GET_|SENDMSG|CONDXCHG|SCRATCH|SUB_CLAMP.*RTN_F|SHORT_D16_HI_X|MEMTIME|MEMREAL|DISCARD|_TFE|ADDTID")
MEM_BYTES = 2048
V_ADDR, V_DATA, V_DATA1, V_DST = 16, 24, 32, 8


def wanted(fmt, name):
    return fmt in FORMATS and not SKIP.search(name)


def size_of(name, text, table):
    """Bytes that one lane touches: the highest place the text names."""
    top = 0
    for m in re.finditer(r"MEM\[[^\]]*?(?:\+ (\d+)U)?\]\.[a-z]+?(\d+)", text):
        top = max(top, int(m.group(1) or 0) + int(m.group(2)) // 8)
    return top or 4


def variants(family, fmt, name, base, ops, wave, rng):
    if wave != NATIVE[family]:
        return []
    kind = FORMATS[fmt]
    out = []
    for j in range(2 if "ATOMIC" in name or kind in ("ds", "smem") else 3):
        s = spec(family, kind, name, base, ops, wave, rng, j)
        if s:
            out.append(s)
    return out


def spec(family, kind, name, base, ops, wave, rng, j):
    by = {o[0]: o for o in ops}
    pick = lambda *names: next((by[n] for n in names if n in by), None)
    s = Spec([])
    s.kind, s.var, s.exec_seed, s.memory = kind, j, j or None, True
    s.mode = MODE_DEFAULT[family]
    s.dst = pick("vdst", "sdst") if kind != "smem" else None
    s.data, s.data1 = pick("data0", "data", "vsrc", "vdata"), pick("data1")
    atomic = "ATOMIC" in name or kind == "ds" and not re.search("LOAD|READ|STORE|WRITE|PERM", name) or "XCHG" in name
    store = re.search("STORE|WRITE", name) is not None and "XCHG" not in name
    s.atomic, s.store = atomic, store
    tail, lead = "", []
    s.offset = s.offset0 = s.offset1 = 0
    double = re.search(r"2ADDR|READ2|WRITE2|XCHG2", name) is not None
    if kind == "smem":
        if atomic or store:
            return None
        s.sdata = pick("sdata")
        n = dwords(s.sdata[2])
        first = 36 if n > 4 else 32
        s.dst_reg = first
        s.offset = (0, 64, 0x1C)[j]
        texts = []
        if "BUFFER" in name:
            b = "s[20:23]"
        else:
            b = "s[16:17]"
        texts = ["%s %s, %s, 0x%x" % (base, reg("s", first, n), b, s.offset)]
        s.texts = texts
        return s
    # where the data is
    width = lambda o: {"CMPSWAP_B32": 64}.get(name.split("ATOMIC_")[-1], o[2]) if o else 0
    s.n_data = dwords(width(s.data)) if s.data and (kind != "buffer" or store or atomic) else 0
    s.n_data1 = dwords(s.data1[2]) if s.data1 else 0
    if kind == "buffer" and not (store or atomic):
        s.data, s.dst = None, s.data
    n_dst = dwords(s.dst[2]) if s.dst else 0
    if atomic and kind != "ds":
        n_dst = 2 if re.search(r"64$|_X2$", name) else 1
    s.returns = (kind == "ds" and s.dst is not None) or (kind != "ds" and not store and not atomic)
    give_back = False
    if atomic and kind != "ds":
        give_back = s.returns = j == 1 or kind == "flat" and j == 0
    s.n_dst = n_dst if s.returns else 0
    hints = [""]
    if give_back:
        hints = [" th:TH_ATOMIC_RETURN", " glc", " sc0"]
    if double:
        s.offset0, s.offset1 = (0, 1) if j == 0 else (0, 2) if "64" in name.replace("B64", "").replace("U64", "") else (1, 0)
        if re.search("STRIDE64|ST64", name):
            s.offset0, s.offset1 = 0, 2
        tail = " offset0:%d offset1:%d" % (s.offset0, s.offset1)
    elif j:
        s.offset = 32 if kind != "ds" or j else 0
        tail = " offset:%d" % s.offset
        s.offset0, s.offset1 = s.offset & 255, s.offset >> 8
    v = lambda r, n: reg("v", r, n)
    args = []
    s.saddr = False
    if kind == "ds":
        if s.returns:
            args.append(v(V_DST, s.n_dst))
        args.append("v%d" % V_ADDR)
        if s.data:
            args.append(v(V_DATA, s.n_data))
        if s.data1:
            args.append(v(V_DATA1, s.n_data1))
    elif kind == "buffer":
        s.vaddr_mode = j % 3  # off, offen, offen with soffset
        d = s.n_data if (store or atomic) else s.n_dst
        s.data_reg = V_DATA if store or atomic else V_DST
        args = [v(s.data_reg, d), "off" if s.vaddr_mode == 0 else "v%d" % V_ADDR, "s[20:23]"]
        s.soffset = 64 if s.vaddr_mode == 2 else 0
        args.append("s18" if s.soffset else "null" if family == "gfx12" else "0")
        if s.vaddr_mode:
            tail = " offen" + tail
        if (store or atomic) and s.vaddr_mode == 0:
            return None  # every lane would have the same address
        if give_back:
            s.n_dst = n_dst
    else:
        s.saddr = kind == "global" and j == 1
        if s.returns:
            args.append(v(V_DST, s.n_dst))
        args.append("v%d" % V_ADDR if s.saddr else "v[%d:%d]" % (V_ADDR, V_ADDR + 1))
        if s.data and (store or atomic):
            args.append(v(V_DATA, s.n_data))
        if kind == "global":
            args.append("s[20:21]" if s.saddr else "off")
    s.texts = []
    for h in hints:
        s.texts.append(base + " " + ", ".join(args) + tail + h)
    return s


def program(manual, key):
    cache = manual.__dict__.setdefault("programs", {})
    if key not in cache:
        text = manual.sections[key]
        if "addr = Calc" in text:
            text = text.replace("MEM[ADDR]", "MEM[addr]")
        # memory without a type is a word, or two
        text = re.sub(r"MEM\[(\w+)\](?=[ ;]|$)", r"MEM[\1].b%d" % (64 if re.search("64|X2", key[1]) else 32), text)
        cache[key] = (E.Parser(text).program(), text)
    return cache[key]


def value_pools(name):
    """(pool of memory, pool of data): floats without NaNs, infinities and denormals, where arithmetic is done on them."""
    if re.search(r"PK_ADD(_RTN)?_F16", name):
        return "memh", "hs"
    if re.search(r"PK_ADD(_RTN)?_BF16", name):
        return "memb", "bs"
    if re.search(r"F64", name):
        return "memd", "nearf64"
    if re.search(r"_F32|FMIN|FMAX", name):
        return "memf", "near"
    return "memu", None


def evaluate(family, manual, fp8, s, text, code, pools):
    m = E.Machine(manual, fp8)
    wave = s.wave
    prog, source = program(manual, (s.fmt, s.name))
    mem_pool, data_pool = value_pools(s.name)
    memory = pools.get("mem.%s.%d" % (mem_pool, s.var))
    data = bytearray(b"".join(x.to_bytes(4, "little") for x in memory))
    before = bytes(data)
    space = "lds" if s.kind == "ds" else "mem"
    ins = ["m=%x" % s.mode]
    full = (1 << wave) - 1
    exec_mask = full
    if s.exec_seed:
        exec_mask = random.Random("exec %s %d" % (s.base, s.exec_seed)).getrandbits(wave) | 1
    ins.append("x=%x" % exec_mask)
    if "PERMUTE" not in s.name:
        ins.append("%s@mem.%s.%d" % (space, mem_pool, s.var))
    size = size_of(s.name, source, None)
    if s.kind == "smem":
        return scalar(m, s, code, prog, data, ins)
    align = min(4, size) if size & (size - 1) == 0 else 4
    if s.kind == "ds" and size in (8, 12, 16):
        align = 8 if size == 8 else 16
    plain_load = not s.atomic and not s.store
    double = re.search(r"2ADDR|READ2|WRITE2|XCHG2", s.name) is not None
    stride = size if size != 12 else 16
    if "PERMUTE" in s.name:
        name = "al.1.%d" % s.var
    elif plain_load:
        name = "al.%d.%d" % (align, s.var)
    else:
        name = "ap.%d.%d" % (stride * (2 if double and not re.search("STRIDE64|ST64", s.name) else 1), s.var)
    if s.kind == "buffer" and s.vaddr_mode == 0:
        addresses = [0] * 64
    else:
        addresses = pools.get(name)
        wide = s.kind in ("flat", "global") and not s.saddr
        ins.append("v%d%s@%s" % (V_ADDR, "+" if wide else "", name))
    if s.saddr:
        ins.append("s20+=0")
    extra = 0
    if s.kind == "buffer":
        extra = s.soffset
        ins += ["s20+=0", "s22=%x" % MEM_BYTES, "s23=%x" % {"gfx9": 0x27000, "gfx10": 0x31016FAC, "gfx11": 0x31014FAC,
                                                             "gfx12": 0x31014FAC}[family]]
        if s.soffset:
            ins.append("s18=%x" % s.soffset)
    rows = {}

    def give(r, n, kind, pos):
        for d in range(n):
            p = "%s.%d.%d" % (kind, (pos + d) % 7, s.var)
            vals = pools.get(p)
            if kind == "nearf64":
                rows[r], rows[r + 1] = [x & 0xFFFFFFFF for x in vals], [x >> 32 for x in vals]
                ins.append("v%d@%s" % (r, p))
                if n > 2:
                    give(r + 2, n - 2, kind, pos + 1)
                return
            rows[r + d] = list(vals)
            ins.append("v%d@%s" % (r + d, p))

    dk = data_pool or "u32"
    if s.n_data and (s.atomic or s.store or s.kind == "ds"):
        give(V_DATA, s.n_data, dk, 1)
    if s.n_data1:
        give(V_DATA1, s.n_data1, dk, 3)
    dst_reg = V_DATA if s.kind == "buffer" and s.atomic else V_DST
    if s.returns and dst_reg == V_DST:
        for d in range(s.n_dst):
            give(V_DST + d, 1, "u32", 4 + d % 2)
    if re.search("CMPS", s.name):
        agree(s, memory, addresses, rows)
        ins = [x for x in ins if not re.match(r"v(24|25|26|27|32|33)@", x)]
        for r in sorted(rows):
            if r >= V_DATA:
                p = pools.add_list("cmp.%s.%s.%d" % (s.base, r, s.var), rows[r][:64])
                ins.append("v%d@%s" % (r, p))
    results = {}
    m.mem = data
    calc = "Calc" in source or re.search(r"\bOFFSET", source) is not None
    if "PERMUTE" in s.name:
        return permute(m, s, code, prog, rows, addresses, exec_mask, ins)
    for lane in range(wave):
        if not exec_mask >> lane & 1:
            continue
        m.start()
        raw = addresses[lane]
        full_addr = raw + s.offset + extra
        group = lambda r, n: sum(rows[r + d][lane] << 32 * d for d in range(n))
        old = group(dst_reg, s.n_dst) if s.n_dst and dst_reg in rows else 0
        dval = group(V_DATA, s.n_data) if s.n_data and V_DATA in rows else 0
        m.regs = {"ADDR": E.vu(32, raw if calc and "addr = Calc" not in source else full_addr),
                  "ADDR_BASE": E.vu(32, raw), "vgpr_a": E.vu(32, raw),
                  "offset": E.vu(32, s.offset), "OFFSET": E.vu(32, s.offset), "OFFSET0": E.vu(32, s.offset0),
                  "OFFSET1": E.vu(32, s.offset1), "DATA": E.vb(max(32, 32 * s.n_data), dval),
                  "DATA2": E.vb(max(32, 32 * s.n_data1), group(V_DATA1, s.n_data1) if s.n_data1 else 0),
                  "VDATA": E.vb(32 * max(1, s.n_dst or s.n_data), dval if s.store else old),
                  "RETURN_DATA": E.vb(32 * max(1, s.n_dst), old), "laneId": E.vi(32, lane)}
        if "addr = Calc" in source and s.kind == "ds":
            m.regs["ADDR"] = E.vu(32, raw)
        elif s.kind == "ds" and not calc:
            m.regs["ADDR"] = E.vu(32, full_addr)
        m.fixed |= {"VDATA", "RETURN_DATA", "DATA", "DATA2"}
        m.flat_addr = full_addr
        prog(m)
        if m.doubtful or m.loose_nan:
            raise E.EvalError("a NaN in memory")
        results[lane] = m.regs["VDATA" if plain_load and "VDATA" in source else "RETURN_DATA"].bits()
    outs = []
    for d in range(s.n_dst):
        row = []
        base_row = rows.get(dst_reg + d, [0] * 64)
        for lane in range(wave):
            row.append("%08x" % (results[lane] >> 32 * d & 0xFFFFFFFF if lane in results else base_row[lane]))
        outs.append("v%d:e=%s" % (dst_reg + d, "".join(row)))
    if s.atomic or s.store:
        words = [int.from_bytes(data[i:i + 4], "little") for i in range(0, MEM_BYTES, 4)]
        outs.append("%s:e=%s" % (space, "".join("%08x" % x for x in words)))
        if bytes(data) == before:
            return None
    if not outs:
        return None
    return "%d %s %s | %s" % (wave, code, " ".join(ins), " ".join(outs))


def agree(s, memory, addresses, rows):
    """Half of the lanes' comparands equal memory, so that compare and swap does swap."""
    n = 2 if re.search(r"64$|_X2$", s.name) else 1
    if s.kind == "ds":
        at = V_DATA if "CMPST_" in s.name else V_DATA1
    else:
        at = V_DATA + n
    for lane in range(0, 64, 2):
        for d in range(n):
            a = addresses[lane] + s.offset + (getattr(s, "soffset", 0) if s.kind == "buffer" else 0)
            rows[at + d][lane] = memory[(a // 4 + d) % len(memory)]


def permute(m, s, code, prog, rows, addresses, exec_mask, ins):
    wave = s.wave
    pad = lambda r: list(r) + [0] * (64 - len(r))
    m.start()
    m.vgpr = {V_ADDR: pad(addresses[:wave]), V_DATA: pad(rows[V_DATA][:wave]), V_DST: pad(rows[V_DST][:wave])}
    m.regs = {"EXEC": E.vb(64, exec_mask), "WAVE64": E.vbool(wave == 64), "WAVE32": E.vbool(wave == 32),
              "ADDR": E.vu(32, V_ADDR), "OFFSET": E.vu(32, s.offset), "DATA0": E.vu(32, V_DATA), "VDST": E.vu(32, V_DST)}
    prog(m)
    out = "".join("%08x" % x for x in m.vgpr[V_DST][:wave])
    return "%d %s %s | v%d:e=%s" % (wave, code, " ".join(ins), V_DST, out)


def scalar(m, s, code, prog, data, ins):
    m.start()
    m.mem = data
    n = dwords(s.sdata[2])
    base = 256
    m.flat_addr = base + s.offset
    m.regs = {"ADDR": E.vu(32, base + s.offset), "SDATA": E.vb(32 * n, 0), "sgpr_base": E.vu(32, base), "SBASE": E.vu(32, base),
              "offset": E.vu(32, s.offset), "OFFSET": E.vu(32, s.offset), "SOFFSET": E.vu(32, 0)}
    m.fixed |= {"SDATA"}
    prog(m)
    if "BUFFER" in s.name:
        ins += ["s20+=%x" % base, "s22=%x" % (MEM_BYTES - base), "s23=%x" % 0x27000]
    else:
        ins.append("s16+=%x" % base)
    outs = ["s%d=%x" % (s.dst_reg + d, m.regs["SDATA"].bits() >> 32 * d & 0xFFFFFFFF) for d in range(n)]
    return "%d %s %s | %s" % (s.wave, code, " ".join(ins), " ".join(outs))


def calc_ds(m, a, *offsets):
    n = a.n
    for i, o in enumerate(offsets):
        n += o.n << 8 * i
    return E.vu(32, n)


E.FUNCTIONS["CalcDsAddr"] = calc_ds
for _n in ("CalcGlobalAddr", "CalcFlatAddr", "CalcBufferAddr", "CalcScalarGlobalAddr", "CalcScalarBufferAddr"):
    E.FUNCTIONS[_n] = lambda m, *a: E.vu(32, m.flat_addr)
E.SPECIAL.update({n: E.vu(32, 0) for n in ("v_addr", "s_saddr", "SADDR", "VADDR", "SRSRC", "SOFFSET", "sgpr_o", "flat_scratch", "offset", "OFFSET")})
