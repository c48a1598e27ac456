#!/usr/bin/env python3
"""Writes a GGUF file of a published shape with random weights, for engines that load no model without a file.

    bench/make_gguf.py llama-8b Q4_K OUT.gguf
    bench/make_gguf.py qwen3-0.6b BF16 OUT.gguf
    bench/make_gguf.py llama-8b Q8_0 OUT.gguf --layers 2 --vocab 512      # a small one, to try the path

Sizes are those of src/model/shapes.def, so that `ochre bench --synthetic` runs the same model. Every matrix has the one
format; a few MiB of random blocks are written again and again. The vocabulary is byte-level with made-up tokens up to the
shape's number. The standard library alone; the format's own description is ggml's docs/gguf.md.
"""
import argparse
import os
import random
import re
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
import tiny_gguf as g

# name: number in the file, elements and bytes of a block
FORMATS = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "BF16": (30, 1, 2)}


def shape_of(name):
    with open(os.path.join(ROOT, "src", "model", "shapes.def")) as f:
        for row in re.findall(r'^OCH_SHAPE\("([^"]+)", (\w+), ([\d, ]+)\)', f.read(), re.M):
            if row[0] == name:
                return (row[1], *(int(x) for x in row[2].split(",")))
    sys.exit("make_gguf.py: no shape %s in src/model/shapes.def" % name)


def blocks(fmt, rng, n):
    """n blocks of weights of about 0.02."""
    if fmt in ("F32", "F16", "BF16"):
        values = [rng.uniform(-0.035, 0.035) for _ in range(n)]
        if fmt == "F32":
            return struct.pack("<%df" % n, *values)
        if fmt == "F16":
            return struct.pack("<%de" % n, *values)
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    if fmt == "Q8_0":
        return b"".join(struct.pack("<e", 0.035 / 127) + rng.randbytes(32) for _ in range(n))
    # Q4_K: d, dmin, twelve bytes of six-bit scales and minima, 128 of codes; (scale d) code - (min dmin), both up to 63
    return b"".join(struct.pack("<ee", 0.07 / 15 / 40, 0.035 / 40) + rng.randbytes(140) for _ in range(n))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shape")
    p.add_argument("format", choices=sorted(FORMATS))
    p.add_argument("out")
    p.add_argument("--layers", type=int, help="fewer than the shape has")
    p.add_argument("--vocab", type=int, help="another vocabulary, at least 266 (default: the shape's)")
    p.add_argument("--context", type=int, default=131072)
    a = p.parse_args()
    arch, layers, d, heads, kv, hd, ff, vocab, _ = shape_of(a.shape)
    if arch not in ("llama", "qwen3"):
        sys.exit("make_gguf.py: expected a shape of llama or qwen3, found one of %s" % arch)
    layers = layers if a.layers is None else a.layers
    vocab = vocab if a.vocab is None else a.vocab
    rng = random.Random(1)
    number, block_elems, block_bytes = FORMATS[a.format]
    tokens, merges, types, special = g.vocabulary()
    n_unused = vocab - len(tokens)
    if layers < 1 or n_unused < 0:
        sys.exit("make_gguf.py: expected at least 1 layer and %d tokens, found %d and %d" % (len(tokens), layers, vocab))
    tokens += ["<|unused_%d|>" % i for i in range(n_unused)]
    types += [5] * n_unused
    kvs = [g.key("general.architecture", g.STRING, arch), g.key("general.name", g.STRING, a.shape), g.key("general.alignment", g.U32, 32)]
    for name, kind, value in (("block_count", g.U32, layers), ("context_length", g.U32, a.context), ("embedding_length", g.U32, d),
                              ("feed_forward_length", g.U32, ff), ("attention.head_count", g.U32, heads),
                              ("attention.head_count_kv", g.U32, kv), ("attention.key_length", g.U32, hd),
                              ("attention.value_length", g.U32, hd), ("attention.layer_norm_rms_epsilon", g.F32, 1e-6),
                              ("rope.dimension_count", g.U32, hd), ("rope.freq_base", g.F32, 500000.0), ("vocab_size", g.U32, vocab)):
        kvs.append(g.key(arch + "." + name, kind, value))
    kvs += [g.key("tokenizer.ggml.model", g.STRING, "gpt2"),
            g.key("tokenizer.ggml.pre", g.STRING, "llama-bpe" if arch == "llama" else "qwen2"),
            g.array("tokenizer.ggml.tokens", g.STRING, tokens), g.array("tokenizer.ggml.token_type", g.I32, types),
            g.array("tokenizer.ggml.merges", g.STRING, merges), g.key("tokenizer.ggml.bos_token_id", g.U32, special),
            g.key("tokenizer.ggml.eos_token_id", g.U32, special + 2), g.key("tokenizer.ggml.add_bos_token", g.BOOL, False)]
    tensors = []  # name, dimensions (the first is the row's), number of the format, bytes

    def matrix(name, rows, cols):
        if cols % block_elems:
            sys.exit("make_gguf.py: %s: %d columns are no whole number of %s blocks" % (name, cols, a.format))
        tensors.append((name, [cols, rows], number, rows * cols // block_elems * block_bytes))

    def ones(name, n):
        tensors.append((name, [n], 0, 4 * n))

    matrix("token_embd.weight", vocab, d)
    for i in range(layers):
        b = "blk.%d." % i
        ones(b + "attn_norm.weight", d)
        matrix(b + "attn_q.weight", heads * hd, d)
        matrix(b + "attn_k.weight", kv * hd, d)
        matrix(b + "attn_v.weight", kv * hd, d)
        matrix(b + "attn_output.weight", d, heads * hd)
        if arch == "qwen3":
            ones(b + "attn_q_norm.weight", hd)
            ones(b + "attn_k_norm.weight", hd)
        ones(b + "ffn_norm.weight", d)
        matrix(b + "ffn_gate.weight", ff, d)
        matrix(b + "ffn_up.weight", ff, d)
        matrix(b + "ffn_down.weight", d, ff)
    ones("output_norm.weight", d)
    matrix("output.weight", vocab, d)

    pattern = memoryview(blocks(a.format, rng, (1 << 20) // block_bytes))  # whole blocks
    try:
        f = open(a.out, "wb", buffering=0)
    except OSError as e:
        sys.exit("make_gguf.py: %s" % e)
    with f:
        def put(data):
            while len(data):
                data = data[f.write(data):]

        put(memoryview(g.header(kvs, tensors)))
        for _, dims, _, n_bytes in tensors:
            source = memoryview(struct.pack("<f", 1.0) * dims[0]) if len(dims) == 1 else pattern
            left = n_bytes
            while left:
                put(source[:min(left, len(source))])
                left -= min(left, len(source))
            put(memoryview(b"\0" * (-n_bytes % 32)))
    print("%s: %s in %s, %.3f GB" % (a.out, a.shape, a.format, os.path.getsize(a.out) * 1e-9))


if __name__ == "__main__":
    main()
