"""An evaluator of the pseudocode in AMD's instruction manuals.

The texts are arguments, never part of this repository: sections "## FORMAT NAME" followed by statements. `Manual` reads
one; `Program` compiles one section to Python closures; `Machine` holds the state a run works on (registers of a wave,
MODE, memory). What the texts leave to words (conversions, exponent, frexp, transcendental functions, ...) is written here
from the manuals' definitions, in number.py's exact arithmetic."""
import math
import re
import sys

import number as N

TYPES = {"f16": N.F16, "f32": N.F32, "f64": N.F64, "bf16": N.BF16}


class EvalError(Exception):
    pass


class V:
    """A value: kind U, I, B, F (its format), L (integer literal without a type) or LF (float literal without one)."""
    __slots__ = ("k", "w", "n", "f")

    def __init__(self, k, w, n, f=None):
        self.k, self.w, self.n, self.f = k, w, n, f

    def bits(self):
        return self.n & ((1 << self.w) - 1)

    def __repr__(self):
        return "V(%s%d %#x)" % (self.k, self.w, self.n)


def vu(w, n):
    return V("U", w, n & ((1 << w) - 1))


def vi(w, n):
    n &= (1 << w) - 1
    return V("I", w, n - (1 << w) if n >> (w - 1) else n)


def vb(w, n):
    return V("B", w, n & ((1 << w) - 1))


def vf(fmt, bits):
    return V("F", fmt.width, bits, fmt)


def vbool(x):
    return V("U", 1, 1 if x else 0)


TOKEN = re.compile(r"""
  (?P<sized>\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)(?:ULL|LL|U|I|B|F)?)
 |(?P<cast>\d+'(?:BF|[UIBF])(?![A-Za-z]))
 |(?P<num>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U|F)?)
 |(?P<id>[A-Za-z_]\w*)
 |(?P<op>\+:|\*\*|<<|>>|<=|>=|==|!=|<>|&&|\|\||\+=|-=|\*=|\|=|&=|\^=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
 |(?P<space>\s+)
""", re.X)


def tokenize(text):
    out, pos = [], 0
    while pos < len(text):
        m = TOKEN.match(text, pos)
        if not m:
            raise EvalError("cannot read %r" % text[pos:pos + 20])
        pos = m.end()
        if m.lastgroup != "space":
            out.append((m.lastgroup, m.group()))
    out.append(("end", ""))
    return out


class Manual:
    """Sections of one text: {(format, name): source without comments}."""

    def __init__(self, path):
        self.sections, key, lines = {}, None, []
        self.fallback = None  # where an instruction called by name is looked up when this text has it not
        for line in open(path, encoding="utf-8"):
            if line.startswith("## "):
                self._close(key, lines)
                key, lines = tuple(line.split()[1:3]), []
            else:
                lines.append(line.split("//")[0].rstrip())
        self._close(key, lines)

    def _close(self, key, lines):
        if key and key not in self.sections:
            self.sections[key] = "\n".join(x for x in lines if x)


class Return(Exception):
    def __init__(self, value):
        self.value = value


class Break(Exception):
    pass


