#!/usr/bin/env python3
"""Ochre and PyTorch (transformers) on one GPU, taking turns: decode and prefill of one shape, and what the device reaches.

    bench/peers.py --ochre build/release/ochre --device cuda:0 --json peers.json
    bench/peers.py --shape qwen3-0.6b --formats BF16,Q4_K --batch 1 --prefill ''

PyTorch runs transformers' own model of that shape in BF16 with random weights, a static cache of --context tokens and a
decode step captured as a CUDA graph; prefill is one pass over the prompt. Ochre runs `ochre bench --interactive` on the
same sizes, a process a format. Runs alternate; medians are printed. Operations of a prefill are counted as `ochre bench`
counts them. --torch-device cpu checks the path without a GPU: no graphs, and no figure means anything.

Needs PyTorch and transformers: python3 -m pip install torch transformers
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFAULT = os.path.join(ROOT, "build", "release", "ochre")
ARCHS = ("llama", "qwen3")  # that Torch makes


def import_peer(device):
    """torch and transformers, with a GPU where one is asked for."""
    try:
        import torch
        import transformers
    except ImportError as e:
        sys.exit("peers.py: %s; PyTorch and transformers are needed: python3 -m pip install torch transformers" % e)
    if not hasattr(transformers, "StaticCache") or not hasattr(transformers, "Qwen3Config"):
        sys.exit("peers.py: transformers %s is too old: python3 -m pip install -U transformers" % transformers.__version__)
    if device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("peers.py: PyTorch %s finds no GPU (--torch-device cpu tries the path without one)" % torch.__version__)
    return torch, transformers


def shape_of(name):
    """The row of src/model/shapes.def."""
    with open(os.path.join(ROOT, "src", "model", "shapes.def")) as f:
        for row in re.findall(r'^OCH_SHAPE\("([^"]+)", (\w+), ([\d, ]+)\)', f.read(), re.M):
            if row[0] == name:
                keys = ("layers", "d", "heads", "kv", "hd", "ff", "vocab", "window")
                return dict(zip(keys, (int(x) for x in row[2].split(","))), arch=row[1])
    sys.exit("peers.py: no shape %s in src/model/shapes.def" % name)


def prefill_flops(s, n):
    layer = 2 * s["d"] * s["heads"] * s["hd"] + 2 * s["d"] * s["kv"] * s["hd"] + 3 * s["d"] * s["ff"]
    return 2 * (s["layers"] * layer * n + s["vocab"] * s["d"]) + s["layers"] * s["heads"] * s["hd"] * 2 * n * (n + 1)


class Torch:
    def __init__(self, s, device, context):
        torch, transformers = import_peer(device)
        self.torch, self.device, self.context = torch, device, context
        self.gpu = device.startswith("cuda")
        self.name = "torch %s, transformers %s" % (torch.__version__, transformers.__version__)
        made = {"llama": transformers.LlamaConfig, "qwen3": transformers.Qwen3Config}[s["arch"]]
        model = {"llama": transformers.LlamaForCausalLM, "qwen3": transformers.Qwen3ForCausalLM}[s["arch"]]
        self.config = made(vocab_size=s["vocab"], hidden_size=s["d"], intermediate_size=s["ff"], num_hidden_layers=s["layers"],
                           num_attention_heads=s["heads"], num_key_value_heads=s["kv"], head_dim=s["hd"],
                           max_position_embeddings=131072, tie_word_embeddings=False, attn_implementation="sdpa")
        torch.set_default_dtype(torch.bfloat16)
        with torch.device(device), torch.no_grad():
            self.model = model(self.config).eval()
        torch.set_default_dtype(torch.float32)
        self.step = None

    def sync(self):
        if self.gpu:
            self.torch.cuda.synchronize()

    def ready(self, batch, tokens):
        """A step of `batch` sequences over a cache of `context` positions, captured where there are graphs."""
        torch = self.torch
        from transformers import StaticCache
        self.step, self.batch, self.tokens = None, batch, tokens
        self.cache = StaticCache(config=self.config, max_cache_len=self.context)
        ids = torch.ones((batch, 1), dtype=torch.long, device=self.device)
        self.position = torch.zeros((batch, 1), dtype=torch.long, device=self.device)
        every = torch.arange(self.context, device=self.device)

        def step():
            mask = (every <= self.position[:, :1, None])[:, None]  # [batch, 1, 1, context]
            out = self.model(input_ids=ids, attention_mask=mask, position_ids=self.position, past_key_values=self.cache,
                             use_cache=True)
            ids.copy_(out.logits[:, -1].argmax(-1, keepdim=True))
            self.position.add_(1)

        with torch.no_grad():
            if not self.gpu:
                step()
                self.step = step
            else:
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    for _ in range(3):
                        step()
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                try:
                    with torch.cuda.graph(graph):
                        step()
                    self.step = graph.replay
                except RuntimeError as e:
                    print(f"peers.py: PyTorch's step is not captured, what follows is without graphs: {e}", file=sys.stderr)
                    self.step = step
        self.decode()

    def decode(self):
        """Tokens a second of `tokens` steps that end at a full cache."""
        torch = self.torch
        start = self.context - self.tokens
        self.position.fill_(start)
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(start)
        self.sync()
        t0 = time.perf_counter()
        with torch.no_grad():
            for _ in range(self.tokens):
                self.step()
        self.sync()
        return self.tokens * self.batch / (time.perf_counter() - t0)

    def prefill(self, n):
        torch = self.torch
        ids = torch.randint(self.config.vocab_size, (1, n), device=self.device)
        self.sync()
        t0 = time.perf_counter()
        with torch.no_grad():
            self.model(input_ids=ids, use_cache=True, logits_to_keep=1)
        self.sync()
        return n / (time.perf_counter() - t0)

    def rates(self, n, words):
        """Operations a second of a large BF16 product, and bytes a second of a large read."""
        torch = self.torch
        a, b = (torch.randn(n, n, device=self.device, dtype=torch.bfloat16) for _ in range(2))
        x = torch.ones(words, device=self.device)

        def best(f, runs):
            f()
            times = []
            for _ in range(5):
                self.sync()
                t0 = time.perf_counter()
                for _ in range(runs):
                    f()
                self.sync()
                times.append((time.perf_counter() - t0) / runs)
            return statistics.median(times)

        return 2 * n ** 3 / best(lambda: a @ b, 10), 4 * words / best(lambda: x.sum(), 10)


class Ochre:
    def __init__(self, a, fmt, context):
        depth = context - a.tokens
        argv = [a.ochre, "bench", "--synthetic", a.shape, "--format", fmt, "--device", a.device, "-p", "0", "-n", str(a.tokens),
                "--depth", str(depth), "--step-tokens", str(a.step_tokens), "--fill", a.fill, "--interactive"]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.depth = depth
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        j = json.loads(line) if line else {"error": "it ended"}
        if "error" in j:
            raise RuntimeError("ochre bench: " + j["error"])
        return j

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def numbers(text):
    """A list of whole numbers from 1, perhaps an empty one; argparse tells what is none."""
    found = [int(x) for x in text.split(",") if x]
    if any(x < 1 for x in found):
        raise ValueError
    return found


def checked(p):
    """The arguments, after what can be told before anything is loaded."""
    a = p.parse_args()
    s = shape_of(a.shape)
    if s["arch"] not in ARCHS:
        p.error("--shape: expected one of %s, %s is one of %s" % (" or ".join(ARCHS), a.shape, s["arch"]))
    if not 1 <= a.tokens < a.context:
        p.error("--tokens: expected 1 to %d (less than --context), found %d" % (a.context - 1, a.tokens))
    if a.runs < 1:
        p.error("--runs: expected 1 or more, found %d" % a.runs)
    a.formats = [x for x in a.formats.split(",") if x]
    if not a.formats:
        p.error("--formats: expected at least one")
    if not shutil.which(a.ochre):
        p.error("--ochre: no program %s (make release builds it)" % a.ochre)
    return a, s


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ochre", default=DEFAULT, help="the program (default: %(default)s)")
    p.add_argument("--device", default="cuda:0", help="Ochre's (default: cuda:0)")
    p.add_argument("--torch-device", default="cuda", help="PyTorch's (default: cuda)")
    p.add_argument("--shape", default="llama-8b", help="a row of src/model/shapes.def (default: llama-8b)")
    p.add_argument("--formats", default="BF16", help="Ochre's, a list (default: BF16)")
    p.add_argument("--batch", type=numbers, default="1,8,64", help="sequences of a decode step, a list (default: 1,8,64)")
    p.add_argument("--context", type=int, default=512, help="positions of the cache; runs end there (default: 512)")
    p.add_argument("--deep", type=int, default=0, help="a depth at which Ochre alone decodes, batch 1 (default: none)")
    p.add_argument("--prefill", type=numbers, default="512,2048,8192", help="tokens of a prompt, a list (default: 512,2048,8192)")
    p.add_argument("--tokens", "-n", type=int, default=64, help="of a decode run (default: 64)")
    p.add_argument("--runs", "-r", type=int, default=5, help="of each, in turns (default: 5)")
    p.add_argument("--step-tokens", type=int, default=2048, help="of a prompt in one step of Ochre's (default: 2048)")
    p.add_argument("--fill", default="zeros", help="Ochre's contents of the cache before a run (default: zeros, as PyTorch's)")
    p.add_argument("--product", type=int, default=8192, help="of the product rate (default: 8192)")
    p.add_argument("--read-bytes", type=int, default=1 << 32, help="of the read rate (default: 4 GiB)")
    p.add_argument("--json", help="write rows there too")
    a, s = checked(p)
    peer = Torch(s, a.torch_device, a.context)
    product, read = peer.rates(a.product, a.read_bytes // 4)
    rows = []
    print("%s; BF16 product of %d: %.1f TFLOP/s; PyTorch reads %.1f GB/s"
          % (peer.name, a.product, product * 1e-12, read * 1e-9), flush=True)
    print("| %s | format | Ochre, tokens/s | PyTorch BF16, tokens/s | ratio | Ochre | PyTorch |" % a.shape)
    print("|---|---|--:|--:|--:|--:|--:|", flush=True)

    def row(what, fmt, ours, theirs, limit):
        rows.append({"what": what, "format": fmt, "ochre": ours, "torch": theirs, **limit})
        if "flops" in limit:
            tell = ["%.1f TFLOP/s, %.0f%%" % (x * limit["flops"] * 1e-12, 100 * x * limit["flops"] / product) if x else ""
                    for x in (ours, theirs)]
        else:
            tell = ["%.0f%% of the read rate" % (100 * ours * limit["bytes"] / limit["read"]) if limit["read"] else "", ""]
        print("| %s | %s | %.1f | %s | %s | %s | %s |" % (what, fmt, ours, "%.1f" % theirs if theirs else "",
                                                          "%.2f" % (ours / theirs) if theirs else "", *tell), flush=True)

    failed = False
    for fmt in a.formats:
        engine = None
        try:
            engine = Ochre(a, fmt, a.context)
            try:
                rate = engine.ask("rate")["read_bytes_per_second"]
            except RuntimeError:
                rate = 0.0  # a simulated device
            for batch in a.batch:
                peer.ready(batch, a.tokens)
                ask, both = "decode %d %d" % (batch, engine.depth), []
                engine.ask(ask)
                for _ in range(a.runs):
                    j = engine.ask(ask)
                    both.append((j["tok_per_s"], peer.decode()))
                ours, theirs = (statistics.median(x) for x in zip(*both))
                row("decode, batch %d, %d tokens" % (batch, a.context), fmt, ours, theirs,
                    {"bytes": j["bytes_per_step"] / batch, "read": rate})
            peer.step = peer.cache = None
            for n in a.prefill:
                both = [(engine.ask("prefill %d" % n), peer.prefill(n)) for _ in range(a.runs + 1)][1:]
                row("prefill, %d tokens" % n, fmt, statistics.median(x["tok_per_s"] for x, _ in both),
                    statistics.median(y for _, y in both), {"flops": prefill_flops(s, n) / n})
                if both[0][0]["flops"] != prefill_flops(s, n):
                    sys.exit("peers.py: Ochre counts other operations: %r" % both[0][0]["flops"])
            if a.deep:
                ask = "decode 1 %d" % a.deep
                engine.ask(ask)
                said = [engine.ask(ask) for _ in range(a.runs)]
                row("decode, batch 1, %d tokens" % a.deep, fmt, statistics.median(x["tok_per_s"] for x in said), 0,
                    {"bytes": said[0]["bytes_per_step"], "read": rate})
        except RuntimeError as e:  # PyTorch's memory that ran out is one too
            failed = True
            print("peers.py: %s: %s" % (fmt, e), file=sys.stderr, flush=True)
        finally:
            if engine:
                engine.close()
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"peer": peer.name, "product_flops_per_second": product, "torch_read_bytes_per_second": read, "shape": a.shape,
                       "rows": rows}, f, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
