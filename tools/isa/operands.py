"""Operand values: pools of 64 lanes each, by kind and position, the same for every instruction that names them."""
import random

import number as N

F32 = [0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x40000000, 0x3F000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x4B000000,
       0x4B800001, 0x3EFFFFFF, 0x3F7FFFFF, 0x3F800001, 0x00000001, 0x807FFFFF, 0x00800000, 0x80800001, 0x7F7FFFFF, 0xFF7FFFFF,
       0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0xFFA00000, 0x4F000000, 0xCF000000, 0x4F800000, 0x4EFFFFFF,
       0x477FE000, 0x477FF000, 0x33000000, 0x33800000, 0x387FC000, 0x38800000, 0x40490FDB, 0xC2C80000, 0x7E800000, 0x01000000]
F16 = [0x0000, 0x8000, 0x3C00, 0xBC00, 0x4000, 0x3800, 0x3E00, 0x4100, 0xC100, 0x6400, 0x6801, 0x37FF, 0x3BFF, 0x3C01, 0x0001,
       0x83FF, 0x0400, 0x8401, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE34, 0x7C01, 0xFD00, 0x5140, 0xD640, 0x7800, 0x0800]
F64 = [0x0000000000000000, 0x8000000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x4000000000000000, 0x3FE0000000000000,
       0x3FF8000000000000, 0x4004000000000000, 0xC004000000000000, 0x4330000000000000, 0x4340000000000001, 0x3FDFFFFFFFFFFFFF,
       0x3FEFFFFFFFFFFFFF, 0x3FF0000000000001, 0x0000000000000001, 0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x8010000000000001,
       0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000012345,
       0x7FF0000000000001, 0xFFF4000000000000, 0x41DFFFFFFFC00000, 0xC1E0000000000000, 0x41EFFFFFFFE00000, 0x41F0000000000000,
       0x36A0000000000000, 0x3690000000000000, 0x47EFFFFFE0000000, 0x47EFFFFFF0000000, 0x400921FB54442D18, 0x7FD0000000000000]
U32 = [0, 1, 2, 3, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0xFFFF8000,
       0x7F, 0x80, 0xFF, 31, 32, 33, 63, 0x00800000, 0x007FFFFF, 0xFF800000, 0x01000000, 0x55555555, 0xAAAAAAAA, 0x12345678,
       0x0F1E2D3C, 0x80808080, 0x7F7F7F7F]
U64 = [0, 1, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF, 0x100000000, 0x80000000,
       0xFFFFFFFF80000000, 0x7FFFFFFF, 0x5555555555555555, 0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x8000000080000000]
U16 = [0, 1, 2, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0xFFFE, 0x7F, 0x80, 0xFF, 0x100, 0xFF80, 15, 16, 17, 0x5555, 0xAAAA, 0x1234]
BF16 = [0x0000, 0x8000, 0x3F80, 0xBF80, 0x4000, 0x3F00, 0x3FC0, 0x4020, 0x0001, 0x807F, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80,
        0x7FC0, 0x7F81, 0x4B00, 0x3F81, 0xC2C8]


