#!/usr/bin/env python3
"""Random C kernels for the comparison of the simulator with the host.

    generate.py SEED N OUT.h

writes N programs. The text is C that a host compiler and a device compiler both take (run.py says how): a program is a
struct of a thread's variables, phases that change them, and exchanges between phases (barriers with LDS, atomics, lane
permutations, ballots). The host runs a phase for every thread, then the next; the device runs them as one kernel. Nothing
undefined is generated: shifts are masked, divisors are odd, conversions are range-checked, NaNs are made canonical where
they could be seen, floating-point contraction is off.
"""
import random
import sys

INTS = {"i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64}
FLOATS = ["f16", "bf16", "f32", "f64"]
VECTORS = {"s2": "i16", "us2": "u16", "h2": "f16"}
THREADS = 128  # a workgroup


def constant(text):
    return not any(x in text for x in ("s->", "in[", "tid"))


class Program:
    def __init__(self, rng, index):
        self.r, self.index = rng, index
        self.vars, self.phases, self.functions, self.exchanges = [], [], [], []
        self.depth_budget = 0
        kinds = list(INTS) + FLOATS + list(VECTORS)
        weights = [1, 1, 1, 1, 4, 4, 2, 2, 2, 1, 3, 2, 1, 1, 1]
        for i in range(rng.randint(6, 14)):
            self.vars.append((f"v{i}", rng.choices(kinds, weights)[0]))
        for t in ("u32", "f32"):
            if not any(v[1] == t for v in self.vars):
                self.vars.append((f"v{len(self.vars)}", t))
        self.loop = 0

    # ---- expressions: each returns text of exactly the asked type ----
    def variable(self, t):
        c = [v for v, k in self.vars if k == t]
        return f"s->{self.r.choice(c)}" if c else None

    def const_int(self, t):
        bits = INTS[t]
        r = self.r
        v = r.choice([0, 1, 2, 3, 7, 15, 16, 31, 63, 64, 127, 128, 255, (1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1,
                      r.getrandbits(bits), r.getrandbits(bits), r.getrandbits(8)]) & ((1 << bits) - 1)
        return f"(({t}){v}ull)"

    def const_float(self, t):
        r = self.r
        v = r.choice(["0.0", "1.0", "-1.0", "0.5", "-2.0", "3.25", "1e-3", "1e3", "1e-5", "4.0", "0.15915494309189535",
                      f"{r.uniform(-10, 10):.6g}", f"{r.uniform(-1e4, 1e4):.6g}"])
        if t in ("f64", "f32") and r.random() < 0.1:
            v = r.choice(["1e30", "-1e-30", "1e-38", "3e-40", "1e38"])
        return f"(({t}){v})"

    def leaf(self, t):
        r = self.r
        if t in VECTORS:
            v = self.variable(t)
            if v and r.random() < 0.7:
                return v
            e = VECTORS[t]
            return f"(({t}){{{self.expr(e, 1)}, {self.expr(e, 1)}}})"
        v = self.variable(t)
        if v and r.random() < 0.65:
            return v
        if r.random() < 0.25:
            if t in INTS:
                return r.choice([f"(({t})tid)", f"(({t})in[(tid * {r.randrange(1, 9, 2)}u + {r.randrange(64)}u) & 255u])"])
            return f"(({t})small(in[(tid + {r.randrange(64)}u) & 255u]))"
        return self.const_int(t) if t in INTS else self.const_float(t)

    def expr(self, t, depth):
        if depth <= 0:
            return self.leaf(t)
        if t in INTS:
            return self.int_expr(t, depth)
        if t in VECTORS:
            return self.vector_expr(t, depth)
        return self.float_expr(t, depth)

    def any_scalar(self):
        return self.r.choice(list(INTS) + FLOATS)

    def int_expr(self, t, d):
        r, bits = self.r, INTS[t]
        u = "u" + t[1:]
        e = lambda k=None: self.expr(k or t, d - 1)
        k = r.randrange(24)
        if k < 6:
            return f"(({t})({e()} {r.choice(['+', '-', '*', '&', '|', '^'])} {e()}))"
        if k < 8:
            return f"(({t})({e()} {r.choice(['<<', '>>'])} ({e('u32')} & {bits - 1}u)))"
        if k == 8:
            if t[0] == "i":  # -MIN / -1 overflows: the divisor is odd and positive
                return f"(({t})({e()} {r.choice(['/', '%'])} ({t})((({e()}) & ({t}){(1 << (bits - 2)) - 1}) | 1)))"
            # An unsigned numerator with many leading ones is one of few bits to clang-22, which then divides in f32: no constant.
            a, op, b = e(), r.choice(["/", "%"]), e()
            return f"(({t})({self.one_of(t) if constant(a) else a} {op} ({t})(({b}) | 1u)))"
        if k == 9:
            # No 64-bit complement: clang-22 leaves the upper half of one whose half is all ones, or-ed with anything, undefined.
            op = r.choice(["~", "-"])
            return f"(({t})({'-' if bits == 64 else op}{e()}))"
        if k == 10:
            return f"(({t})({self.cond(d - 1)} ? {e()} : {e()}))"
        if k == 11:
            o = r.choice(list(INTS))
            return f"(({t}){self.expr(o, d - 1)})"
        if k == 12:
            f = r.choice(FLOATS)
            return f"(({t})toint{min(bits, 32) if t[0] == 'i' else min(bits, 32)}({self.expr(f, d - 1)}))"
        if k == 13 and bits >= 32:
            fn = r.choice(["popcount", "clz", "ctz", "bitreverse"])
            if fn == "bitreverse":
                return f"(({t})__builtin_bitreverse{bits}(({u}){e()}))"
            return f"(({t})__builtin_{fn}{'ll' if bits == 64 else ''}(({u}){e()}{' | 1u' if fn != 'popcount' else ''}))"
        # No bswap64: for gfx11 clang-22 at -O0 copies only half of each dword first (v_mov_b16, then v_perm_b32).
        if k == 14 and bits in (16, 32):
            return f"(({t})__builtin_bswap{bits}(({u}){e()}))"
        if k == 15:
            return f"__builtin_elementwise_{r.choice(['min', 'max'])}({e()}, {e()})"
        if k == 16:
            return f"__builtin_elementwise_{r.choice(['add_sat', 'sub_sat'])}({e()}, {e()})"
        if k == 17 and bits >= 32:
            n = f"({e('u32')} & {bits - 1}u)"
            return f"(({t})rotl{bits}(({u}){e()}, {n}))"
        if k == 18 and bits == 32:
            lo = r.randrange(31)
            return f"(({t})((({u}){e()} >> {lo}) & {(1 << r.randrange(1, 32 - lo)) - 1}u))"
        if k == 19 and bits == 32:
            return f"(({t})((({'i64' if t[0] == 'i' else 'u64'}){e()} * ({'i64' if t[0] == 'i' else 'u64'}){e()}) >> 32))"
        if k == 20 and t in ("i16", "u16"):
            v = self.variable("s2" if t == "i16" else "us2")
            if v:
                return f"{v}.{r.choice('xy')}"
        if k == 21:
            return f"(({t})({e()} * {e()} + {e()}))"
        if k == 22 and bits == 32:
            return f"(({t})((({u}){e()} << {r.randrange(32)}) {r.choice(['+', '|', '^', '-'])} ({u}){e()}))"
        if k == 23 and t in ("i32", "u32"):
            return f"(({t})dot4{'s' if t == 'i32' else 'u'}({e()}, {e()}, {e()}))"
        return f"(({t})({e()} + {e()}))"

    def float_expr(self, t, d):
        r = self.r
        e = lambda k=None: self.expr(k or t, d - 1)
        suffix = {"f32": "f", "f64": "", "f16": "f16", "bf16": None}[t]
        k = r.randrange(17)
        if k < 6:
            a, op, b = e(), r.choice(["+", "-", "*"]), e()
            # clang-22 takes 0 - x for -x as the operand of another instruction, which is wrong for +0: no constant on the left.
            return f"(({t})({b} - {a}))" if op == "-" and constant(a) else f"(({t})({a} {op} {b}))"
        if k == 6:
            return f"(({t})(-{e()}))"
        if k == 7:
            return f"(({t})({self.cond(d - 1)} ? {e()} : {e()}))"
        if k == 8:
            o = self.any_scalar()
            text = f"(({t}){'(f32)' if {t, o} == {'f16', 'bf16'} else ''}{self.expr(o, d - 1)})"
            # Of an f32 product, clang-22 makes v_fma_mixlo_f16 with the addend +0, which loses the sign of -0: no -0 comes out.
            return f"(({t})({text} + ((f16)0.0)))" if t == "f16" and o in ("f32", "bf16") else text
        if k == 9 and t in ("f32", "f64"):
            return f"__builtin_fma{suffix}({e()}, {e()}, {e()})"
        if k == 10 and t in ("f32", "f64"):
            return f"__builtin_{r.choice(['floor', 'ceil', 'trunc', 'rint', 'fabs'])}{suffix}({e()})"
        if k == 11 and t in ("f32", "f64"):
            return f"({e()} / {e()})"
        if k == 12 and t in ("f32", "f64"):
            # For gfx12 at -O0, clang-22 puts what a uniform root needs in vector registers before EXEC is whole again at the
            # end of a loop, and spills them there: no constant.
            a = e()
            return f"__builtin_sqrt{suffix}({self.one_of(t) if t == 'f32' and constant(a) else a})"
        if k == 13:
            # Against a zero, clang-22 makes a minimum of it for targets, which orders -0 before +0.
            a, b = self.leaf(t), self.leaf(t)
            if "0.0)" in a + b:
                return a
            return f"(({t})({a} {r.choice(['<', '>'])} {b} ? {a} : {b}))"
        if k == 14 and t == "f16":
            v = self.variable("h2")
            if v:
                return f"{v}.{r.choice('xy')}"
        if k == 15 and t in ("f32", "f64"):
            return f"__builtin_copysign{suffix}({e()}, nonan({e()}))"
        if k == 16 and t == "f16":
            return f"(({t})__builtin_fmaf((f32){e()}, (f32){e()}, (f32){e()}))"
        return f"(({t})({e()} * {e()}))"

    def vector_expr(self, t, d):
        r = self.r
        e = lambda k=None: self.expr(k or t, d - 1)
        k = r.randrange(8)
        if t == "h2":
            if k < 5:
                return f"({e()} {r.choice(['+', '-', '*'])} {e()})"
            if k == 5:
                return f"(-{e()})"
            if k == 6:
                return f"__builtin_shufflevector({e()}, {e()}, {r.randrange(4)}, {r.randrange(4)})"
            return self.leaf(t)
        if k < 3:
            return f"({e()} {r.choice(['+', '-', '*', '&', '|', '^'])} {e()})"
        if k == 3:
            return f"({e()} {r.choice(['<<', '>>'])} ({e()} & ({t}){{15, 15}}))"
        if k == 4:
            return f"__builtin_elementwise_{r.choice(['min', 'max', 'add_sat', 'sub_sat'])}({e()}, {e()})"
        if k == 5:
            return f"__builtin_shufflevector({e()}, {e()}, {r.randrange(4)}, {r.randrange(4)})"
        if k == 6:
            return f"({e()} * {e()} + {e()})"
        return self.leaf(t)

    def one_of(self, t):
        """A value that is no constant, drawing nothing."""
        c = [v for v, k in self.vars if k == t]
        return f"s->{c[0]}" if c else f"(({t})in[tid & 255u])"

    def cond(self, d):
        """Without && and ||: clang-22's structurizer moves a negation (whatever costs a target nothing) that both sides of a
        short-circuit share up to where the first was decided, and loses it on the way through the second."""
        r = self.r
        t = self.any_scalar()
        d = max(d, 0)
        if r.random() < 0.15:
            return f"({self.cond(d - 1)} {r.choice(['&', '|'])} {self.cond(d - 1)})" if d > 0 else f"({self.leaf('u32')} & 1u)"
        return f"({self.expr(t, d)} {r.choice(['<', '>', '<=', '>=', '==', '!='])} {self.expr(t, d)})"

    # ---- statements ----
    def assign(self, depth):
        v, t = self.r.choice(self.vars)
        return f"s->{v} = {self.expr(t, depth)};"

    def block(self, n, nest, indent):
        out = []
        pad = "    " * indent
        for _ in range(n):
            r = self.r.random()
            if r < 0.62 or nest <= 0:
                out.append(pad + self.assign(self.r.randint(1, 3)))
            elif r < 0.76:
                out.append(f"{pad}if {self.cond(1)} {{")
                out += self.block(self.r.randint(1, 3), nest - 1, indent + 1)
                if self.r.random() < 0.5:
                    out.append(pad + "} else {")
                    out += self.block(self.r.randint(1, 2), nest - 1, indent + 1)
                out.append(pad + "}")
            elif r < 0.86:
                self.loop += 1
                i = f"it{self.loop}"
                end = self.r.choice([str(self.r.randint(1, 5)), f"(({self.leaf('u32')}) & 7u)"])
                out.append(f"{pad}for (u32 {i} = 0, n{i} = {end}; {i} < n{i}; {i}++) {{")
                out += self.block(self.r.randint(1, 2), nest - 1, indent + 1)
                if self.r.random() < 0.3:
                    out.append(f"{pad}    if {self.cond(1)} {self.r.choice(['break', 'continue'])};")
                out.append(pad + "}")
            elif r < 0.92:
                out.append(f"{pad}switch (({self.leaf('u32')}) & 3u) {{")
                for c in range(self.r.randint(2, 4)):
                    out.append(f"{pad}case {c}:")
                    out += self.block(1, nest - 1, indent + 1)
                    if self.r.random() < 0.8:
                        out.append(f"{pad}    break;")
                out.append(pad + "}")
            elif r < 0.96:
                self.loop += 1
                a = f"a{self.loop}"
                t = self.r.choice(["u32", "u8", "f32", "u64"])
                out.append(f"{pad}{{")
                out.append(f"{pad}    {t} {a}[8];")
                out.append(f"{pad}    for (u32 j = 0; j < 8; j++) {a}[j] = ({t})({self.expr('u32', 1)} + j);")
                out.append(f"{pad}    {a}[{self.leaf('u32')} & 7u] = {self.expr(t, 1)};")
                c = [v for v, k in self.vars if k == "u32"]
                v = self.r.choice(c)
                out.append(f"{pad}    s->{v} += (u32)toint32((f32)nonan((f32){a}[{self.leaf('u32')} & 7u]));" if t == "f32" else
                           f"{pad}    s->{v} += (u32){a}[{self.leaf('u32')} & 7u];")
                out.append(f"{pad}}}")
            else:
                if not self.functions or self.r.random() < 0.5:
                    self.functions.append((f"fn{self.index}_{len(self.functions)}", self.expr_of_args()))
                name, _ = self.r.choice(self.functions)
                c = [v for v, k in self.vars if k == "u32"]
                out.append(f"{pad}s->{self.r.choice(c)} = {name}({self.leaf('u32')}, {self.leaf('f32')});")
        return out

    def expr_of_args(self):
        keep, self.vars = self.vars, [("x", "u32"), ("y", "f32")]
        text = self.expr("u32", 3).replace("s->x", "x").replace("s->y", "y")
        self.vars = keep
        return text

    def exchange(self, k):
        """A step in which threads meet; (get, index, put) and how host and device do it."""
        u = self.r.choice([v for v, t in self.vars if t == "u32"])
        kind = self.r.choice(["lds", "lds", "bpermute", "ballot", "first", "lds_atomic", "global_atomic", "dpp", "lds_wide"])
        op = self.r.choice(["add", "xor", "or", "and", "umax", "umin", "max", "min"])
        ctrl = self.r.choice([0x1b, 0xb1, 0x4e, 0x101, 0x103, 0x111, 0x112, 0x121, 0x125, 0x140, 0x141])
        return dict(kind=kind, get=self.expr("u32", 2), index=self.expr("u32", 1), put=u, op=op, ctrl=ctrl, k=k)

    def build(self):
        n = self.r.randint(1, 3)
        for i in range(n):
            self.phases.append(self.block(self.r.randint(3, 9), 2, 1))
            if i + 1 < n or self.r.random() < 0.7:
                self.exchanges.append(self.exchange(i))
            else:
                self.exchanges.append(None)

    def text(self):
        i, out = self.index, []
        out.append(f"/* program {i} */")
        out.append(f"struct st{i} {{ " + " ".join(f"{t} {v};" for v, t in self.vars) + " };")
        for name, e in self.functions:
            out.append(f"FN u32 {name}(u32 x, f32 y) {{ const u32 tid = x; const u32 *in = zeros; (void)tid; (void)in; (void)y; return {e}; }}")
        out.append(f"static HD void init{i}(struct st{i} *s, u32 tid, const u32 *in) {{")
        for j, (v, t) in enumerate(self.vars):
            if t in VECTORS:
                e = VECTORS[t]
                a = f"in[(tid + {j * 7}u) & 255u]"
                out.append(f"    s->{v} = ({t}){{({e})" + (f"small({a})" if e == "f16" else a) + f", ({e})" +
                           (f"small({a} >> 8)" if e == "f16" else f"({a} >> 16)") + "};")
            elif t in INTS:
                out.append(f"    s->{v} = ({t})(in[(tid + {j * 7}u) & 255u] * {self.r.choice([1, 3, 0x9e3779b9])}u);")
            else:
                out.append(f"    s->{v} = ({t})small(in[(tid + {j * 7}u) & 255u]);")
        out.append("}")
        for k, p in enumerate(self.phases):
            out.append(f"static HD void phase{i}_{k}(struct st{i} *s, u32 tid, const u32 *in) {{")
            out += p
            out.append("}")
            x = self.exchanges[k]
            if x:
                out.append(f"static HD u32 get{i}_{k}(struct st{i} *s, u32 tid, const u32 *in) {{ (void)tid; (void)in; (void)s; return {x['get']}; }}")
                out.append(f"static HD u32 idx{i}_{k}(struct st{i} *s, u32 tid, const u32 *in) {{ (void)tid; (void)in; (void)s; return {x['index']}; }}")
                out.append(f"static HD void put{i}_{k}(struct st{i} *s, u32 v) {{ s->{x['put']} = v; }}")
        n_out = len(self.vars)
        out.append(f"static HD void store{i}(struct st{i} *s, u32 tid, u64 *out) {{")
        for j, (v, t) in enumerate(self.vars):
            out.append(f"    out[tid * {n_out}u + {j}u] = bits_{t}(s->{v});")
        out.append("}")
        out.append(f"PROGRAM_BEGIN({i}, {n_out})")
        for k in range(len(self.phases)):
            out.append(f"    PHASE({i}, {k})")
            x = self.exchanges[k]
            if x:
                args = f"{i}, {k}"
                if x["kind"] in ("lds_atomic", "global_atomic"):
                    args += f", {x['op']}"
                if x["kind"] == "dpp":
                    args += f", {x['ctrl']:#x}"
                out.append(f"    X_{x['kind'].upper()}({args})")
        out.append(f"PROGRAM_END({i})")
        return "\n".join(out)


def main():
    seed, n, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    parts = [f"/* {n} programs of seed {seed} */"]
    sizes = []
    for i in range(n):
        p = Program(random.Random(f"{seed}/{i}"), i)
        p.build()
        parts.append(p.text())
        sizes.append(len(p.vars))
    parts.append("#define N_PROGRAMS " + str(n))
    parts.append("#define ALL_PROGRAMS " + " ".join(f"ENTRY({i}, {sizes[i]})" for i in range(n)))
    with open(path, "w") as f:
        f.write("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