class Parser:
    """Recursive descent to closures f(m) over a Machine."""

    def __init__(self, text):
        self.t, self.p = tokenize(text), 0
        self.names = set()

    def peek(self):
        return self.t[self.p][1]

    def kind(self):
        return self.t[self.p][0]

    def take(self, want=None):
        x = self.t[self.p][1]
        if want is not None and x != want:
            raise EvalError("expected %r, found %r" % (want, x))
        self.p += 1
        return x

    def program(self):
        body = self.block(("",))
        if self.kind() != "end":
            raise EvalError("unread text at %r" % self.peek())
        return body

    def block(self, ends):
        out = []
        while self.peek() not in ends:
            if self.peek() == ";":
                self.take()
                continue
            if self.kind() == "end":
                raise EvalError("unexpected end")
            out.append(self.statement())
        out = tuple(out)

        def run(m):
            for s in out:
                s(m)
        return run

    def statement(self):
        x = self.peek()
        if x == "declare":
            self.take()
            name = self.take()
            self.take(":")
            cast = self.take()
            count = None
            if self.peek() == "[":
                self.take()
                count = int(self.take())
                self.take("]")
            w, k = cast.split("'")
            w = int(w)

            def declare(m):
                if name == "S":
                    m.vars[name] = [m.regs["S0"], m.regs["S1"], m.regs["S2"]]  # the sources, numbered
                    return
                if name in m.regs:
                    return  # a field of the instruction: it has its value
                m.vars[name] = [zero(k, w) for _ in range(count)] if count else zero(k, w)
            return declare
        if x == "if":
            return self.if_statement()
        if x == "for":
            return self.for_statement()
        if x == "break":
            self.take()

            def brk(m):
                raise Break()
            return brk
        if x == "return":
            self.take()
            e = self.expr()

            def ret(m):
                raise Return(e(m))
            return ret
        if self.kind() == "id" and self.t[self.p + 1][1] == "=" and self.t[self.p + 2][1] == "lambda":
            return self.lambda_statement()
        if self.kind() == "id" and self.t[self.p + 1][1] == "(":
            e = self.expr()
            return lambda m: e(m)
        return self.assignment()

    def if_statement(self):
        arms, other = [], None
        self.take("if")
        cond = self.expr()
        self.take("then")
        arms.append((cond, self.block(("elsif", "else", "endif"))))
        while self.peek() == "elsif":
            self.take()
            cond = self.expr()
            self.take("then")
            arms.append((cond, self.block(("elsif", "else", "endif"))))
        if self.peek() == "else":
            self.take()
            other = self.block(("endif",))
        self.take("endif")
        arms = tuple(arms)

        def run(m):
            for c, b in arms:
                if truth(c(m)):
                    b(m)
                    return
            if other:
                other(m)
        return run

    def for_statement(self):
        self.take("for")
        name = self.take()
        self.take("in")
        lo = self.expr()
        self.take(":")
        hi = self.expr()
        self.take("do")
        body = self.block(("endfor",))
        self.take("endfor")

        def run(m):
            a, b = lo(m), hi(m)
            for i in range(a.n, b.n + 1):
                m.vars[name] = V(a.k if a.k != "L" else "I", a.w, i)
                try:
                    body(m)
                except Break:
                    break
        return run

    def lambda_statement(self):
        name = self.take()
        self.take("=")
        self.take("lambda")
        self.take("(")
        args = []
        while self.peek() != ")":
            args.append(self.take())
            if self.peek() == ",":
                self.take()
        self.take(")")
        self.take("(")
        if self.peek() in ("declare", "if", "for"):
            body, expression = self.block((")",)), None
        else:
            body, expression = None, self.expr()
        self.take(")")

        def call(m, values):
            saved = m.vars
            m.vars = dict(saved)
            m.vars.update(zip(args, values))
            try:
                if expression:
                    return expression(m)
                body(m)
            except Return as r:
                return r.value
            finally:
                m.vars = saved
            raise EvalError("%s returned nothing" % name)

        def define(m):
            m.functions[name] = call
        return define

    def assignment(self):
        if self.peek() == "{":
            self.take()
            parts = [self.place()]
            while self.peek() == ",":
                self.take()
                parts.append(self.place())
            self.take("}")
            self.take("=")
            e = self.expr()

            def spread(m):
                v, at = e(m), 0
                for p in reversed(parts):
                    w = place_width(p)
                    store(m, p, vb(w, v.bits() >> at))
                    at += w
            return spread
        places = [self.place()]
        op = self.take()
        if op == "=":
            # a chain of assignments takes the one value
            while True:
                mark = self.p
                if self.kind() != "id":
                    break
                try:
                    nxt = self.place()
                    if self.peek() != "=":
                        raise EvalError("no chain")
                except EvalError:
                    self.p = mark
                    break
                self.take("=")
                places.append(nxt)
            e = self.expr()

            def assign(m):
                v = e(m)
                for p in reversed(places):
                    store(m, p, v)
            return assign
        if op not in ("+=", "-=", "*=", "|=", "&=", "^="):
            raise EvalError("not an assignment: %r" % op)
        e = self.expr()
        place = places[0]
        get = load_place(place)

        def update(m):
            store(m, place, binary(m, op[0], get(m), e(m)))
        return update

    def place(self):
        """name followed by accessors: [("idx", f)], ("slice", hi, lo), ("plus", lo, n), ("type", k, w)."""
        if self.kind() != "id":
            raise EvalError("expected a place, found %r" % self.peek())
        name, acc = self.take(), []
        while self.peek() in ("[", "."):
            acc.append(self.accessor())
        return name, tuple(acc)

    def accessor(self):
        if self.take() == ".":
            return type_of(self.take())
        a = self.expr()
        if self.peek() == ":":
            self.take()
            b = self.expr()
            self.take("]")
            return "slice", a, b
        if self.peek() == "+:":
            self.take()
            b = self.expr()
            self.take("]")
            return "plus", a, b
        self.take("]")
        return "idx", a, None

    # expressions, loosest first
    def expr(self):
        c = self.level(0)
        if self.peek() == "?":
            self.take()
            a = self.expr()
            self.take(":")
            b = self.expr()
            return lambda m: a(m) if truth(c(m)) else b(m)
        return c

    LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<>"), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
              ("*", "/", "%"), ("**",))

    def level(self, n):
        if n == len(self.LEVELS):
            return self.unary()
        left = self.level(n + 1)
        while self.peek() in self.LEVELS[n]:
            left = self.join(self.take(), left, self.level(n + 1))
        return left

    @staticmethod
    def join(op, a, b):
        if op == "&&":
            return lambda m: vbool(truth(a(m)) and truth(b(m)))
        if op == "||":
            return lambda m: vbool(truth(a(m)) or truth(b(m)))
        return lambda m: binary(m, op, a(m), b(m))

    def unary(self):
        x = self.peek()
        if x in ("-", "+", "~", "!"):
            self.take()
            e = self.unary()
            if x == "+":
                return e
            if x == "!":
                return lambda m: vbool(not truth(e(m)))
            if x == "~":
                return lambda m: invert(e(m))
            return lambda m: negate(m, e(m))
        return self.postfix(self.primary())

    def postfix(self, e):
        while self.peek() in ("[", "."):
            e = access(e, self.accessor())
        return e

    def primary(self):
        kind, x = self.t[self.p]
        if x == "(":
            self.take()
            e = self.expr()
            self.take(")")
            return e
        if x == "{":
            self.take()
            parts = [self.expr()]
            while self.peek() == ",":
                self.take()
                parts.append(self.expr())
            self.take("}")

            def concat(m):
                n = w = 0
                for p in parts:
                    v = p(m)
                    n, w = n << v.w | v.bits(), w + v.w
                return vb(w, n)
            return concat
        if kind == "sized":
            self.take()
            v = sized_literal(x)
            return lambda m: v
        if kind == "num":
            self.take()
            v = literal(x)
            return lambda m: v
        if kind == "cast":
            self.take()
            self.take("(")
            e = self.expr()
            self.take(")")
            w, k = x.split("'")
            w = int(w)
            return lambda m: cast(m, k, w, e(m))
        if kind == "id":
            self.take()
            if self.peek() == "(":
                self.take()
                args = []
                while self.peek() != ")":
                    args.append(self.expr())
                    if self.peek() == ",":
                        self.take()
                self.take(")")
                self.names.add(x + "()")
                return lambda m: call(m, x, [a(m) for a in args])
            if x == "VGPR" or x == "SGPR" or x == "MEM" or x == "LDS":
                self.names.add(x)
                acc = []
                want = 2 if x == "VGPR" else 1
                for _ in range(want):
                    acc.append(self.accessor())
                if x == "VGPR":
                    lane, reg = acc[0][1], acc[1][1]
                    return lambda m: vb(32, m.vgpr[reg(m).n][lane(m).n])
                at = acc[0][1]
                if x == "SGPR":
                    return lambda m: m.read_sgpr(at(m).n)
                return lambda m: Memory(at(m).n)
            self.names.add(x)
            return lambda m: m.read(x)
        raise EvalError("unexpected %r" % x)