class Pools:
    """Kinds: f32 f64 u32 u64 h (two f16) w (two 16-bit integers) bh (two bf16), and restricted ones; width in hex digits."""
    DIGITS = {"f64": 16, "u64": 16, "df64": 16, "nearf64": 16, "q128": 32}

    def __init__(self, family):
        self.family, self.made, self.order = family, {}, []

    def get(self, name):
        """name: kind.position.variant; 64 values."""
        if name not in self.made:
            self.made[name] = self.make(name)
            self.order.append(name)
        return self.made[name]

    def used(self):
        for name in self.order:
            kind = name.split(".")[0]
            d = self.DIGITS.get(kind, 8)
            yield name, "".join("%0*x" % (d, v) for v in self.made[name])

    def add_list(self, name, values):
        """A pool of one vector's own."""
        if name not in self.made:
            self.made[name] = values
            self.order.append(name)
        return name

    def make(self, name):
        kind, pos, var = name.split(".")
        rng = random.Random("pool " + name)
        if kind == "mem":
            return self.memory(pos, rng)
        if kind == "al":  # addresses to load from
            return [rng.randrange(0, 1024 // int(pos)) * int(pos) for _ in range(64)]
        if kind == "ap":  # addresses apart
            slots = list(range(64))
            rng.shuffle(slots)
            return [x * int(pos) for x in slots]
        base = getattr(self, "kind_" + kind)
        first = self.listed(kind)
        if not first:
            return [base(rng) for _ in range(64)]
        if int(var) == 0 and pos == "0":
            values = list(first) + [base(rng) for _ in range(64)]
            return values[:64]
        return [rng.choice(first) if rng.random() < 0.6 else base(rng) for _ in range(64)]

    @staticmethod
    def listed(kind):
        return {"f32": F32, "f64": F64, "u32": U32, "u64": U64}.get(kind)

    def kind_f32(self, r):
        x = r.random()
        if x < 0.5:
            return N.from_float(N.F32, r.choice([1, -1]) * 2.0 ** r.uniform(-6, 12))
        if x < 0.7:
            return N.from_float(N.F32, r.randint(-40, 40) * 0.25)
        return r.getrandbits(32)

    def kind_f64(self, r):
        x = r.random()
        if x < 0.5:
            return N.from_float(N.F64, r.choice([1, -1]) * 2.0 ** r.uniform(-6, 35))
        if x < 0.7:
            return N.from_float(N.F64, r.randint(-40, 40) * 0.25)
        return r.getrandbits(64)

    def kind_u32(self, r):
        return r.getrandbits(32) >> r.choice([0, 0, 0, 8, 16, 24])

    def kind_u64(self, r):
        return r.getrandbits(64) >> r.choice([0, 0, 16, 32, 48])

    def kind_q128(self, r):
        return r.getrandbits(128)

    def half(self, r):
        x = r.random()
        if x < 0.5:
            return r.choice(F16)
        if x < 0.8:
            return N.from_float(N.F16, r.choice([1, -1]) * 2.0 ** r.uniform(-5, 6))
        return r.getrandbits(16)

    def kind_h(self, r):
        return self.half(r) | self.half(r) << 16

    def kind_w(self, r):
        a = r.choice(U16) if r.random() < 0.5 else r.getrandbits(16)
        b = r.choice(U16) if r.random() < 0.5 else r.getrandbits(16)
        return a | b << 16

    def kind_bh(self, r):
        a = r.choice(BF16) if r.random() < 0.5 else N.from_float(N.BF16, r.choice([1, -1]) * 2.0 ** r.uniform(-5, 6))
        b = r.choice(BF16) if r.random() < 0.5 else N.from_float(N.BF16, r.choice([1, -1]) * 2.0 ** r.uniform(-5, 6))
        return a | b << 16

    def memory(self, kind, r):
        """512 dwords of a kind."""
        if kind == "memd":
            return [d for _ in range(256) for x in [self.kind_nearf64(r)] for d in (x & 0xFFFFFFFF, x >> 32)]
        one = {"memu": self.kind_u32, "memf": self.kind_near, "memh": self.kind_hs, "memb": self.kind_bs}[kind]
        return [one(r) for _ in range(512)]

    def kind_nearf64(self, r):
        return N.from_float(N.F64, r.choice([1, -1]) * r.randint(1, 255) * 2.0 ** r.randint(-4, 4))

    # numbers whose sums and products come out denormal, or that are denormal
    def kind_df32(self, r):
        x = r.random()
        if x < 0.3:
            return r.getrandbits(23) | r.getrandbits(1) << 31
        return r.getrandbits(31) % 0x02000000 | r.getrandbits(1) << 31 if x < 0.6 else self.kind_f32(r)

    def kind_df64(self, r):
        x = r.random()
        if x < 0.3:
            return r.getrandbits(52) | r.getrandbits(1) << 63
        return r.getrandbits(63) % (1 << 54) | r.getrandbits(1) << 63 if x < 0.6 else self.kind_f64(r)

    def kind_dh(self, r):
        return sum((r.getrandbits(15) % 0x1000 | r.getrandbits(1) << 15 if r.random() < 0.6 else self.half(r)) << 16 * i
                   for i in range(2))

    # small integers in each format: sums and products of them are exact whatever the order
    def kind_hs(self, r):
        return N.from_float(N.F16, r.randint(-16, 16)) | N.from_float(N.F16, r.randint(-16, 16)) << 16

    def kind_bs(self, r):
        return N.from_float(N.BF16, r.randint(-16, 16)) | N.from_float(N.BF16, r.randint(-16, 16)) << 16

    def kind_fs(self, r):
        return N.from_float(N.F32, r.randint(-99, 99))

    def kind_p8(self, r):
        """Four fp8 or bf8 codes of small magnitude, any flavour."""
        return sum((r.choice([0, 0x30, 0x38, 0x3C, 0x40, 0xB8, 0xC0, 0x34]) if r.random() < 0.9 else 0) << 8 * i
                   for i in range(4))

    def kind_sh(self, r):
        return r.choice([0, 1, -1, 2, -3, 10, -10, 24, -24, 126, -126, 127, -127, 149, -150, 200, 1000, -1100]) & 0xFFFFFFFF

    def kind_fi(self, r):
        """Integral floats, and values outside 0..255."""
        return N.from_float(N.F32, r.choice([0, 1, 2, 100, 128, 254, 255, 256, -1, -200, 300, 17, 77, 1e9]))

    def kind_pos(self, r):
        return N.from_float(N.F32, 2.0 ** r.uniform(-30, 30))

    def kind_near(self, r):
        """Values with few bits and close exponents."""
        return N.from_float(N.F32, r.choice([1, -1]) * r.randint(1, 255) * 2.0 ** r.randint(-4, 4))

    def kind_trig(self, r):
        return N.from_float(N.F32, r.choice([r.uniform(-1, 1), r.uniform(-200, 200), r.randint(-8, 8) * 0.125]))

    def kind_trigh(self, r):
        return sum(N.from_float(N.F16, r.choice([r.uniform(-1, 1), r.uniform(-100, 100), r.randint(-8, 8) * 0.125])) << 16 * i
                   for i in range(2))

    def kind_lane(self, r):
        return r.randint(0, 63)

    def kind_sc(self, r):
        """A float whose exponent is a useful scale."""
        return N.from_float(N.F32, 2.0 ** r.randint(-3, 4))

    def kind_e3(self, r):
        return r.getrandbits(32)
