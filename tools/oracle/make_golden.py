"""Writes the golden file of a GGUF model: prompts, greedy tokens and the logits that chose them.

    python make_golden.py --gguf MODEL.gguf --prompts prompts.json --out GOLDEN.safetensors [--hf-out DIR]

The model runs in float32 with eager attention. Tokens are chosen greedily with a
KV cache, then one pass over prompt and answer without a cache gives the logits;
where that pass would choose another token, it is run again from there, so that
the file agrees with itself. The format is described in README.md.
"""

import argparse
import hashlib
import json
import os
import sys
import time

import numpy as np
import torch
from safetensors.numpy import save_file

from gguf_model import GgufFile, model_of
from gguf_tokenizer import tokenizer_of

N_GREEDY = 64
N_TOP = 64
N_PROBE = 64


def versions():
    import gguf
    import sentencepiece
    import tokenizers
    import transformers
    from importlib.metadata import version

    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "sentencepiece": sentencepiece.__version__,
        "gguf": version("gguf"),
        "numpy": np.__version__,
        "dtype": "float32",
        "attention": "eager",
    }


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def greedy_cached(model, ids, n):
    out, past, feed = [], None, torch.tensor([ids])
    for _ in range(n):
        r = model(input_ids=feed, past_key_values=past, use_cache=True, logits_to_keep=1)
        past = r.past_key_values
        out.append(int(r.logits[0, -1].argmax()))
        feed = torch.tensor([[out[-1]]])
    return out


def teacher_forced(model, ids, greedy):
    """Logits [len(greedy), vocab] that predict greedy[i] from ids + greedy[:i]."""
    feed = torch.tensor([ids + greedy[:-1]])
    r = model(input_ids=feed, use_cache=False, logits_to_keep=len(greedy))
    return r.logits[0]


def run(model, ids, n):
    greedy = greedy_cached(model, ids, n)
    for _ in range(n):
        logits = teacher_forced(model, ids, greedy)
        best = logits.argmax(dim=-1).tolist()
        wrong = [i for i in range(n) if best[i] != greedy[i]]
        if not wrong:
            return greedy, logits
        at = wrong[0]
        print("  a near tie at %d: cache chose %d, the whole pass %d" % (at, greedy[at], best[at]), file=sys.stderr)
        kept = greedy[:at] + [best[at]]
        greedy = kept + greedy_cached(model, ids + kept, n - len(kept)) if len(kept) < n else kept
    raise SystemExit("greedy tokens do not settle")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--gguf", required=True)
    p.add_argument("--prompts", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--hf-out", help="also save the float32 model and its tokenizer here")
    p.add_argument("--only", help="a comma-separated list of prompt names")
    a = p.parse_args()

    with open(a.prompts, encoding="utf-8") as f:
        prompts = json.load(f)["prompts"]
    if a.only:
        prompts = [q for q in prompts if q["name"] in a.only.split(",")]
    gguf = GgufFile(a.gguf)
    tok = tokenizer_of(gguf)
    model = model_of(gguf)
    vocab = model.config.vocab_size
    second = tok.hf()
    if a.hf_out:
        model.save_pretrained(a.hf_out)
        second.save(os.path.join(a.hf_out, "tokenizer.json"))
        if hasattr(tok, "proto"):
            with open(os.path.join(a.hf_out, "tokenizer.model"), "wb") as f:
                f.write(tok.proto.SerializeToString())

    probe = np.arange(N_PROBE, dtype=np.int64) * vocab // N_PROBE + vocab // (2 * N_PROBE)
    out = {"probe_ids": probe.astype(np.int32)}
    meta = {
        "oracle": json.dumps(versions()),
        "model_file": os.path.basename(a.gguf),
        "model_sha256": sha256_of(a.gguf),
        "made_by": "tools/oracle/make_golden.py --gguf %s --prompts %s --out %s" % tuple(
            os.path.basename(x) for x in (a.gguf, a.prompts, a.out)),
        "prompts": json.dumps([q["name"] for q in prompts]),
    }
    with torch.no_grad():
        for q in prompts:
            name, began = q["name"], time.time()
            ids = tok.encode(q["text"], q["parse_special"])
            second.encode_special_tokens = not q["parse_special"]
            other = second.encode(q["text"], add_special_tokens=False).ids
            if ids[len(ids) - len(other):] != other:
                print("  the two tokenizers differ on %s:\n    %s\n    %s" % (name, ids, other), file=sys.stderr)
            greedy, logits = run(model, ids, N_GREEDY)
            x = logits.numpy()
            # A stable sort of the negated values: equal logits are in the order of their ids.
            order = np.argsort(-x, axis=1, kind="stable")[:, :N_TOP]
            out[name + ".ids"] = np.array(ids, dtype=np.int32)
            out[name + ".greedy"] = np.array(greedy, dtype=np.int32)
            out[name + ".top_ids"] = order.astype(np.int32)
            out[name + ".top_logits"] = np.take_along_axis(x, order, axis=1)
            wide = x.astype(np.float64)
            peak = wide.max(axis=1, keepdims=True)
            out[name + ".lse"] = (peak[:, 0] + np.log(np.exp(wide - peak).sum(axis=1))).astype(np.float32)
            out[name + ".probe_logits"] = np.ascontiguousarray(x[:, probe])
            out[name + ".max_abs"] = np.abs(x).max(axis=1)
            assert (out[name + ".top_ids"][:, 0] == out[name + ".greedy"]).all()
            meta[name + ".text"] = q["text"]
            meta[name + ".parse_special"] = "true" if q["parse_special"] else "false"
            meta[name + ".greedy_text"] = tok.decode(greedy)
            gaps = out[name + ".top_logits"][:, 0] - out[name + ".top_logits"][:, 1]
            print("%-12s %4d tokens, smallest gap %.4f, %.1f s: %s" % (
                name, len(ids), gaps.min(), time.time() - began, repr(meta[name + ".greedy_text"][:90])))
            sys.stdout.flush()
    save_file(out, a.out, metadata=meta)


if __name__ == "__main__":
    main()
