#!/usr/bin/env python3
"""Ochre and llama.cpp on the same files, the same threads, taking turns, as a table of ratios.

    bench/run.py [--models NAME...] [-p 512] [-n 128] [-r 7] [-t THREADS] [--peer-python PYTHON] [--output FILE]

Both programs are loaded, each waits while the other runs; for each kind (prefill, decode) the runs alternate, and the
ratio is that of the medians. The spread of the ratio is taken over the pairs of neighbouring runs. A file of another
name can be given by its path. llama.cpp comes from llama-cpp-python, built on this machine with
its native options into build/bench-venv the first time (about ten minutes).
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, "build", "bench-venv")
VERSION = "0.3.36"
FILES = {"smollm2-135m": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3-270m": "gemma-3-270m-q4_k_m.gguf"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def peer_python(asked):
    """A Python that has llama_cpp, built natively; made when there is none."""
    python = asked or os.path.join(VENV, "bin", "python")
    if os.path.exists(python) and subprocess.run([python, "-c", "import llama_cpp"], capture_output=True).returncode == 0:
        return python
    if asked:
        raise SystemExit("bench: %s cannot import llama_cpp" % asked)
    # GCC 12 drops part of the AMX tile configuration and the program dies of it; clang does not.
    compilers = [c for c in ("clang-22", "clang-19", "clang-16", "clang") if shutil.which(c)]
    env = dict(os.environ, CMAKE_ARGS="-DGGML_NATIVE=ON", CMAKE_BUILD_PARALLEL_LEVEL=str(os.cpu_count()))
    if compilers:
        env["CC"] = compilers[0]
        env["CXX"] = compilers[0].replace("clang", "clang++")
    say("bench: building llama-cpp-python %s with %s; this takes about ten minutes" % (VERSION, env.get("CC", "cc")))
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    log = os.path.join(ROOT, "build", "bench-venv.log")
    with open(log, "w") as f:
        made = subprocess.run([python, "-m", "pip", "install", "--no-binary", "llama-cpp-python", "llama-cpp-python==" + VERSION],
                              env=env, stdout=f, stderr=subprocess.STDOUT)
    if made.returncode != 0:
        raise SystemExit("bench: building llama-cpp-python failed; see %s" % log)
    return python


class Engine:
    """A program that answers a line with a line."""

    def __init__(self, argv):
        self.argv = argv
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("bench: %s ended, exit status %s" % (self.argv[0], self.process.wait()))
        return json.loads(line)

    def run(self, kind):
        self.process.stdin.write(kind + "\n")
        self.process.stdin.flush()
        return self.read()

    def quit(self):
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        self.process.wait()


def compare(model, a, python):
    path = os.path.join(a.dir, FILES.get(model, model))
    if not os.path.exists(path):
        raise SystemExit("bench: %s is not there; get it with: tools/fetch-model %s" % (path, model))
    common = ["-p", str(a.p), "-n", str(a.n), "-t", str(a.t)]
    ours = Engine([a.ochre, "bench", path, "--interactive", *common])
    peer = Engine([python, os.path.join(ROOT, "tools", "oracle", "bench_llama.py"), "--model", path, "--interactive", *common])
    rows = []
    rss = {}
    for kind in ("prefill", "decode"):
        pairs = []
        for i in range(a.r):
            # Who goes first changes, so that neither always finds the machine warm.
            order = (ours, peer) if i % 2 == 0 else (peer, ours)
            got = {e: e.run(kind) for e in order}
            pairs.append((got[ours]["tok_per_s"], got[peer]["tok_per_s"]))
            rss = {"ochre": got[ours]["peak_rss_bytes"], "peer": got[peer]["peak_rss_bytes"]}
            say("  %s %s %d/%d: %.1f, %.1f" % (model, kind, i + 1, a.r, *pairs[-1]))
        x, y = (statistics.median(p[k] for p in pairs) for k in (0, 1))
        ratios = sorted(p[0] / p[1] for p in pairs)
        rows.append({"model": model, "what": kind + " tokens/s", "ochre": x, "peer": y, "ratio": x / y,
                     "least": ratios[0], "greatest": ratios[-1], "pairs": pairs})
    rows.append({"model": model, "what": "peak memory MB", "ochre": rss["ochre"] * 1e-6, "peer": rss["peer"] * 1e-6,
                 "ratio": rss["ochre"] / rss["peer"]})
    info = {"ochre": ours.ready, "peer": peer.ready}
    ours.quit()
    peer.quit()
    return rows, info


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--models", nargs="+", default=list(FILES))
    p.add_argument("-p", type=int, default=512)
    p.add_argument("-n", type=int, default=128)
    p.add_argument("-r", type=int, default=7)
    p.add_argument("-t", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--dir", default=os.path.join(ROOT, "models"))
    p.add_argument("--ochre", default=os.path.join(ROOT, "build", "release", "ochre"))
    p.add_argument("--peer-python", help="a Python that can import llama_cpp")
    p.add_argument("--output", default=os.path.join(ROOT, "bench", "out", "bench.json"))
    a = p.parse_args()
    python = peer_python(a.peer_python)
    all_rows, infos = [], {}
    for model in a.models:
        rows, infos[model] = compare(model, a, python)
        all_rows += rows
    with open("/proc/cpuinfo") as f:
        cpu = next((l.split(":", 1)[1].strip() for l in f if l.startswith("model name")), "?")
    peer = next(iter(infos.values()))["peer"]
    print("%s, %d threads; %d prompt tokens, %d generated, median of %d interleaved runs" % (cpu, a.t, a.p, a.n, a.r))
    print("llama-cpp-python %s:%s" % (peer["llama_cpp_python"], peer["system"].split("CPU :", 1)[-1].strip()))
    print("weight buffers: %s" % "; ".join(peer["buffers"]))
    print()
    print("%-14s %-18s %10s %10s %7s   %s" % ("model", "", "ochre", "llama.cpp", "ratio", "pairs"))
    for r in all_rows:
        spread = "%.3f .. %.3f" % (r["least"], r["greatest"]) if "least" in r else ""
        print("%-14s %-18s %10.1f %10.1f %7.3f   %s" % (r["model"], r["what"], r["ochre"], r["peer"], r["ratio"], spread))
    os.makedirs(os.path.dirname(a.output), exist_ok=True)
    with open(a.output, "w") as f:
        json.dump({"cpu": cpu, "rows": all_rows, "info": infos}, f, indent=1)


if __name__ == "__main__":
    main()