class Memory:
    """MEM[address], before its type says how wide it is."""
    __slots__ = ("at",)

    def __init__(self, at):
        self.at = at


def zero(k, w):
    if k in ("F", "BF"):
        return vf(float_format(k, w), 0)
    return V(k, w, 0)


def float_format(k, w):
    if k == "BF":
        return N.BF16
    return {16: N.F16, 32: N.F32, 64: N.F64}[w]


def type_of(name):
    m = re.fullmatch(r"(bf|fp|f|u|i|b)(\d+)", name)
    if not m:
        return "member", name, None
    k, w = m.group(1), int(m.group(2))
    if k == "f" or name == "bf16":
        return "type", "F", TYPES[name]
    if k == "fp" or k == "bf":
        return "type", "S" + name, w
    return "type", k.upper(), w


def literal(x):
    if x.endswith("F") and not x.startswith("0x"):
        return vf(N.F32, N.from_float(N.F32, float(x[:-1])))
    if "." in x:
        return V("LF", 64, N.from_float(N.F64, float(x)), N.F64)
    m = re.fullmatch(r"(0x[0-9a-fA-F]+|\d+)(ULL|LL|U)?", x)
    n = int(m.group(1), 0)
    return {"ULL": vu(64, n), "LL": vi(64, n), "U": vu(32, n), None: V("L", 32, n)}[m.group(2)]


def sized_literal(x):
    w, rest = x.split("'")
    w = int(w)
    if "." in rest:
        f = float_format("F", w)
        return vf(f, N.from_float(f, float(rest.rstrip("F"))))
    m = re.fullmatch(r"(0x[0-9a-fA-F]+|\d+)(ULL|LL|U|I|B|F)?", rest)
    n = int(m.group(1), 0)
    return vi(w, n) if m.group(2) == "I" else vu(w, n)


def truth(v):
    if v.k in ("F", "LF"):
        return not v.f.is_zero(v.n)
    return v.n != 0


def invert(v):
    if v.k in ("I", "L"):
        return V(v.k, v.w, ~v.n)
    return V(v.k, v.w, v.bits() ^ ((1 << v.w) - 1))


def negate(m, v):
    if v.k in ("F", "LF"):
        return V(v.k, v.w, v.n ^ v.f.sign_bit, v.f)
    if v.k in ("L",):
        return V("L", v.w, -v.n)
    return vi(v.w, -v.n) if v.k == "I" else V(v.k, v.w, -v.n & ((1 << v.w) - 1))


def retype(v, k, w):
    """v.u32, v.i16, v.f32, ...: the low bits, as that type; a signed value widens with its sign."""
    if isinstance(v, Memory):
        raise EvalError("memory read outside its type")
    if k == "F":
        return vf(w, v.bits() & ((1 << w.width) - 1))
    if k.startswith("S"):
        return V(k, w, v.bits() & ((1 << w) - 1))
    if k == v.k and w >= v.w:
        return V(k, w, v.n)
    if v.k in ("I", "L"):
        n = v.n
    else:
        n = v.bits()
    return vi(w, n) if k == "I" else V(k, w, n & ((1 << w) - 1))


