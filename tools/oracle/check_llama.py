"""Compares a golden file with llama.cpp: ids, greedy choices, logits.

    python check_llama.py --model M.gguf --golden G.safetensors [--no-repack]

Prints one line a prompt. llama.cpp rounds activations to 8 bits where weights are
quantised, so logits differ by some tenths there; F32 files agree to rounding.
"""

import argparse
import ctypes
import json

import llama_cpp as llama
import numpy as np
from safetensors import safe_open


@llama.llama_log_callback
def quiet(level, text, user):
    pass


class Peer:
    def __init__(self, path, threads, repack):
        llama.llama_log_set(quiet, None)
        llama.llama_backend_init()
        mp = llama.llama_model_default_params()
        mp.use_extra_bufts = repack
        self.model = llama.llama_model_load_from_file(path.encode(), mp)
        if not self.model:
            raise SystemExit("check_llama: cannot load %s" % path)
        self.vocab = llama.llama_model_get_vocab(self.model)
        self.n_vocab = llama.llama_vocab_n_tokens(self.vocab)
        cp = llama.llama_context_default_params()
        cp.n_ctx = cp.n_batch = 2048
        cp.n_threads = cp.n_threads_batch = threads
        # The cache in F32 and plain attention, so that only the weights' kernels round.
        cp.type_k = cp.type_v = 0
        cp.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.ctx = llama.llama_init_from_model(self.model, cp)

    def tokenize(self, text, parse_special):
        raw = text.encode()
        out = (llama.llama_token * (len(raw) + 16))()
        n = llama.llama_tokenize(self.vocab, raw, len(raw), out, len(out), True, parse_special)
        return list(out[:n])

    def logits(self, ids, first):
        """Logits [len(ids) - first, vocab] at the positions from first on."""
        llama.llama_memory_clear(llama.llama_get_memory(self.ctx), True)
        b = llama.llama_batch_init(len(ids), 0, 1)
        b.n_tokens = len(ids)
        for i, token in enumerate(ids):
            b.token[i], b.pos[i], b.n_seq_id[i], b.seq_id[i][0] = token, i, 1, 0
            b.logits[i] = int(i >= first)
        if llama.llama_decode(self.ctx, b) != 0:
            raise SystemExit("check_llama: llama_decode failed")
        rows = [np.ctypeslib.as_array(llama.llama_get_logits_ith(self.ctx, i), shape=(self.n_vocab,)).copy()
                for i in range(first, len(ids))]
        llama.llama_batch_free(b)
        return np.stack(rows).astype(np.float64)


def lse(x):
    peak = x.max(axis=1, keepdims=True)
    return peak[:, 0] + np.log(np.exp(x - peak).sum(axis=1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True)
    p.add_argument("--golden", required=True)
    p.add_argument("-t", type=int, default=2)
    p.add_argument("--no-repack", action="store_true", help="no AMX or repacked weight buffers")
    a = p.parse_args()
    golden = safe_open(a.golden, "numpy")
    meta = golden.metadata()
    peer = Peer(a.model, a.t, not a.no_repack)
    for name in json.loads(meta["prompts"]):
        ids = golden.get_tensor(name + ".ids").tolist()
        greedy = golden.get_tensor(name + ".greedy").tolist()
        n = len(greedy)
        got = peer.logits(ids + greedy[:-1], len(ids) - 1)
        agree = int((got.argmax(axis=1) == np.array(greedy)).sum())
        words = ""
        if name + ".logits" in golden.keys():
            want = golden.get_tensor(name + ".logits")[len(ids) - 1:-1].astype(np.float64)
            worst = np.abs(got - want).max()
            logp, logq = want - lse(want)[:, None], got - lse(got)[:, None]
        else:
            top = golden.get_tensor(name + ".top_ids")
            want = golden.get_tensor(name + ".top_logits").astype(np.float64)
            logp = want - golden.get_tensor(name + ".lse").astype(np.float64)[:, None]
            logq = np.take_along_axis(got, top, axis=1) - lse(got)[:, None]
            worst = np.abs(np.take_along_axis(got, top, axis=1) - want).max()
            mine = peer.tokenize(meta[name + ".text"], meta[name + ".parse_special"] == "true")
            words = "ids agree, " if mine == ids else "ids DIFFER, "
            if mine != ids:
                print("  llama.cpp %s\n  golden    %s" % (mine, ids))
        kl = (np.exp(logp) * (logp - logq)).sum(axis=1)
        print("%-12s %sgreedy %d of %d, worst |dlogit| %.5f, KL mean %.2e max %.2e" % (
            name, words, agree, n, worst, kl.mean(), kl.max()), flush=True)


if __name__ == "__main__":
    main()
