"""Writes tiny checkpoints with random weights, and golden files beside them.

    python make_tiny.py --out tests/golden [--only tiny-llama,tiny-qwen3]

Each folder tiny-NAME holds a checkpoint as transformers saves it (config.json and
safetensors) and golden.safetensors. The golden values come from the folder as
loaded again, in float32 with eager attention and without a cache. For three of
them the same weights are written as a GGUF file next to the folder.
"""

import argparse
import json
import os
import shutil

import gguf
import numpy as np
import torch
from safetensors.numpy import save_file

from gguf_model import LAYERS, to_neighbours
from make_golden import versions

VOCAB = 288
N_GREEDY = 16
LENGTHS = {"one": 1, "short": 17, "long": 48}

LLAMA = dict(
    vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-5,
    max_position_embeddings=1024, tie_word_embeddings=False,
    bos_token_id=1, eos_token_id=2, pad_token_id=None,
)


def rope(**kw):
    return {"rope_parameters": dict(kw)}


def checkpoints():
    """name -> (config, options). The option classic writes rope keys as older releases spell them; gguf writes
    the weights as a GGUF file too. Weights depend on the row's place: new rows go to the end."""
    from transformers import (
        Gemma3TextConfig, LlamaConfig, MistralConfig, Olmo2Config, Qwen2Config, Qwen3Config)

    no_head_dim = {k: v for k, v in LLAMA.items() if k != "head_dim"}
    base = dict(rope_theta=10000.0)
    return {
        "tiny-llama": (LlamaConfig(**LLAMA, **rope(rope_type="default", **base)), {"classic": True, "gguf": "llama"}),
        "tiny-llama3-rope": (LlamaConfig(**LLAMA, **rope(
            rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=32, **base)), {"classic": True}),
        "tiny-llama-linear": (LlamaConfig(**LLAMA, **rope(
            rope_type="linear", factor=4.0, **base)), {"classic": True}),
        "tiny-llama-yarn": (LlamaConfig(**LLAMA, **rope(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=256,
            beta_fast=32.0, beta_slow=1.0, **base)), {}),
        "tiny-mistral": (MistralConfig(
            **LLAMA, sliding_window=16, **rope(rope_type="default", **base)), {}),
        "tiny-qwen2": (Qwen2Config(
            **{**no_head_dim, "tie_word_embeddings": True},
            **rope(rope_type="default", rope_theta=1000000.0)), {"dtype": torch.bfloat16, "classic": True}),
        "tiny-qwen3": (Qwen3Config(
            **{**LLAMA, "head_dim": 32}, **rope(rope_type="default", rope_theta=1000000.0)),
            {"max_shard_size": "200KB"}),
        "tiny-gemma3": (Gemma3TextConfig(
            vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=6,
            num_attention_heads=2, num_key_value_heads=1, head_dim=32, rms_norm_eps=1e-6,
            max_position_embeddings=1024, tie_word_embeddings=True, sliding_window=8,
            query_pre_attn_scalar=8, bos_token_id=1, eos_token_id=2, pad_token_id=0,
            layer_types=["sliding_attention"] * 5 + ["full_attention"],
            rope_parameters={
                "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}), {"gguf": "gemma3"}),
        "tiny-olmo2": (Olmo2Config(
            **{**LLAMA, "hidden_size": 32, "intermediate_size": 48, "rms_norm_eps": 0.003},
            **rope(rope_type="default", rope_theta=500000.0)),
            {"dtype": torch.bfloat16, "classic": True, "gguf": "olmo2"}),
    }


def fill(model, seed):
    """Weights large enough that a wrong step shows in the logits."""
    g = torch.Generator().manual_seed(seed)
    gemma = model.config.model_type.startswith("gemma3")
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            r = torch.randn(p.shape, generator=g)
            if "norm" in name:
                p.copy_(r.clamp(-2.5, 2.5) * 0.3 + (0.0 if gemma else 1.0))
            elif name.endswith("bias"):
                p.copy_(r * 0.5)
            else:
                p.copy_(r * 0.2)


def classic_config(folder):
    """Rewrites rope_parameters as rope_theta and rope_scaling, as most published checkpoints have it."""
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        c = json.load(f)
    r = c.pop("rope_parameters")
    c["rope_theta"] = r.pop("rope_theta")
    c["rope_scaling"] = None if r["rope_type"] == "default" else r
    c["torch_dtype"] = c.pop("dtype")
    with open(path, "w") as f:
        json.dump(c, f, indent=2, sort_keys=True)
        f.write("\n")


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def golden_of(folder, seed):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    rng = np.random.default_rng(seed)
    out, smallest = {}, np.inf
    for name, n in LENGTHS.items():
        ids = [int(i) for i in rng.integers(0, VOCAB, n)]
        greedy = []
        for _ in range(N_GREEDY):
            last = logits_of(model, ids + greedy)[-1]
            best = torch.topk(last, 2).values
            smallest = min(smallest, float(best[0] - best[1]))
            greedy.append(int(last.argmax()))
        logits = logits_of(model, ids + greedy).numpy()
        assert logits[n - 1:-1].argmax(axis=1).tolist() == greedy
        out[name + ".ids"] = np.array(ids, dtype=np.int32)
        out[name + ".greedy"] = np.array(greedy, dtype=np.int32)
        out[name + ".logits"] = np.ascontiguousarray(logits, dtype=np.float32)
    return out, smallest


def write_gguf(folder, path, arch):
    """The checkpoint as GGUF, all tensors F32, with a small vocabulary of the llama kind."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    c = model.config
    gemma = arch == "gemma3"
    w = gguf.GGUFWriter(path, arch)
    w.add_name(os.path.basename(folder))
    w.add_file_type(0)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_block_count(c.num_hidden_layers)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    if c.head_dim != c.hidden_size // c.num_attention_heads:
        w.add_key_length(c.head_dim)
        w.add_value_length(c.head_dim)
    if gemma:
        w.add_rope_freq_base(c.rope_parameters["full_attention"]["rope_theta"])
        w.add_sliding_window(c.sliding_window)
    else:
        w.add_vocab_size(c.vocab_size)
        w.add_rope_dimension_count(c.head_dim)
        w.add_rope_freq_base(c.rope_parameters["rope_theta"])

    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    types = [2, 3, 3] + [6] * 256
    pieces = ["\u2581"] + [chr(ord("a") + i) for i in range(26)] + ["\u2581t", "he"]
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens + pieces)
    w.add_token_scores([0.0] * 259 + [-float(i + 10) for i in range(27)] + [-1.0, -2.0])
    w.add_token_types(types + [1] * len(pieces))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_space_prefix(False)
    assert len(tokens) + len(pieces) == c.vocab_size

    back = {v: k for k, v in LAYERS[arch].items()}
    for name, t in model.state_dict().items():
        x = t.numpy().astype(np.float32)
        if name == "lm_head.weight" and c.tie_word_embeddings:
            continue
        if name.startswith("model.layers."):
            _, _, layer, rest = name.split(".", 3)
            stem, suffix = rest.rsplit(".", 1)
            part = back[stem]
            target = "blk.%s.%s.%s" % (layer, part, suffix)
        else:
            part = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm",
                    "lm_head.weight": "output"}[name]
            target = part + ".weight"
        if arch == "llama" and part in ("attn_q", "attn_k"):
            x = to_neighbours(x, c.num_attention_heads if part == "attn_q" else c.num_key_value_heads)
        if gemma and part.endswith("norm"):
            x = x + np.float32(1)
        if gemma and part == "attn_q_norm":
            # GGUF has no key for query_pre_attn_scalar: readers scale by 1/sqrt(head_dim).
            # Rotation is linear, so the rest of the factor can live in this norm.
            x = x * np.float32(np.sqrt(c.head_dim / c.query_pre_attn_scalar))
        w.add_tensor(target, np.ascontiguousarray(x))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    from transformers import AutoModelForCausalLM

    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("--only")
    a = p.parse_args()
    for i, (name, (config, options)) in enumerate(checkpoints().items()):
        if a.only and name not in a.only.split(","):
            continue
        folder = os.path.join(a.out, name)
        shutil.rmtree(folder, ignore_errors=True)
        dtype = options.get("dtype", torch.float32)
        seed = 1000 * (i + 1)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        fill(model, seed)
        model.to(dtype).save_pretrained(folder, max_shard_size=options.get("max_shard_size", "5GB"))
        extra = os.path.join(folder, "generation_config.json")
        if os.path.exists(extra):
            os.remove(extra)
        if options.get("classic"):
            classic_config(folder)
        out, smallest = golden_of(folder, seed + 1)
        save_file(out, os.path.join(folder, "golden.safetensors"), metadata={
            "oracle": json.dumps(versions()),
            "model_file": name,
            "made_by": "tools/oracle/make_tiny.py --out golden",
            "prompts": json.dumps(list(LENGTHS)),
        })
        if "gguf" in options:
            write_gguf(folder, os.path.join(a.out, name + ".gguf"), options["gguf"])
        for f in sorted(os.listdir(folder)):
            os.chmod(os.path.join(folder, f), 0o644)
        size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder) if not f.startswith("golden"))
        x = out["long.logits"]
        print("%-18s %6d bytes, logits std %.2f, smallest gap %.4f" % (name, size, x.std(), smallest))


if __name__ == "__main__":
    main()