def access(e, a):
    kind, x, y = a
    if kind == "type":
        width = x == "F" and y.width or y

        def typed(m):
            v = e(m)
            if isinstance(v, Memory):
                v = vb(width, m.load(v.at, width // 8))
            elif v.k == "X":
                return v  # DENORM.f32
            elif v.k == "LF" and x == "F":
                return vf(y, N.convert(v.f, v.n, y))  # INF.f32
            return retype(v, x, y)
        return typed
    if kind == "member":
        return lambda m: m.member(e(m), x)
    if kind == "idx":
        def index(m):
            v, i = e(m), x(m).n
            if isinstance(v, list):
                return v[i]
            return vu(1, v.bits() >> i)
        return index
    if kind == "slice":
        def part(m):
            v, hi, lo = e(m), x(m).n, y(m).n
            if isinstance(v, Memory):
                v = vb(hi + 1, m.load(v.at, (hi + 8) // 8))
            if hi >= lo:
                return vb(hi - lo + 1, v.bits() >> lo)
            n = 0
            for i in range(lo - hi + 1):  # a reversed range reverses the bits
                n |= (v.bits() >> (lo - i) & 1) << i
            return vb(lo - hi + 1, n)
        return part

    def plus(m):
        v, lo, n = e(m), x(m).n, y(m).n
        return vb(n, v.bits() >> lo)
    return plus


def place_width(p):
    for a in p[1]:
        if a[0] == "type":
            return a[2].width if a[1] == "F" else a[2]
    raise EvalError("a place without a width")


def load_place(p):
    name, acc = p
    if name in ("VGPR", "SGPR", "MEM", "LDS"):
        if name == "VGPR":
            lane, reg = acc[0][1], acc[1][1]
            e, acc = (lambda m: vb(32, m.vgpr[reg(m).n][lane(m).n])), acc[2:]
        else:
            at = acc[0][1]
            e = (lambda m: m.read_sgpr(at(m).n)) if name == "SGPR" else (lambda m: Memory(at(m).n))
            acc = acc[1:]
    else:
        e = lambda m: m.read(name)
    for a in acc:
        e = access(e, a)
    return e


def store(m, p, v):
    name, acc = p
    i = 0
    if name == "VGPR":
        lane, reg = acc[0][1](m).n, acc[1][1](m).n
        get = lambda: vb(32, m.vgpr[reg][lane])
        put = lambda x: m.write_vgpr(reg, lane, x.bits())
        i = 2
    elif name == "SGPR":
        at = acc[0][1](m).n
        get = lambda: m.read_sgpr(at)
        put = lambda x: m.write_sgpr(at, x)
        i = 1
    elif name in ("MEM", "LDS"):
        at = acc[0][1](m).n
        if acc[1][0] == "slice":
            hi, lo = acc[1][1](m).n, acc[1][2](m).n
            v = fit(m, v, acc[2]) if len(acc) > 2 else v
            m.store(at + lo // 8, (hi - lo + 1) // 8, v.n & ((1 << (hi - lo + 1)) - 1))
            return
        if len(acc) > 2:
            raise EvalError("part of a memory location")
        m.store(at, place_width(p) // 8, fit(m, v, acc[1]).bits())
        return
    elif isinstance(m.vars.get(name), list):
        items, n = m.vars[name], acc[0][1](m).n
        get = lambda: items[n]

        def put(x):
            items[n] = x
        i = 1
    else:
        get = lambda: m.read(name) if m.known(name) else vb(0, 0)
        put = lambda x: m.write(name, x)
    rest = acc[i:]
    if not rest:
        put(v)
        return
    offset, width, typed = 0, None, None
    for kind, x, y in rest:
        if kind == "type":
            typed = (kind, x, y)
            width = y.width if x == "F" else y
        elif kind == "idx":
            offset, width, typed = offset + x(m).n, 1, None
        elif kind == "slice":
            hi, lo = x(m).n, y(m).n
            if hi < lo:
                raise EvalError("reversed destination")
            offset, width, typed = offset + lo, hi - lo + 1, None
        elif kind == "plus":
            offset, width, typed = offset + x(m).n, y(m).n, None
        else:
            m.write_member(name, x, v)
            return
    if typed:
        v = fit(m, v, typed)
    if offset == 0 and typed and len(rest) == 1 and name not in m.fixed:
        put(v)  # an untyped variable takes the type it is assigned with
        return
    old = get()
    w = max(old.w, offset + width)
    mask = ((1 << width) - 1) << offset
    bits = v.n & ((1 << width) - 1)
    new = old.bits() & ~mask | bits << offset
    if isinstance(old, V) and old.k == "F" and old.w == w:
        put(vf(old.f, new))
    else:
        put(vb(w, new))


def fit(m, v, typed):
    """The value as it is stored in a place of that type: saturated when the instruction clamps integers."""
    _, k, w = typed
    if k == "F":
        if v.k in ("LF",) and w is not N.F64:
            return vf(w, N.convert(N.F64, v.n, w))
        return vf(w, v.bits() & ((1 << w.width) - 1))
    if m.wide and v.k in ("U", "I", "L") and k in ("U", "I"):
        lo, hi = (0, (1 << w) - 1) if k == "U" else (-(1 << (w - 1)), (1 << (w - 1)) - 1)
        return V(k, w, min(max(v.n, lo), hi))
    if v.k in ("I", "L") and v.w < w:
        return vb(w, v.n)
    return vb(w, v.n)


def binary(m, op, a, b):
    if a.k in ("F", "LF") or b.k in ("F", "LF"):
        return float_binary(m, op, a, b)
    if a.k == "X" or b.k == "X":
        raise EvalError("special in integer arithmetic")
    if op in ("<<", ">>"):
        w = 32 if a.k == "L" or a.k == "B" and a.w < 32 else a.w
        k = "I" if a.k == "L" else a.k
        n = b.n
        if n < 0:
            raise EvalError("negative shift")
        if op == "<<":
            r = a.n << n if n < 4096 else 0
        else:
            r = (a.n if a.k in ("I", "L") else a.bits()) >> n
        return vi(w, r) if k == "I" else V(k, w, r & ((1 << w) - 1))
    if op in ("==", "!=", "<>", "<", ">", "<=", ">="):
        x, y = a.n, b.n
        if a.k == "L" and b.k == "U" or a.k == "U" and b.k == "L":
            x, y = x & ((1 << 64) - 1), y & ((1 << 64) - 1)
        return vbool({"==": x == y, "!=": x != y, "<>": x != y, "<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y}[op])
    if op == "**":
        return V("L", 32, a.n ** b.n)
    if a.k == "L" and b.k == "L":
        k, w = "L", 32
    elif a.k == "L":
        k, w = b.k, b.w
    elif b.k == "L":
        k, w = a.k, a.w
    elif a.k == "B" and b.k == "B" and max(a.w, b.w) < 32 and op in "+-*":
        k, w = "U", 32  # parts of a register without a type: the sum of bytes is not a byte
    elif a.w == b.w:
        k, w = (a.k if a.k == b.k else "U" if "U" in (a.k, b.k) else a.k), a.w
    else:
        k, w = (a.k, a.w) if a.w > b.w else (b.k, b.w)
    if op in ("&", "|", "^"):
        x, y = a.n & ((1 << w) - 1), b.n & ((1 << w) - 1)
        r = x & y if op == "&" else x | y if op == "|" else x ^ y
        return vi(w, r) if k in ("I",) else V("I" if k == "L" else k, w, r)
    x, y = a.n, b.n
    if op == "+":
        r = x + y
    elif op == "-":
        r = x - y
    elif op == "*":
        r = x * y
    elif op == "%":
        r = x - y * (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)
    elif op == "/":
        r = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    else:
        raise EvalError("integer " + op)
    if m.wide:
        return V("I" if r < 0 and k == "U" and m.wide == "signed" else k, w, r)
    if k == "L":
        return V("L", 32, r)
    return vi(w, r) if k == "I" else V(k, w, r & ((1 << w) - 1))


def float_binary(m, op, a, b):
    if b.k == "X":
        if op == "==" and b.n == "DENORM":
            return vbool(a.f.is_denormal(a.n) if a.k == "F" else False)
        raise EvalError("special in float arithmetic")
    if op == "**":
        if a.k in ("F", "LF") and b.k in ("I", "L"):
            return V("P", 0, b.n, a.f)  # a power of two, unbounded: 2.0 ** i
        raise EvalError("power")
    if a.k == "P" or b.k == "P":
        p, x = (a, b) if a.k == "P" else (b, a)
        if op != "*" or x.k != "F":
            raise EvalError("power of two")
        return m.made(x.f, N.ldexp(x.f, x.n, p.n, m.rounding(x.f)))
    # a literal without a type takes the other's
    f = a.f if a.k == "F" else b.f if b.k == "F" else N.F64
    x, y = as_format(a, f), as_format(b, f)
    if a.k == "F" and b.k == "F" and a.f is not b.f:
        f = a.f if a.f.width >= b.f.width else b.f
        x, y = N.convert(a.f, a.n, f), N.convert(b.f, b.n, f)
    if op in ("==", "!=", "<>", "<", ">", "<=", ">="):
        c = N.compare(f, x, y)
        if op == "!=":
            return vbool(c is None or c != 0)
        if c is None:
            return vbool(False)
        return vbool({"==": c == 0, "<>": c != 0, "<": c < 0, ">": c > 0, "<=": c <= 0, ">=": c >= 0}[op])
    mode = m.rounding(f)
    if op == "+":
        return m.made(f, N.add(f, x, y, mode))
    if op == "-":
        return m.made(f, N.add(f, x, y if f.is_nan(y) else y ^ f.sign_bit, mode))
    if op == "*":
        return m.made(f, N.mul(f, x, y, mode))
    if op == "/":
        return m.made(f, N.div(f, x, y, mode))
    raise EvalError("float " + op)


def as_format(v, f):
    if v.k in ("F", "LF"):
        return v.n if v.f is f else N.convert(v.f, v.n, f)
    if v.k in ("L", "I", "U"):
        return N.from_int(f, v.n)
    raise EvalError("%s as %s" % (v.k, f.name))


def cast(m, k, w, v):
    if k in ("F", "BF"):
        f = float_format(k, w)
        if v.k == "P":
            return V("P", 0, v.n, f)
        if v.k in ("F", "LF"):
            if v.f is f:
                return vf(f, v.n)
            r = N.convert(v.f, v.n, f, m.rounding(f))
            if N.is_signal(v.f, v.n) and f.mbits > v.f.mbits:
                r ^= 1 << (f.mbits - 1)  # 64'F(x) only widens: isSignalNAN(64'F(x)) asks about x
            return vf(f, r)
        if v.k.startswith("S"):
            s = m.small(v.k[1:])
            return vf(f, N.convert(s, v.n, f))
        return vf(f, v.n & ((1 << f.width) - 1))  # bits
    if v.k in ("F", "LF"):
        v = vb(v.w, v.n)
    if m.wide and k == v.k and v.k in ("U", "I"):
        return V(k, w, v.n)
    n = v.n if v.k in ("I", "L") else v.bits()
    return vi(w, n) if k == "I" else V(k, w, n & ((1 << w) - 1))


def saturate(n, lo, hi):
    return min(max(n, lo), hi)


def f_of(v):
    if v.k not in ("F", "LF"):
        raise EvalError("a float is needed, not %s%d" % (v.k, v.w))
    return v.f


def scale_exp(v):
    return v.bits() - 127


def fn_convert_small(m, name, args):
    """f32_to_fp8, fp6_to_bf16_scale, f16_to_bf8_sr_scale, ...: the value is divided by (multiplied by) 2^(scale - 127)."""
    x = re.fullmatch(r"(f32|f16|bf16|fp8|bf8|fp6|bf6|fp4)_to_(f32|f16|bf16|fp8|bf8|fp6|bf6|fp4)(_sr)?(_scale)?", name)
    if not x:
        return None
    src, dst, sr, scaled = x.groups()
    big = {"f32": N.F32, "f16": N.F16, "bf16": N.BF16}
    s = big.get(src) or m.small(src)
    d = big.get(dst) or m.small(dst)
    bits = args[0].bits()
    if s in (N.F16, N.BF16, N.F32) and d in (N.F16, N.BF16, N.F32) and not scaled and not sr:
        mode = m.rounding(d)
        return m.made(d, N.convert(s, bits, d, mode))
    exp = scale_exp(args[-1]) if scaled else 0
    if scaled and args[-1].bits() == 255:
        return m.made(d, d.qnan) if d.has_nan else V("S" + dst, d.width, d.max_code)
    sat = not d.has_nan or (not d.has_inf and m.saturate_fp8)
    if s.is_nan(bits) and not d.has_nan:
        m.doubtful = True
        return V("S" + dst, d.width, 0)
    if s.is_nan(bits) or s.is_inf(bits):
        r = N.convert(s, bits, d, 0, not d.has_nan)
    elif sr:
        r = stochastic(s, bits, d, exp, args[1].bits(), sat)
    else:
        sg, man, e = s.parts(bits)
        to_small = d.width <= 8
        r = d.round_to(sg, man, e - exp if to_small else e + exp, 0, 0, sat)
    if d in (N.F32, N.F16, N.BF16):
        return m.made(d, r)
    return V("S" + dst, d.width, r)


def stochastic(s, bits, d, exp, rnd, sat):
    """Rounding by adding random bits below the last place kept, then cutting."""
    raise EvalError("stochastic rounding is described only in words")


def call(m, name, args):
    if name in m.functions:
        return m.functions[name](m, args)
    f = FUNCTIONS.get(name)
    if f:
        return f(m, *args)
    if name.startswith("v_") or name.startswith("s_"):
        return m.call_instruction(name, args)
    r = fn_convert_small(m, name, args)
    if r is None:
        raise EvalError("no definition of %s()" % name)
    return r


def fn_abs(m, a):
    if a.k in ("F", "LF"):
        return V(a.k, a.w, a.n & ~a.f.sign_bit, a.f)
    return vi(a.w, abs(a.n))


def fn_round(how):
    def f(m, a):
        x = f_of(a)
        return m.made(x, N.integral(x, a.n, how))
    return f


def fn_to_int(lo, hi, k, w):
    return lambda m, a: (vi if k == "I" else vu)(w, saturate(N.to_int(f_of(a), a.n), lo, hi))


def fn_from_int(f):
    return lambda m, a: vf(f, N.from_int(f, a.n, m.rounding(f)))


def fn_fma(m, a, b, c):
    f = next(v.f for v in (a, b, c) if v.k == "F")
    return m.made(f, N.fma(f, as_format(a, f), as_format(b, f), as_format(c, f), m.rounding(f)))


def fn_norm(top, lo, k):
    def f(m, a):
        x = f_of(a)
        if x.is_nan(a.n):
            return V(k, 16, 0)
        if x.is_inf(a.n):
            n = (lo if x.sign(a.n) else top)
        else:
            s, man, e = x.parts(a.n)
            num = man * top * (1 << e if e > 0 else 1)
            den = 1 if e >= 0 else 1 << -e
            q, r = divmod(num, den)
            if r * 2 > den or (r * 2 == den and q & 1):
                q += 1
            n = saturate(-q if s else q, lo, top)
            if r and abs(r * 2 - den) * 64 < den:
                m.doubtful = True
        return vi(16, n) if k == "I" else vu(16, n)
    return f


def approximate(f):
    """A transcendental function of doubles: the result is rounded and marked as approximate."""
    def g(m, *args):
        x = args[-1]
        fmt = f_of(x)
        if fmt.is_nan(x.n):
            return m.made(fmt, fmt.qnan)
        m.approximate = True
        try:
            r = f(N.to_float(fmt, x.n))
        except (ValueError, OverflowError, ZeroDivisionError):
            r = math.nan
        if math.isnan(r):
            return m.made(fmt, fmt.qnan)
        return m.made(fmt, N.from_float(fmt, r))
    return g


def log2(x):
    if x == 0:
        return -math.inf
    if x < 0:
        return math.nan
    return math.inf if math.isinf(x) else math.log2(x)


def exp2(x):
    if x == -math.inf:
        return 0.0
    if x > 1023.9:
        return math.inf
    return 2.0 ** x if x > -1100 else 0.0


def fn_sqrt(m, a):
    f = f_of(a)
    m.approximate = True
    return m.made(f, N.sqrt(f, a.n, m.rounding(f)))


def fn_ldexp(m, a, n):
    f = f_of(a)
    return m.made(f, N.ldexp(f, a.n, n.n, m.rounding(f)))


def fn_exponent(m, a):
    return vi(32, f_of(a).exponent(a.n))


def fn_mantissa(m, a):
    """As frexp gives it: the sign, and a magnitude in [0.5, 1)."""
    f = f_of(a)
    if f.is_nan(a.n) or f.is_inf(a.n) or f.is_zero(a.n):
        return a
    s, man, _ = f.parts(a.n)
    return vf(f, f.round_to(s, man, -man.bit_length()))


def fn_signext(m, a):
    return vi(64, vi(a.w, a.bits()).n)


def fn_signext_from_bit(m, a, bit):
    n = bit.n
    if n == 0:
        return V(a.k, a.w, 0)
    if n > a.w:
        return a
    return vi(a.w, vi(n, a.bits()).n)


def fn_fract(m, a):
    f = f_of(a)
    return m.made(f, N.add(f, a.n, N.integral(f, a.n, "floor") ^ f.sign_bit, 0))


def fn_quiet(m, a):
    return V(a.k, a.w, N.quiet(a.f, a.n), a.f)


def fn_ff1(m, a):
    b = a.bits()
    return vi(32, (b & -b).bit_length() - 1 if b else -1)


def fn_uint_sat(lo, hi, k, w):
    return lambda m, a: (vi if k == "I" else vu)(w, saturate(a.n, lo, hi))


def fn_float32(m, s, e, man):
    return vf(N.F32, s.n << 31 | (e.n & 255) << 23 | man.bits() & 0x7FFFFF)


INT = {"i": "I", "u": "U"}
FUNCTIONS = {
    "abs": fn_abs, "trunc": fn_round("trunc"), "floor": fn_round("floor"), "fract": fn_fract,
    "isEven": lambda m, a: vbool(N.to_int(f_of(a), a.n) % 2 == 0), "fma": fn_fma, "sqrt": fn_sqrt, "ldexp": fn_ldexp,
    "log2": approximate(log2), "pow": approximate(exp2), "sin": approximate(math.sin), "cos": approximate(math.cos),
    "exponent": fn_exponent, "mantissa": fn_mantissa, "sign": lambda m, a: vu(1, f_of(a).sign(a.n)),
    "isNAN": lambda m, a: vbool(f_of(a).is_nan(a.n)), "isSignalNAN": lambda m, a: vbool(m.signalling(a)),
    "isQuietNAN": lambda m, a: vbool(f_of(a).is_nan(a.n) and not m.signalling(a)), "cvtToQuietNAN": fn_quiet,
    "signext": fn_signext, "signext_from_bit": fn_signext_from_bit, "s_ff1_i32_b32": fn_ff1, "s_ff1_i32_b64": fn_ff1,
    "f32_to_i32": fn_to_int(-(1 << 31), (1 << 31) - 1, "I", 32), "f64_to_i32": fn_to_int(-(1 << 31), (1 << 31) - 1, "I", 32),
    "f32_to_u32": fn_to_int(0, (1 << 32) - 1, "U", 32), "f64_to_u32": fn_to_int(0, (1 << 32) - 1, "U", 32),
    "f16_to_i16": fn_to_int(-32768, 32767, "I", 16), "f16_to_u16": fn_to_int(0, 65535, "U", 16),
    "v_cvt_i16_f32": fn_to_int(-32768, 32767, "I", 16), "v_cvt_u16_f32": fn_to_int(0, 65535, "U", 16),
    "f32_to_u8": fn_to_int(0, 255, "U", 8),
    "i32_to_f32": fn_from_int(N.F32), "u32_to_f32": fn_from_int(N.F32), "i32_to_f64": fn_from_int(N.F64),
    "u32_to_f64": fn_from_int(N.F64), "i16_to_f16": fn_from_int(N.F16), "u16_to_f16": fn_from_int(N.F16),
    "f32_to_f64": lambda m, a: m.made(N.F64, N.convert(N.F32, a.n, N.F64)),
    "f64_to_f32": lambda m, a: m.made(N.F32, N.convert(N.F64, a.n, N.F32, m.rounding(N.F32))),
    "f16_to_snorm": fn_norm(32767, -32767, "I"), "f32_to_snorm": fn_norm(32767, -32767, "I"),
    "f16_to_unorm": fn_norm(65535, 0, "U"), "f32_to_unorm": fn_norm(65535, 0, "U"),
    "i32_to_i16": fn_uint_sat(-32768, 32767, "I", 16), "u32_to_u16": fn_uint_sat(0, 65535, "U", 16),
    "i16_to_i32": lambda m, a: vi(32, a.n), "u16_to_u32": lambda m, a: vu(32, a.n), "i8_to_i32": lambda m, a: vi(32, a.n),
    "u8_to_u32": lambda m, a: vu(32, a.n), "i4_to_i32": lambda m, a: vi(32, a.n), "u4_to_u32": lambda m, a: vu(32, a.n),
    "float32": fn_float32, "nop": lambda m: vu(1, 0), "s_nop": lambda m, a: vu(1, 0),
}


class Machine:
    """State of one run. A lane's run reads D0, S0, ... from `regs`; a wave-level run reads and writes VGPR and SGPR."""

    def __init__(self, manual, fp8="ocp"):
        self.manual, self.fp8 = manual, fp8
        self.regs, self.vars, self.functions = {}, {}, {}
        self.vgpr, self.sgpr = {}, {}
        self.vgpr_written, self.mem = {}, None
        self.mode = {"round32": 0, "round64": 0, "ieee": 1, "dx10": 1}
        self.wide = False           # integers keep their exact value until they are stored, where they saturate
        self.loose_nan = False      # an arithmetic NaN was made: which one is not specified
        self.approximate = False    # a function with a stated error was used
        self.doubtful = False       # the text does not settle this result
        self.saturate_fp8 = False
        self.fixed = {"D0", "D1", "S0", "S1", "S2", "VCC", "EXEC", "M0", "RETURN_DATA"}
        self.cache = {}

    def start(self):
        self.vars, self.functions = {}, {}
        self.loose_nan = self.approximate = self.doubtful = False

    def small(self, name):
        if name in ("fp8", "bf8") and self.fp8 == "fnuz":
            return {"fp8": N.FP8_FNUZ, "bf8": N.BF8_FNUZ}[name]
        return {"fp8": N.FP8, "bf8": N.BF8, "fp6": N.FP6, "bf6": N.BF6, "fp4": N.FP4}[name]

    def rounding(self, f):
        r = self.vars.get("ROUND_MODE")
        if isinstance(r, V) and r.k == "X":
            return {"ROUND_TOWARD_ZERO": 3, "ROUND_NEAREST_EVEN": 0}[r.n]
        return self.mode["round64"] if f in (N.F64, N.F16) else self.mode["round32"]

    def made(self, f, bits):
        if f.is_nan(bits):
            self.loose_nan = True
        return vf(f, bits)

    def signalling(self, a):
        # 64'F(x) of a signalling NaN quiets it; the texts mean x itself
        return N.is_signal(f_of(a), a.n)

    def known(self, name):
        return name in self.vars or name in self.regs

    def read(self, name):
        v = self.vars.get(name)
        if v is None:
            v = self.regs.get(name)
        if v is None:
            v = SPECIAL.get(name)
        if v is None:
            if name == "ROUND_MODE":
                return V("X", 0, "ROUND_NEAREST_EVEN" if not self.mode["round64"] else "KEEP")
            if name in ("WAVE_MODE", "INST"):
                return V("X", 0, name)
            raise EvalError("no value of %s" % name)
        return v

    def write(self, name, v):
        old = self.regs.get(name)
        if old is not None:
            if name in self.vars:
                self.vars[name] = v
            elif name == "SCC":
                self.regs[name] = vu(1, 1 if truth(v) else 0)
            elif old.w and v.w != old.w:
                n = v.n if v.k in ("I", "L") else v.bits()
                self.regs[name] = vb(old.w, n)
            else:
                self.regs[name] = vb(old.w, v.bits())
        else:
            self.vars[name] = v

    def member(self, v, name):
        if v.k == "X" and v.n == "WAVE_MODE" and name == "IEEE":
            return vu(1, self.mode["ieee"])
        if v.k == "X" and v.n == "INST":
            return self.regs["INST." + name]
        raise EvalError("member ." + name)

    def write_member(self, base, name, v):
        if base != "TRAPSTS":
            raise EvalError("store to %s.%s" % (base, name))

    def write_vgpr(self, reg, lane, bits):
        self.vgpr_written[reg, lane] = bits
        self.vgpr[reg][lane] = bits

    def read_sgpr(self, at):
        return vb(128, sum(self.sgpr.get(at + i, 0) << 32 * i for i in range(4)))

    def write_sgpr(self, at, v):
        for i in range(max(1, v.w // 32)):
            self.sgpr[at + i] = v.bits() >> 32 * i & 0xFFFFFFFF

    def load(self, at, size):
        return int.from_bytes(bytes(self.mem[at:at + size]), "little")

    def store(self, at, size, bits):
        self.mem[at:at + size] = bits.to_bytes(size, "little")

    def call_instruction(self, name, args):
        """v_min_f32(a, b): that instruction's own text, run on the arguments."""
        key = name.upper()
        for manual, fmt, nm in ((m, f, key + s) for m in (self.manual, self.manual.fallback) if m
                                for f in ("VOP2", "VOP3", "VOP1", "VOP3P") for s in ("", "_E32", "_E64")):
            if (fmt, nm) in manual.sections:
                break
        else:
            raise EvalError("no text of %s" % name)
        if (fmt, nm) not in self.cache:
            self.cache[fmt, nm] = Parser(manual.sections[fmt, nm]).program()
        saved = self.regs, self.vars, self.functions
        self.regs = {"S%d" % i: vb(max(a.w, 32), a.bits()) for i, a in enumerate(args)}
        self.regs["D0"] = vb(max(32, args[0].w), 0)
        self.vars, self.functions = {}, {}
        try:
            self.cache[fmt, nm](self)
            d = self.regs["D0"]
        finally:
            self.regs, self.vars, self.functions = saved
        t = re.search(r"_([fiub])(\d+)(?:_u8)?$", name)
        if name.endswith("sad_u8"):
            return vu(32, d.bits())
        if not t:
            return d
        k, w = t.group(1), int(t.group(2))
        if k == "f":
            return vf(TYPES["f%d" % w], d.bits() & ((1 << w) - 1))
        return vi(w, d.bits()) if k == "i" else vu(w, d.bits())


SPECIAL = {
    "INF": V("LF", 64, N.F64.inf, N.F64), "PI": V("LF", 64, N.from_float(N.F64, math.pi), N.F64),
    "NAN": V("LF", 64, N.F64.qnan, N.F64), "DENORM": V("X", 0, "DENORM"),
    "ROUND_TOWARD_ZERO": V("X", 0, "ROUND_TOWARD_ZERO"), "ROUND_NEAREST_EVEN": V("X", 0, "ROUND_NEAREST_EVEN"),
    "MAX_FLOAT_F32": vf(N.F32, 0x7F7FFFFF), "OVERFLOW_F32": vf(N.F32, N.F32.inf), "OVERFLOW_F64": vf(N.F64, N.F64.inf),
    "UNDERFLOW_F32": vf(N.F32, 0), "UNDERFLOW_F64": vf(N.F64, 0),
}


if __name__ == "__main__":
    manual = Manual(sys.argv[1])
    good, bad = 0, {}
    for key, text in manual.sections.items():
        try:
            Parser(text).program()
            good += 1
        except (EvalError, IndexError, ValueError, KeyError) as e:
            bad[key] = str(e)
    for k, e in bad.items():
        print(*k, e, sep="\t")
    print("%d sections read, %d not" % (good, len(bad)))
