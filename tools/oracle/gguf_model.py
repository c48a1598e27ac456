"""Turns a GGUF file into a Hugging Face model: config, float32 state dict.

The weights are dequantised by gguf-py, which shares no code with Ochre.
Three things differ between the two conventions:

- llama: GGUF interleaves the two rotary halves of each query and key head, so
  that rotary pairs are neighbours; the model code here pairs i with i + d/2.
- gemma3: GGUF stores norm weights with the 1 added; the model code adds it.
- both: without an output tensor the output matrix is the embedding.
"""

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize

LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
LAYER_LLAMA = {**LAYER, "ffn_norm": "post_attention_layernorm"}
LAYER_GEMMA3 = {
    **LAYER,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
LAYER_OLMO2 = {
    **LAYER,
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
LAYERS = {"llama": LAYER_LLAMA, "gemma3": LAYER_GEMMA3, "olmo2": LAYER_OLMO2}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


class GgufFile:
    """The metadata of a GGUF file and its tensors, dequantised on demand."""

    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}
        self.arch = self.get("general.architecture")

    def get(self, key, default=None):
        field = self.reader.get_field(key)
        return default if field is None else field.contents()

    def hp(self, key, default=None):
        return self.get(self.arch + "." + key, default)

    def float32(self, name):
        t = self.tensors[name]
        shape = [int(n) for n in reversed(t.shape)]
        return np.ascontiguousarray(dequantize(t.data, t.tensor_type), dtype=np.float32).reshape(shape)


def to_halves(w, n_heads):
    """[heads * (pairs, 2), d] with neighbouring rotary pairs -> [heads * (2, pairs), d]."""
    rows, cols = w.shape
    return w.reshape(n_heads, rows // n_heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def to_neighbours(w, n_heads):
    """The inverse of to_halves."""
    rows, cols = w.shape
    return w.reshape(n_heads, 2, rows // n_heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def hf_name(gguf_name, arch):
    """(Hugging Face tensor name, bare GGUF tensor name) of a GGUF tensor name."""
    stem, suffix = gguf_name.rsplit(".", 1)
    if stem.startswith("blk."):
        _, layer, part = stem.split(".")
        return "model.layers.%s.%s.%s" % (layer, LAYERS[arch][part], suffix), part
    return TOP[stem] + "." + suffix, stem


def config_of(f):
    from transformers import Gemma3TextConfig, LlamaConfig, Olmo2Config

    heads = f.hp("attention.head_count")
    common = dict(
        vocab_size=int(f.tensors["token_embd.weight"].shape[1]),
        hidden_size=f.hp("embedding_length"),
        intermediate_size=f.hp("feed_forward_length"),
        num_hidden_layers=f.hp("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=f.hp("attention.head_count_kv", heads),
        max_position_embeddings=f.hp("context_length"),
        rms_norm_eps=f.hp("attention.layer_norm_rms_epsilon"),
        tie_word_embeddings="output.weight" not in f.tensors,
        bos_token_id=f.get("tokenizer.ggml.bos_token_id"),
        eos_token_id=f.get("tokenizer.ggml.eos_token_id"),
        pad_token_id=f.get("tokenizer.ggml.padding_token_id"),
        dtype="float32",
    )
    base = f.hp("rope.freq_base", 10000.0)
    if f.arch in ("llama", "olmo2"):
        return (LlamaConfig if f.arch == "llama" else Olmo2Config)(
            head_dim=f.hp("attention.key_length", f.hp("embedding_length") // heads),
            rope_parameters={"rope_type": "default", "rope_theta": base},
            **common,
        )
    if f.arch == "gemma3":
        head_dim = f.hp("attention.key_length")
        return Gemma3TextConfig(
            head_dim=head_dim,
            # Not in the file: head_dim in all published sizes but 27B.
            query_pre_attn_scalar=head_dim,
            sliding_window=f.hp("attention.sliding_window"),
            # Not in the file: every sixth layer sees everything, the others use base 10000.
            layer_types=[
                "full_attention" if (i + 1) % 6 == 0 else "sliding_attention"
                for i in range(f.hp("block_count"))
            ],
            rope_parameters={
                "full_attention": {"rope_type": "default", "rope_theta": base},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
            **common,
        )
    raise SystemExit("no conversion for architecture %s" % f.arch)


def state_of(f):
    heads = f.hp("attention.head_count")
    kv_heads = f.hp("attention.head_count_kv", heads)
    state = {}
    for name in f.tensors:
        if name == "rope_freqs.weight":
            raise SystemExit("rope_freqs.weight is not handled")
        w = f.float32(name)
        target, part = hf_name(name, f.arch)
        if f.arch == "llama" and part in ("attn_q", "attn_k"):
            w = to_halves(w, heads if part == "attn_q" else kv_heads)
        if f.arch == "gemma3" and part.endswith("norm"):
            w = w - np.float32(1)
        state[target] = torch.from_numpy(np.array(w))
    return state


def model_of(f):
    """The model in float32 with eager attention, ready to run."""
    from transformers import AutoModelForCausalLM

    config = config_of(f)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
    state = state_of(f)
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    model.tie_weights()
    return model.eval()
