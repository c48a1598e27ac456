"""Exact binary floating point on Python integers: the arithmetic under the pseudocode evaluator.

A finite number is (sign, mantissa, exponent) with value (-1)^sign * mantissa * 2^exponent; nothing is rounded until
`round_to`. Rounding modes as the MODE register numbers them: 0 nearest even, 1 towards +inf, 2 towards -inf, 3 towards 0."""
import math


class Format:
    def __init__(self, name, ebits, mbits, bias=None, fnuz=False, inf=True, nan=True, max_code=None):
        self.name, self.ebits, self.mbits = name, ebits, mbits
        self.width = 1 + ebits + mbits
        self.bias = (1 << (ebits - 1)) - 1 if bias is None else bias
        self.fnuz, self.has_inf, self.has_nan = fnuz, inf, nan
        self.emax_field = (1 << ebits) - 1
        self.sign_bit = 1 << (self.width - 1)
        self.emin = 1 - self.bias - mbits  # exponent of the unit of a denormal
        if max_code is None:
            max_code = (self.emax_field << mbits) - 1
        self.max_code = max_code  # the largest finite magnitude
        if inf:
            self.inf = self.emax_field << mbits
            self.qnan = self.inf | 1 << (mbits - 1)
        elif fnuz:
            self.inf, self.qnan = None, self.sign_bit
        else:
            self.inf, self.qnan = None, self.sign_bit - 1 if nan else None

    def is_nan(self, bits):
        if self.fnuz:
            return bits == self.sign_bit
        if not self.has_nan:
            return False
        if self.has_inf:
            return (bits & (self.sign_bit - 1)) > self.inf
        return (bits & (self.sign_bit - 1)) == self.sign_bit - 1

    def is_inf(self, bits):
        return self.has_inf and (bits & (self.sign_bit - 1)) == self.inf

    def sign(self, bits):
        return bits >> (self.width - 1) & 1

    def exponent(self, bits):
        return bits >> self.mbits & self.emax_field

    def mantissa(self, bits):
        return bits & ((1 << self.mbits) - 1)

    def is_denormal(self, bits):
        return self.exponent(bits) == 0 and self.mantissa(bits) != 0

    def is_zero(self, bits):
        return (bits & (self.sign_bit - 1)) == 0 and not (self.fnuz and bits)

    def parts(self, bits):
        """(sign, mantissa, exponent) of a finite number."""
        e, m = self.exponent(bits), self.mantissa(bits)
        if e == 0:
            return self.sign(bits), m, self.emin
        return self.sign(bits), m | 1 << self.mbits, e - 1 + self.emin

    def flush(self, bits):
        return bits & self.sign_bit if self.is_denormal(bits) else bits

    def round_to(self, sign, man, exp, mode=0, sticky=0, saturate=False):
        """The number man * 2^exp (plus something less than one unit of man if sticky) as bits."""
        if man == 0 and not sticky:
            return 0 if self.fnuz else sign * self.sign_bit
        length = man.bit_length()
        unit = max(exp + length - 1 - self.mbits, self.emin)  # exponent of the result's last place
        shift = unit - exp
        if shift <= 0:
            q, rest, half = man << -shift, 0, 1
            if sticky:
                q, rest, half = q, 1, 2
        else:
            q = man >> shift
            rest = (man & ((1 << shift) - 1)) * 2 + sticky
            half = 1 << shift
        if rest:
            if mode == 0:
                up = rest > half or (rest == half and q & 1)
            elif mode == 1:
                up = not sign
            elif mode == 2:
                up = sign
            else:
                up = False
            if up:
                q += 1
        if q >> (self.mbits + 1):
            q >>= 1
            unit += 1
        if q >> self.mbits:
            code = ((unit - self.emin + 1) << self.mbits) + (q - (1 << self.mbits))
        else:
            code = q
        if code > self.max_code:
            if saturate or not self.has_inf:
                if not saturate and self.has_nan:
                    return self.qnan if self.fnuz else sign * self.sign_bit | self.qnan
                code = self.max_code
            elif mode == 0 or (mode == 1 and not sign) or (mode == 2 and sign):
                code = self.inf
            else:
                code = self.max_code
        if self.fnuz and code == 0:
            return 0
        return sign * self.sign_bit | code


