"""Writes test vectors of block formats: raw bytes and the values that gguf-py decodes them to.

    python make_formats.py --out tests/golden/formats.safetensors

For each format FMT: `FMT.raw` u8[n] and `FMT.f32` f32[m], the same blocks in order.
The first blocks are random bytes under sane scales; then each scale field of the
block in turn takes edge values. All decoded values are finite.
"""

import argparse
import json

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize
from safetensors.numpy import save_file

# Byte offsets of the f16 fields of a block.
F16_FIELDS = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.IQ4_NL: [0],
}
# Zero, negative zero, the smallest and largest subnormals, a negative subnormal,
# the smallest normal, negatives, and a scale large enough to see but not to overflow.
F16_EDGES = [0x0000, 0x8000, 0x0001, 0x03FF, 0x8155, 0x0400, 0xBC00, 0xA5A5, 0x5000]
# E8M0 exponents: the smallest (a subnormal in float32 once halved), its neighbours, one, and large.
E8M0_EDGES = [0, 1, 2, 3, 126, 127, 128, 200]
N_RANDOM = 2048


def blocks_of(fmt, rng):
    elements, size = GGML_QUANT_SIZES[fmt]
    n = N_RANDOM // elements
    raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
    if fmt == T.MXFP4:
        raw[:, 0] = rng.integers(115, 132, n)
        edges = raw[np.arange(len(E8M0_EDGES)) % n].copy()
        edges[:, 0] = E8M0_EDGES
        # Every code once in each edge block.
        edges[:, 1:] = np.arange(16, dtype=np.uint8) | (15 - np.arange(16, dtype=np.uint8)) << 4
        return np.concatenate([raw, edges])
    fields = F16_FIELDS[fmt]
    for at in fields:
        scale = (rng.uniform(0.001, 0.1, n) * rng.choice([-1, 1], n)).astype(np.float16)
        raw[:, at:at + 2] = scale.view(np.uint8).reshape(n, 2)
    edges = []
    for at in fields:
        for i, bits in enumerate(F16_EDGES):
            b = raw[i % n].copy()
            b[at], b[at + 1] = bits & 255, bits >> 8
            edges.append(b)
    # Codes all zero and all ones under a sane scale.
    for fill in (0x00, 0xFF):
        b = np.full(size, fill, dtype=np.uint8)
        for at in fields:
            b[at:at + 2] = raw[0, at:at + 2]
        edges.append(b)
    return np.concatenate([raw, np.array(edges)])


def halves(rng, fmt):
    """Random finite 16-bit values, then the edges: zeros, subnormals, the largest, one."""
    bits = rng.integers(0, 1 << 16, N_RANDOM).astype(np.uint16)
    exponent = 0x7C00 if fmt == T.F16 else 0x7F80
    bits = np.where((bits & exponent) == exponent, bits & 0x80FF, bits).astype(np.uint16)
    one = 0x3C00 if fmt == T.F16 else 0x3F80
    top = exponent - 1
    edges = [0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x03FF, 0x0400, 0x0080, one, one | 0x8000, top, top | 0x8000]
    return np.concatenate([bits, np.array(edges, dtype=np.uint16)]).view(np.uint8).reshape(1, -1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    a = p.parse_args()
    out = {}
    for i, fmt in enumerate([T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K,
                             T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL, T.MXFP4]):
        rng = np.random.default_rng(7 + i)
        raw = halves(rng, fmt) if fmt in (T.F16, T.BF16) else blocks_of(fmt, rng)
        values = dequantize(raw.view(np.float16) if fmt == T.F16 else raw, fmt).astype(np.float32)
        assert np.isfinite(values).all(), fmt.name
        out[fmt.name + ".raw"] = np.ascontiguousarray(raw).reshape(-1)
        out[fmt.name + ".f32"] = np.ascontiguousarray(values).reshape(-1)
        print("%-7s %6d bytes %6d values, max |x| %.4g" % (fmt.name, raw.size, values.size, np.abs(values).max()))
    from importlib.metadata import version

    save_file(out, a.out, metadata={
        "oracle": json.dumps({"gguf": version("gguf"), "numpy": np.__version__}),
        "made_by": "tools/oracle/make_formats.py --out formats.safetensors",
    })


if __name__ == "__main__":
    main()
