#!/usr/bin/env python3
"""Makes the polynomials of kernels/math.ok: python3 poly.py [NAME ...] (needs mpmath).

Each is the minimax polynomial of a function over an interval, under a weight that makes its error relative to the result,
found by exchange (Remez), and its coefficients are rounded to float32. What is printed beside them is the error that remains
with exact arithmetic, in units of 2^-24 relative to the result.
"""
import struct
import sys

import mpmath as mp

mp.mp.dps = 50


def f32(x):
    return mp.mpf(struct.unpack("<f", struct.pack("<f", float(x)))[0])


def remez(f, weight, a, b, powers, n_grid=1500):
    """Coefficients c of sum c[i] x^powers[i], least max |weight (f - p)| on [a, b], and that maximum."""
    n = len(powers)
    # Chebyshev points as a grid: dense at the ends.
    grid = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * i / (n_grid - 1)) for i in range(n_grid)]
    values = [(f(x), weight(x)) for x in grid]
    at = [round(i * (n_grid - 1) / n) for i in range(n + 1)]
    for _ in range(40):
        rows = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for r, g in enumerate(at):
            for c, p in enumerate(powers):
                rows[r, c] = grid[g] ** p
            rows[r, n] = (-1) ** r / values[g][1]
            right[r] = values[g][0]
        solution = mp.lu_solve(rows, right)
        c = [solution[i] for i in range(n)]
        error = [w * (v - sum(k * x ** p for k, p in zip(c, powers))) for x, (v, w) in zip(grid, values)]
        # The extremum of each run of one sign; of more than n + 1, those that are left when the smallest at an end are dropped.
        peaks = []
        for i, e in enumerate(error):
            if peaks and (e > 0) == (error[peaks[-1]] > 0):
                if abs(e) > abs(error[peaks[-1]]):
                    peaks[-1] = i
            else:
                peaks.append(i)
        while len(peaks) > n + 1:
            peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
        if len(peaks) < n + 1:
            break
        worst, least = max(abs(error[i]) for i in peaks), min(abs(error[i]) for i in peaks)
        at = peaks
        if worst < least * mp.mpf("1.0001"):
            break
    return c, max(abs(e) for e in error)


def rounded(f, weight, a, b, powers):
    fixed = [f32(c) for c in remez(f, weight, a, b, powers)[0]]
    grid = [a + (b - a) * i / mp.mpf(4000) for i in range(4001)]
    worst = max(abs(weight(x) * (f(x) - sum(k * x ** p for k, p in zip(fixed, powers)))) for x in grid)
    return fixed, worst


def small(x):
    """Away from 0, where a quotient has no value."""
    return x if abs(x) > mp.mpf("1e-12") else mp.mpf("1e-12")


def at_square(f):
    """f(x) as a function of x^2."""
    return lambda s: f(mp.sqrt(small(s)))


SQRT_HALF = mp.sqrt(mp.mpf(1) / 2)
Q = mp.pi / 4
TANH_END = mp.mpf("0.625")
ERF_END = mp.mpf("0.9375")
# name: what, function, weight, interval, number of coefficients. The variable is x, or s = x^2.
POLYS = {
    "log": ("log(1 + x) = x - x^2 / 2 + x^3 P(x)",
            lambda x: (mp.log(1 + small(x)) - small(x) + small(x) ** 2 / 2) / small(x) ** 3,
            lambda x: abs(small(x) ** 3 / mp.log(1 + small(x))), SQRT_HALF - 1, 1 / SQRT_HALF - 1, 9),
    "tanh": ("tanh(x) = x + x^3 P(x^2)",
             at_square(lambda x: (mp.tanh(x) - x) / x ** 3), at_square(lambda x: x ** 3 / mp.tanh(x)), mp.mpf(0), TANH_END ** 2, 5),
    "erf": ("erf(x) = x + x P(x^2)",
            at_square(lambda x: mp.erf(x) / x - 1), at_square(lambda x: x / mp.erf(x)), mp.mpf(0), ERF_END ** 2, 7),
    "erfc": ("erfc(x) = 2^P(x - 2.5), x up to 4.1",
             lambda x: mp.log(mp.erfc(x + mp.mpf("2.5")), 2), lambda x: mp.log(2) * mp.erfc(x + mp.mpf("2.5")) / mp.erf(x + mp.mpf("2.5")),
             ERF_END - mp.mpf("2.5"), mp.mpf("4.1") - mp.mpf("2.5"), 8),
    "tail": ("erfc(x) = 2^(P(x - 3) - x^2 log2(e)), x up to 6",
             lambda x: mp.log(mp.erfc(x + 3), 2) + (x + 3) ** 2 / mp.log(2), lambda x: mp.log(2), ERF_END - 3, mp.mpf(3), 9),
    "sin": ("sin(x) = x + x^3 P(x^2)",
            at_square(lambda x: (mp.sin(x) - x) / x ** 3), at_square(lambda x: x ** 3 / mp.sin(x)), mp.mpf(0), Q * Q, 3),
    "cos": ("cos(x) = 1 - x^2 / 2 + x^4 P(x^2)",
            at_square(lambda x: (mp.cos(x) - 1 + x * x / 2) / x ** 4), at_square(lambda x: x ** 4 / mp.cos(x)), mp.mpf(0), Q * Q, 3),
    "log2": ("log2((1 + x) / (1 - x)) = 2 x / ln 2 + x^3 P(x^2)",
             at_square(lambda x: (mp.log((1 + x) / (1 - x), 2) - 2 * x / mp.log(2)) / x ** 3),
             at_square(lambda x: x ** 3 / mp.log((1 + x) / (1 - x), 2)), mp.mpf(0), ((1 / SQRT_HALF - 1) / (1 / SQRT_HALF + 1)) ** 2, 4),
}


def split(x):
    hi = f32(x)
    return hi, f32(x - hi)


def main(names):
    for name in names or POLYS:
        what, f, weight, a, b, n = POLYS[name]
        c, worst = rounded(f, weight, a, b, list(range(n)))
        print("%s: %s, within %s * 2^-24" % (name, what, mp.nstr(worst * 2 ** 24, 3)))
        print("  " + ", ".join("%.9g" % float(k) for k in c))
    if not names:
        print("constants, as float32 and the rest of it as float32")
        for text, value in (("log2(e)", 1 / mp.log(2)), ("ln 2", mp.log(2)), ("2 / ln 2", 2 / mp.log(2))):
            print("  %s: %s" % (text, ", ".join("%.9g" % float(k) for k in split(value))))
        # pi / 2 in parts of 11 and 12 bits, so that their products with numbers of 13 bits are exact; the last takes the rest.
        rest, parts = mp.pi / 2, []
        for bits in (11, 12):
            scale = mp.mpf(2) ** (bits - 1 - mp.floor(mp.log(rest, 2)))
            parts.append(mp.floor(rest * scale) / scale)
            rest -= parts[-1]
        parts += split(rest)
        print("  pi / 2: %s" % ", ".join("%.10g" % float(k) for k in parts))
        fraction, words = 2 / mp.pi, []
        with mp.workdps(100):
            fraction = 2 / mp.pi
            for _ in range(7):
                word = int(mp.floor(fraction * 2 ** 32))
                words.append("0x%08x" % word)
                fraction = fraction * 2 ** 32 - word
        print("  2 / pi, bits after the point: %s" % " ".join(words))


if __name__ == "__main__":
    main(sys.argv[1:])