F16 = Format("f16", 5, 10)
BF16 = Format("bf16", 8, 7)
F32 = Format("f32", 8, 23)
F64 = Format("f64", 11, 52)
FP8 = Format("fp8", 4, 3, inf=False, max_code=0x7E)
BF8 = Format("bf8", 5, 2)
FP8_FNUZ = Format("fp8", 4, 3, bias=8, fnuz=True, inf=False, max_code=0x7F)
BF8_FNUZ = Format("bf8", 5, 2, bias=16, fnuz=True, inf=False, max_code=0x7F)
FP6 = Format("fp6", 2, 3, inf=False, nan=False, max_code=0x1F)
BF6 = Format("bf6", 3, 2, inf=False, nan=False, max_code=0x1F)
FP4 = Format("fp4", 2, 1, inf=False, nan=False, max_code=0x7)


def quiet(fmt, bits):
    return bits | 1 << (fmt.mbits - 1)


def is_signal(fmt, bits):
    return fmt.is_nan(bits) and fmt.has_inf and not bits >> (fmt.mbits - 1) & 1


def convert(src, bits, dst, mode=0, saturate=False):
    if src.is_nan(bits):
        if dst.fnuz or not dst.has_inf:
            return dst.qnan if dst.fnuz else src.sign(bits) * dst.sign_bit | dst.qnan
        m = src.mantissa(bits)
        m = m << (dst.mbits - src.mbits) if dst.mbits >= src.mbits else m >> (src.mbits - dst.mbits)
        return src.sign(bits) * dst.sign_bit | dst.inf | m | 1 << (dst.mbits - 1)
    if src.is_inf(bits):
        if not dst.has_inf:
            if saturate:
                return src.sign(bits) * dst.sign_bit | dst.max_code
            return dst.qnan if dst.fnuz else src.sign(bits) * dst.sign_bit | dst.qnan
        return src.sign(bits) * dst.sign_bit | (dst.max_code if saturate else dst.inf)
    s, m, e = src.parts(bits)
    return dst.round_to(s, m, e, mode, 0, saturate)


def add_exact(a, b, mode):
    """Sum of two (sign, man, exp); an exact zero takes the sign IEEE gives it."""
    e = min(a[2], b[2])
    x = (a[1] << (a[2] - e)) * (-1 if a[0] else 1)
    y = (b[1] << (b[2] - e)) * (-1 if b[0] else 1)
    t = x + y
    if t == 0:
        if a[0] == b[0]:
            return a[0], 0, e
        return 1 if mode == 2 else 0, 0, e
    return (1, -t, e) if t < 0 else (0, t, e)


def add(f, a, b, mode=0):
    if f.is_nan(a) or f.is_nan(b):
        return f.qnan
    if f.is_inf(a) or f.is_inf(b):
        if f.is_inf(a) and f.is_inf(b) and f.sign(a) != f.sign(b):
            return f.qnan
        return a if f.is_inf(a) else b
    s, m, e = add_exact(f.parts(a), f.parts(b), mode)
    return f.round_to(s, m, e, mode)


def mul(f, a, b, mode=0):
    if f.is_nan(a) or f.is_nan(b):
        return f.qnan
    s = f.sign(a) ^ f.sign(b)
    if f.is_inf(a) or f.is_inf(b):
        return f.qnan if f.is_zero(a) or f.is_zero(b) else s * f.sign_bit | f.inf
    _, ma, ea = f.parts(a)
    _, mb, eb = f.parts(b)
    return f.round_to(s, ma * mb, ea + eb, mode)


