"""Writes the fields of a few K blocks, one element or sub-block at a time, as gguf-py sees them.

    python make_planes.py --out tests/golden/planes.txt

Each line: format, name, bytes in hexadecimal. `raw` is the file's block; `code` the unsigned code of each element,
`scale` and `min` the integers of each sub-block (a scale of Q3_K and Q6_K is signed). No bit is picked here: gguf-py's
dequantisers are asked about blocks in which everything but one field has been made one or zero.
"""

import argparse

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

ONE, ZERO = [0x00, 0x3C], [0x00, 0x00]  # f16

# Bytes of a block: [from, to) of its fields.
LAYOUT = {
    T.Q2_K: dict(scales=(0, 16), codes=[(16, 80)], d=80, dmin=82, subs=16),
    T.Q3_K: dict(scales=(96, 108), codes=[(0, 32), (32, 96)], d=108, subs=16),
    T.Q4_K: dict(scales=(4, 16), codes=[(16, 144)], d=0, dmin=2, subs=8),
    T.Q5_K: dict(scales=(4, 16), codes=[(16, 48), (48, 176)], d=0, dmin=2, subs=8),
    T.Q6_K: dict(scales=(192, 208), codes=[(0, 128), (128, 192)], d=208, subs=16),
}
# Bytes of the scale field by which every sub-block has scale 1 (and minimum whatever: dmin is 0 then).
SCALE_ONE = {
    T.Q2_K: [0x01] * 16,
    T.Q3_K: [0x11] * 8 + [0xAA] * 4,  # 33 = 0b100001, stored plus 32
    T.Q4_K: [1] * 4 + [0] * 4 + [0x01] * 4,
    T.Q5_K: [1] * 4 + [0] * 4 + [0x01] * 4,
    T.Q6_K: [1] * 16,
}
# Code fields by which every element has the value 1, and what its value is when the code is 0.
CODE_ONE = {
    T.Q2_K: [0x55], T.Q3_K: [0xFF, 0x55], T.Q4_K: [0x11], T.Q5_K: [0x00, 0x11],
    T.Q6_K: [0x11, 0xAA],  # 33 = 0b100001
}
OFFSET = {T.Q2_K: 0, T.Q3_K: 4, T.Q4_K: 0, T.Q5_K: 0, T.Q6_K: 32}


def fields(fmt, raw):
    at = LAYOUT[fmt]
    lo, hi = at["scales"]

    def ask(block):
        values = dequantize(block.reshape(1, -1), fmt).reshape(-1)
        assert np.array_equal(values, np.rint(values))
        return values.astype(int)

    block = raw.copy()
    block[at["d"]:at["d"] + 2] = ONE
    if "dmin" in at:
        block[at["dmin"]:at["dmin"] + 2] = ZERO
    plain = block.copy()
    plain[lo:hi] = SCALE_ONE[fmt]
    yield "code", ask(plain) + OFFSET[fmt]

    for (a, b), byte in zip(at["codes"], CODE_ONE[fmt]):
        block[a:b] = byte
    per_sub = lambda v: v.reshape(at["subs"], -1)[:, 0]
    yield "scale", per_sub(ask(block))
    if "dmin" in at:
        block[at["d"]:at["d"] + 2] = ZERO
        block[at["dmin"]:at["dmin"] + 2] = ONE
        yield "min", -per_sub(ask(block))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--out", required=True)
    out = args.parse_args().out
    rng = np.random.default_rng(7)
    with open(out, "w") as f:
        for fmt in LAYOUT:
            for _ in range(2):
                raw = rng.integers(0, 256, GGML_QUANT_SIZES[fmt][1], dtype=np.uint8)
                print(fmt.name, "raw", raw.tobytes().hex(), file=f)
                for name, values in fields(fmt, raw):
                    print(fmt.name, name, values.astype(np.int16).astype(np.uint8).tobytes().hex(), file=f)


if __name__ == "__main__":
    main()
