#!/usr/bin/env python3
"""Writes a tiny llama model with random weights as GGUF v3: enough to run every path of the program in milliseconds.

    tiny_gguf.py OUT [--type f32|f16|q8_0] [--seed N] [--chat]

Uses Python's standard library alone, and the format's own description (ggml docs/gguf.md).
The vocabulary is byte-level BPE: 256 byte letters, a few merges, and three control tokens.
"""
import argparse
import random
import struct

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
TYPES = {"f32": 0, "f16": 1, "q8_0": 8}


def byte_letters():
    """GPT-2's map from bytes to printable letters."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    letters, extra = {}, 0
    for b in range(256):
        if b in keep:
            letters[b] = chr(b)
        else:
            letters[b] = chr(256 + extra)
            extra += 1
    return letters


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(kind, v):
    if kind == STRING:
        return text(v)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], v)


def key(name, kind, v):
    return text(name) + struct.pack("<I", kind) + value(kind, v)


def array(name, kind, vs):
    return text(name) + struct.pack("<IIQ", ARRAY, kind, len(vs)) + b"".join(value(kind, v) for v in vs)


def encode(row, kind):
    if kind == "f32":
        return struct.pack("<%df" % len(row), *row)
    if kind == "f16":
        return struct.pack("<%de" % len(row), *row)
    out = b""
    for i in range(0, len(row), 32):
        block = row[i:i + 32]
        d = max(abs(x) for x in block) / 127
        q = [round(x / d) if d else 0 for x in block]
        out += struct.pack("<e32b", d, *q)
    return out


def vocabulary():
    """Byte-level BPE: 256 letters, what a few merges make, three control tokens; the merges; types; the first control token."""
    letters = byte_letters()
    tokens, merges = [letters[b] for b in range(256)], []
    for a, b in [("t", "h"), ("th", "e"), ("i", "n"), ("a", "n"), (letters[32], "the"), ("an", "d"), ("in", "g")]:
        merges.append(a + " " + b)
        tokens.append(a + b)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return tokens + special, merges, [1] * len(tokens) + [3] * len(special), len(tokens)


def header(kvs, tensors):
    """What stands before the tensors' bytes; tensors: (name, dimensions, the row's first, number of the type, bytes)."""
    records, at = b"", 0
    for name, dims, t, n_bytes in tensors:
        records += text(name) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims) + struct.pack("<IQ", t, at)
        at += n_bytes + -n_bytes % 32
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(kvs)) + b"".join(kvs) + records
    return out + b"\0" * (-len(out) % 32)


def build(kind="f32", seed=1, chat=False, n_layers=2, d=64, n_heads=4, n_kv=2, d_ff=96, context=256, ends=True):
    """ends=False: greedy text never ends, since the special tokens' logits are 0."""
    rng = random.Random(seed)
    vocab, merges, types, bos = vocabulary()
    head = d // n_heads
    kv = [
        key("general.architecture", STRING, "llama"), key("general.name", STRING, "tiny"),
        key("general.alignment", U32, 32),
        key("llama.block_count", U32, n_layers), key("llama.context_length", U32, context),
        key("llama.embedding_length", U32, d), key("llama.feed_forward_length", U32, d_ff),
        key("llama.attention.head_count", U32, n_heads), key("llama.attention.head_count_kv", U32, n_kv),
        key("llama.attention.layer_norm_rms_epsilon", F32, 1e-5), key("llama.rope.dimension_count", U32, head),
        key("llama.rope.freq_base", F32, 10000.0), key("llama.vocab_size", U32, len(vocab)),
        key("tokenizer.ggml.model", STRING, "gpt2"), key("tokenizer.ggml.pre", STRING, "smollm"),
        array("tokenizer.ggml.tokens", STRING, vocab), array("tokenizer.ggml.token_type", I32, types),
        array("tokenizer.ggml.merges", STRING, merges),
        key("tokenizer.ggml.bos_token_id", U32, bos), key("tokenizer.ggml.eos_token_id", U32, bos + 2),
        key("tokenizer.ggml.add_bos_token", BOOL, False),
    ]
    if chat:
        kv.append(key("tokenizer.chat_template", STRING,
                      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
                      "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
                      "{% endif %}"))
    tensors = []

    def matrix(name, rows, cols, zero_from=None):
        scale = cols ** -0.5
        row = lambda r: [rng.gauss(0, 1) * (0 if zero_from is not None and r >= zero_from else scale) for _ in range(cols)]
        data = b"".join(encode(row(r), kind) for r in range(rows))
        tensors.append((name, [cols, rows], TYPES[kind], data))

    def vector(name, n):
        tensors.append((name, [n], 0, encode([1 + 0.1 * rng.gauss(0, 1) for _ in range(n)], "f32")))

    matrix("token_embd.weight", len(vocab), d)
    for i in range(n_layers):
        b = "blk.%d." % i
        vector(b + "attn_norm.weight", d)
        matrix(b + "attn_q.weight", n_heads * head, d)
        matrix(b + "attn_k.weight", n_kv * head, d)
        matrix(b + "attn_v.weight", n_kv * head, d)
        matrix(b + "attn_output.weight", d, n_heads * head)
        vector(b + "ffn_norm.weight", d)
        matrix(b + "ffn_gate.weight", d_ff, d)
        matrix(b + "ffn_up.weight", d_ff, d)
        matrix(b + "ffn_down.weight", d, d_ff)
    vector("output_norm.weight", d)
    matrix("output.weight", len(vocab), d, None if ends else bos)

    data = b"".join(payload + b"\0" * (-len(payload) % 32) for *_, payload in tensors)
    return header(kv, [(name, ne, t, len(payload)) for name, ne, t, payload in tensors]) + data


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--type", default="f32", choices=TYPES)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--chat", action="store_true")
    a = p.parse_args()
    with open(a.out, "wb") as f:
        f.write(build(a.type, a.seed, a.chat))


if __name__ == "__main__":
    main()