def fma(f, a, b, c, mode=0):
    if f.is_nan(a) or f.is_nan(b) or f.is_nan(c):
        return f.qnan
    s = f.sign(a) ^ f.sign(b)
    if f.is_inf(a) or f.is_inf(b):
        if f.is_zero(a) or f.is_zero(b) or (f.is_inf(c) and f.sign(c) != s):
            return f.qnan
        return s * f.sign_bit | f.inf
    if f.is_inf(c):
        return c
    _, ma, ea = f.parts(a)
    _, mb, eb = f.parts(b)
    r = add_exact((s, ma * mb, ea + eb), f.parts(c), mode)
    return f.round_to(r[0], r[1], r[2], mode)


def div(f, a, b, mode=0):
    if f.is_nan(a) or f.is_nan(b):
        return f.qnan
    s = f.sign(a) ^ f.sign(b)
    if f.is_inf(a):
        return f.qnan if f.is_inf(b) else s * f.sign_bit | f.inf
    if f.is_inf(b):
        return s * f.sign_bit
    if f.is_zero(b):
        return f.qnan if f.is_zero(a) else s * f.sign_bit | f.inf
    _, ma, ea = f.parts(a)
    _, mb, eb = f.parts(b)
    extra = f.mbits + 4 + mb.bit_length()
    q, r = divmod(ma << extra, mb)
    return f.round_to(s, q, ea - eb - extra, mode, 1 if r else 0)


def sqrt(f, a, mode=0):
    if f.is_nan(a):
        return f.qnan
    if f.is_zero(a):
        return a
    if f.sign(a):
        return f.qnan
    if f.is_inf(a):
        return a
    _, m, e = f.parts(a)
    extra = 2 * (f.mbits + 4)
    if (e - extra) & 1:
        extra += 1
    m <<= extra
    r = math.isqrt(m)
    return f.round_to(0, r, (e - extra) // 2, mode, 1 if r * r != m else 0)


def ldexp(f, a, n, mode=0):
    if f.is_nan(a):
        return f.qnan
    if f.is_inf(a) or f.is_zero(a):
        return a
    s, m, e = f.parts(a)
    n = max(-5000, min(5000, n))
    return f.round_to(s, m, e + n, mode)


def to_int(f, a):
    """Truncated value; infinities come out as huge numbers, NaN as 0."""
    if f.is_nan(a):
        return 0
    if f.is_inf(a):
        return -(1 << 200) if f.sign(a) else 1 << 200
    s, m, e = f.parts(a)
    n = m << e if e >= 0 else m >> -e
    return -n if s else n


def integral(f, a, how):
    """trunc, floor, ceil or rndne of a, as bits; the sign of zero is kept."""
    if f.is_nan(a):
        return f.qnan
    if f.is_inf(a) or f.is_zero(a):
        return a
    s, m, e = f.parts(a)
    if e >= 0:
        return a
    n, rest, half = m >> -e, m & ((1 << -e) - 1), 1 << (-e - 1)
    if rest:
        if how == "floor":
            n += s
        elif how == "ceil":
            n += 1 - s
        elif how == "rndne":
            n += 1 if rest > half or (rest == half and n & 1) else 0
    return f.round_to(s, n, 0)


def compare(f, a, b):
    """-1, 0, 1 or None when unordered."""
    if f.is_nan(a) or f.is_nan(b):
        return None
    ka, kb = order(f, a), order(f, b)
    return (ka > kb) - (ka < kb)


def order(f, a):
    m = a & (f.sign_bit - 1)
    return -m if a & f.sign_bit else m


def from_int(f, n, mode=0):
    return f.round_to(1 if n < 0 else 0, abs(n), 0, mode)


def to_float(f, a):
    """A Python float (double)."""
    if f.is_nan(a):
        return math.nan
    if f.is_inf(a):
        return -math.inf if f.sign(a) else math.inf
    s, m, e = f.parts(a)
    v = math.ldexp(m, e)
    return -v if s else v


def from_float(f, x, mode=0):
    if math.isnan(x):
        return f.qnan
    if math.isinf(x):
        return (f.sign_bit if x < 0 else 0) | f.inf
    s = 1 if math.copysign(1, x) < 0 else 0
    m, e = math.frexp(abs(x))
    return f.round_to(s, int(m * (1 << 53)), e - 53, mode)
