#!/usr/bin/env python3
"""Ops of the decode path on a real GPU: time, and the share of the rate at which a kernel reads that does nothing else.

    bench/gpu.py --device cuda:0                      # build/release/ochre; a table on the terminal
    bench/gpu.py --device hip:0 --csv ops.csv
    bench/gpu.py --device cuda:0 --formats F16,Q4_K --torch

Operands rotate past the cache and the runs of a round are one graph (see `ochre bench op --help`); both rates are of one
process. --torch times the same product in PyTorch, where that is installed, in the same way: weights in turn, one graph.
"""
import argparse
import csv
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MATVEC = [(8192, 8192), (4096, 14336)]  # k, m
FORMATS = "F32,F16,BF16,Q8_0,Q4_0,Q4_1,Q5_0,Q5_1,Q2_K,Q3_K,Q4_K,Q5_K,Q6_K,IQ4_NL,MXFP4"


def run(program, device, args):
    done = subprocess.run([program, "bench", "op", *args, "--device", device, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench/gpu.py: {' '.join(args)}: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout)


def torch_rows(runs):
    try:
        import torch
    except ImportError:
        return
    if not torch.cuda.is_available():
        return
    for name, dtype in (("F16", torch.float16), ("BF16", torch.bfloat16)):
        for k, m in MATVEC:
            x = torch.randn(1, k, device="cuda", dtype=dtype)
            copies = max(2, 4 * torch.cuda.get_device_properties(0).L2_cache_size // (2 * k * m) + 2)
            w = [torch.randn(m, k, device="cuda", dtype=dtype) * 0.05 for _ in range(copies)]
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for i in range(copies):
                    torch.nn.functional.linear(x, w[i])
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for i in range(runs):
                    torch.nn.functional.linear(x, w[i % copies])
            times = []
            for _ in range(6):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                graph.replay()
                end.record()
                torch.cuda.synchronize()
                times.append(begin.elapsed_time(end) / 1e3 / runs)
            seconds = sorted(times[1:])[2]
            yield {"op": "linear", "dtype": name, "rows": 1, "k": k, "m": m, "by": "torch " + torch.__version__,
                   "us": seconds * 1e6, "gbps": 2 * k * m / seconds * 1e-9}
            del w, graph


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default=os.path.join(ROOT, "build", "release", "ochre"))
    p.add_argument("--device", default="auto")
    p.add_argument("--formats", default=FORMATS, help="of the weights (default: all)")
    p.add_argument("--rows", default="1", help="rows of activations, a list (default: 1)")
    p.add_argument("--codes", action="store_true", help="weights of codes with activations that are codes already, too")
    p.add_argument("--context", default="8192,32768", help="tokens of the state for attention, a list; empty: none")
    p.add_argument("--runs", type=int, default=200, help="of a round")
    p.add_argument("--torch", action="store_true", help="the same products in PyTorch")
    p.add_argument("--csv", help="write the rows there too")
    a = p.parse_args()
    rows = []

    def add(row):
        rows.append(row)
        share = f"{100 * row['gbps'] / row['read_gbps']:6.1f}%" if row.get("read_gbps") else "       "
        what = f"context {row['context']}" if row["op"] == "attention" else f"{row['k']} x {row['m']}"
        print(f"{row['op']:10} {row['dtype']:8} rows {row['rows']:<4} {what:15} {row['us']:10.2f} us {row['gbps']:9.1f} GB/s"
              f" {share} {row.get('tflops', 0):8.2f} TFLOP/s  {row['by']}", flush=True)

    def ochre(args, **more):
        r = run(a.program, a.device, args + ["-r", str(a.runs)])
        add({"op": r["op"], "dtype": r["dtype"], "rows": r["rows"], "k": r["k"], "m": r["m"], "context": r["context"],
             "us": r["seconds"] * 1e6, "gbps": r["bytes_per_second"] * 1e-9, "tflops": r["flops_per_second"] * 1e-12,
             "read_gbps": r.get("read_bytes_per_second", 0) * 1e-9, "by": "ochre: " + r["kernels"], **more})

    for n in a.rows.split(","):
        for k, m in MATVEC:
            for f in a.formats.split(","):
                for codes in ([[], ["--codes"]] if a.codes and f not in ("F32", "F16", "BF16") else [[]]):
                    ochre(["linear", "--dtype", f, "--k", str(k), "--m", str(m), "--rows", n, *codes])
    for c in filter(None, a.context.split(",")):
        ochre(["attention", "--dtype", "F16", "--context", c])
    if a.torch:
        for row in torch_rows(a.runs):
            add(row)
    if a.csv:
        names = ["op", "dtype", "rows", "k", "m", "context", "us", "gbps", "read_gbps", "tflops", "by"]
        with open(a.csv, "w", newline="") as f:
            w = csv.DictWriter(f, names, restval="")
            w.writeheader()
            w.writerows(rows)


if __name__ == "__main__":
    main()
