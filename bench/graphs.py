#!/usr/bin/env python3
"""What captured decode steps are worth: synthetic models on a device, graphs off and on taking turns in one process each.

    bench/graphs.py --device cuda
    bench/graphs.py --program ./ochre --device hip:0 --shapes qwen3-0.6b,llama-8b --batch 1,8 --csv graphs.csv

Needs the program and Python, nothing else. Prints a table (Markdown): tokens a second with graphs off and on (medians of runs
that take turns), their ratio, host time a step, kernels and launches a step, and how many of the steps were replays.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys

SHAPES = "qwen3-0.6b,qwen3-1.7b,qwen3-4b,llama-8b"
COLUMNS = ["shape", "format", "batch", "depth", "off_tokens_per_s", "on_tokens_per_s", "ratio", "off_host_us_per_step",
           "on_host_us_per_step", "kernels_per_step", "off_launches_per_step", "on_launches_per_step", "replays", "steps",
           "load_seconds"]


def find_program(given):
    here = os.path.dirname(os.path.abspath(__file__))
    tried = [given] if given else [os.path.join(here, "..", "build", "release", "ochre"), os.path.join(here, "ochre"),
                                   shutil.which("ochre")]
    for p in tried:
        if p and os.access(p, os.X_OK) and not os.path.isdir(p):
            return p
    sys.exit("graphs.py: no program ochre; name it with --program")


def measure(a, program, shape, batch):
    argv = [program, "bench", "--synthetic", shape, "--format", a.format, "--device", a.device, "--graphs", "both", "-p", "0", "-n",
            str(a.tokens), "-r", str(a.runs), "--batch", str(batch), "--depth", str(a.depth), "--json"]
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=a.timeout)
    if r.returncode:
        raise RuntimeError(r.stderr.strip() or "exit code %d" % r.returncode)
    j = json.loads(r.stdout)
    off, on = j["decode"], j["decode_graphs"]
    row = {"shape": shape, "format": a.format, "batch": batch, "depth": a.depth, "off_tokens_per_s": off["median"],
           "on_tokens_per_s": on["median"], "ratio": on["median"] / off["median"],
           "off_host_us_per_step": off["host_seconds_per_step"] * 1e6, "on_host_us_per_step": on["host_seconds_per_step"] * 1e6,
           "kernels_per_step": on["kernels_per_step"], "off_launches_per_step": off["launches_per_step"],
           "on_launches_per_step": on["launches_per_step"], "replays": on["replays"], "steps": on["steps"],
           "load_seconds": j["load_seconds"]}
    return row, j


def show(row):
    print("| %s | %s | %d | %.1f | %.1f | %.3f | %.1f | %.1f | %.0f | %.0f | %.0f | %d of %d |" % (
        row["shape"], row["format"], row["batch"], row["off_tokens_per_s"], row["on_tokens_per_s"], row["ratio"],
        row["off_host_us_per_step"], row["on_host_us_per_step"], row["kernels_per_step"], row["off_launches_per_step"],
        row["on_launches_per_step"], row["replays"], row["steps"]), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", help="the program (default: build/release/ochre, or ochre beside this file or in PATH)")
    p.add_argument("--device", default="auto")
    p.add_argument("--shapes", default=SHAPES, help="comma-separated (default: %(default)s)")
    p.add_argument("--format", default="Q8_0", help="of the weights (default: %(default)s)")
    p.add_argument("--batch", default="1", help="sequences at once, comma-separated (default: %(default)s)")
    p.add_argument("--tokens", "-n", type=int, default=64, help="tokens of a run (default: %(default)s)")
    p.add_argument("--runs", "-r", type=int, default=7, help="runs of each (default: %(default)s)")
    p.add_argument("--depth", type=int, default=0, help="tokens before each run (default: %(default)s)")
    p.add_argument("--timeout", type=float, default=600, help="seconds a shape may take (default: %(default)s)")
    p.add_argument("--json", help="write what the program said there, a line a measurement")
    p.add_argument("--csv", help="write the rows there too")
    a = p.parse_args()
    program = find_program(a.program)
    rows, said, failures = [], [], 0
    print("| shape | weights | batch | tokens/s off | on | on/off | host us a step, off | on | kernels a step | launches a step, off | on "
          "| replays |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for shape in a.shapes.split(","):
        for batch in a.batch.split(","):
            try:
                row, j = measure(a, program, shape, int(batch))
            except (RuntimeError, subprocess.TimeoutExpired, ValueError, KeyError) as e:
                print("graphs.py: %s, batch %s: %s" % (shape, batch, e), file=sys.stderr, flush=True)
                failures += 1
                continue
            rows.append(row)
            said.append(j)
            show(row)
    if a.csv:
        with open(a.csv, "w", newline="") as f:
            w = csv.DictWriter(f, COLUMNS)
            w.writeheader()
            w.writerows(rows)
    if a.json:
        with open(a.json, "w") as f:
            for j in said:
                f.write(json.dumps(j) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
