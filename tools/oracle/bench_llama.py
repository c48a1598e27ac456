"""Times llama.cpp through llama-cpp-python's low-level API, the way llama-bench does.

    python bench_llama.py --model M.gguf [-p 512] [-n 128] [-r 5] [-t 2]
    python bench_llama.py --model M.gguf --interactive

Prints JSON, one object a line. `prefill` evaluates p tokens from an empty context
with the logits of the last; `decode` evaluates n tokens one by one from a context
of --depth tokens (0). Tokens are pseudo-random; nothing is sampled. One run of each
kind, not counted, comes first.

With --interactive, after the line {"ready": ...}, each line of standard input
(`prefill`, `decode`, `quit`) is answered by one line, so that a driver can
take turns between this program and another.
"""

import argparse
import ctypes
import json
import random
import resource
import sys
import time

import llama_cpp as llama


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def emit(**fields):
    print(json.dumps(fields), flush=True)


class Bench:
    def __init__(self, a):
        self.a = a
        self.rss_before = peak_rss_bytes()
        lines = []
        self.lines = lines

        @llama.llama_log_callback
        def keep(level, text, user):
            lines.append(text)

        # ctypes does not keep the callback alive.
        self.keep = keep
        llama.llama_log_set(keep, None)
        llama.llama_backend_init()
        mp = llama.llama_model_default_params()
        mp.use_mmap = not a.no_mmap
        mp.use_extra_bufts = not a.no_repack
        self.model = llama.llama_model_load_from_file(a.model.encode(), mp)
        if not self.model:
            raise SystemExit("bench_llama: cannot load %s" % a.model)
        cp = llama.llama_context_default_params()
        cp.n_ctx = max(a.p, a.n + a.depth) + 16
        cp.n_batch = 2048
        cp.n_ubatch = a.ubatch
        cp.n_threads = cp.n_threads_batch = a.t
        self.ctx = llama.llama_init_from_model(self.model, cp)
        if not self.ctx:
            raise SystemExit("bench_llama: cannot make a context")
        vocab = llama.llama_model_get_vocab(self.model)
        rng = random.Random(1)
        n_vocab = llama.llama_vocab_n_tokens(vocab)
        self.tokens = [rng.randrange(n_vocab) for _ in range(cp.n_ctx)]

    def clear(self):
        llama.llama_memory_clear(llama.llama_get_memory(self.ctx), True)

    def feed(self, tokens):
        array = (llama.llama_token * len(tokens))(*tokens)
        if llama.llama_decode(self.ctx, llama.llama_batch_get_one(array, len(tokens))) != 0:
            raise SystemExit("bench_llama: llama_decode failed")

    def prefill(self):
        self.clear()
        began = time.perf_counter()
        self.feed(self.tokens[:self.a.p])
        llama.llama_synchronize(self.ctx)
        return self.a.p / (time.perf_counter() - began)

    def decode(self):
        self.clear()
        if self.a.depth:
            self.feed(self.tokens[:self.a.depth])
            llama.llama_synchronize(self.ctx)
        began = time.perf_counter()
        for i in range(self.a.n):
            self.feed(self.tokens[i:i + 1])
            llama.llama_synchronize(self.ctx)
        return self.a.n / (time.perf_counter() - began)

    def info(self):
        log = b"".join(self.lines).decode(errors="replace").splitlines()
        return {
            "engine": "llama.cpp",
            "llama_cpp_python": llama.__version__,
            "system": llama.llama_print_system_info().decode(),
            "buffers": [l.split(":", 1)[1].strip() for l in log if "model buffer size" in l],
            "threads": self.a.t, "p": self.a.p, "n": self.a.n, "depth": self.a.depth,
            "ubatch": self.a.ubatch,
            "rss_before_load_bytes": self.rss_before,
        }


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True)
    p.add_argument("-p", type=int, default=512, help="tokens of a prefill run")
    p.add_argument("-n", type=int, default=128, help="tokens of a decode run")
    p.add_argument("-r", type=int, default=5, help="repeats")
    p.add_argument("-t", type=int, default=2, help="threads")
    p.add_argument("--depth", type=int, default=0, help="tokens in the context before a decode run")
    p.add_argument("--ubatch", type=int, default=512)
    p.add_argument("--no-mmap", action="store_true")
    p.add_argument("--no-repack", action="store_true", help="no AMX or repacked weight buffers")
    p.add_argument("--interactive", action="store_true")
    a = p.parse_args()
    b = Bench(a)
    kinds = {"prefill": b.prefill, "decode": b.decode}
    for run in kinds.values():
        run()
    emit(ready=True, **b.info())
    if a.interactive:
        for line in sys.stdin:
            word = line.strip()
            if word == "quit":
                break
            if word not in kinds:
                emit(error="unknown command %s" % word)
                continue
            emit(kind=word, tok_per_s=round(kinds[word](), 3), peak_rss_bytes=peak_rss_bytes())
        return
    for kind, run in kinds.items():
        for i in range(a.r):
            emit(kind=kind, repeat=i, tok_per_s=round(run(), 3))
    emit(peak_rss_bytes=peak_rss_bytes())


if __name__ == "__main__":
    main()
