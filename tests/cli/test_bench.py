#!/usr/bin/env python3
"""bench from outside: lists of lengths, batches and depths, what a run has to move and compute, the lines it answers.

    test_bench.py OCHRE [unittest arguments]

The floors are counted here from the tiny model's own numbers. The test on a simulated board is skipped without a clang.
"""
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tiny_gguf

OCHRE = os.path.abspath(sys.argv.pop(1))
TMP = tempfile.TemporaryDirectory()
MODEL = os.path.join(TMP.name, "tiny.gguf")
BOARD = "sim:gfx1151"
COMPILES = any(shutil.which(c) for c in ("clang-22", "clang-21", "clang-20", "clang-19", "clang"))
LAYERS, D, HEADS, KV_HEADS, FF, CONTEXT = 2, 64, 4, 2, 96, 512
HEAD, VOCAB = D // HEADS, 256 + 7 + 3


def ochre(*args, stdin="", timeout=300):
    e = {k: v for k, v in os.environ.items() if not k.startswith("OCHRE_")}
    e["OCHRE_CACHE_DIR"] = os.path.join(TMP.name, "cache")
    return subprocess.run([OCHRE, *args], input=stdin, capture_output=True, text=True, errors="replace", env=e, timeout=timeout)


def layer_weights():
    return 2 * D * HEADS * HEAD + 2 * D * KV_HEADS * HEAD + 3 * D * FF


def step_bytes(batch, depth, n, kv_bytes=2):
    """A decode step's bytes, averaged over a run: float16 matrices, float32 norms."""
    weights = 2 * (LAYERS * layer_weights() + VOCAB * D) + 4 * D * (2 * LAYERS + 1)
    rows = 2 * D * batch
    attended = sum(depth + i + 1 for i in range(n)) / n
    return weights + rows + batch * LAYERS * 2 * KV_HEADS * HEAD * kv_bytes * (attended + 1)


def prefill_flops(n):
    attention = LAYERS * HEADS * HEAD * 4 * n * (n + 1) / 2
    return 2 * (LAYERS * layer_weights() * n + VOCAB * D) + attention


class Lists(unittest.TestCase):
    def rows(self, *args):
        r = ochre("bench", MODEL, "-n", "4", "-r", "2", "--json", *args)
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def test_each_of_them(self):
        j = self.rows("-d", "cpu", "-p", "8,0,70", "--batch", "1,3", "--depth", "0,40")
        self.assertEqual([(x["test"], x["tokens"], x["batch"], x["depth"]) for x in j["rows"]],
                         [("prefill", 8, 1, 0), ("prefill", 70, 1, 0), ("decode", 4, 1, 0), ("decode", 4, 3, 0),
                          ("decode", 4, 1, 40), ("decode", 4, 3, 40)])
        self.assertEqual((j["prefill"], j["decode"]), (j["rows"][0], j["rows"][2]))
        self.assertEqual((j["batch"], j["depth"]), (1, 0))
        for x in j["rows"]:
            self.assertEqual(len(x["runs"]), 2)
            self.assertTrue(0 < x["least"] <= x["median"] <= x["greatest"])

    def test_what_a_run_has_to_do(self):
        j = self.rows("-d", "cpu", "-p", "8,70", "--batch", "1,3", "--depth", "0,40")
        for x in j["rows"]:
            if x["test"] == "prefill":
                self.assertEqual(x["flops"], prefill_flops(x["tokens"]))
                self.assertAlmostEqual(x["flops_per_second"] / (x["flops"] / x["tokens"] * x["median"]), 1, places=3)
                continue
            self.assertEqual(x["bytes_per_step"], round(step_bytes(x["batch"], x["depth"], 4)))
            self.assertAlmostEqual(x["bytes_per_second"] / (x["bytes_per_step"] * x["median"] / x["batch"]), 1, places=3)
            floor = j["read_bytes_per_second"] / x["bytes_per_step"] * x["batch"]
            self.assertAlmostEqual(x["floor_tokens_per_second"] / floor, 1, places=3)
            self.assertLess(abs(x["share"] - x["bytes_per_second"] / j["read_bytes_per_second"]), 1e-3)
        self.assertGreater(j["read_bytes_per_second"], 1e8)
        x = self.rows("-d", "cpu", "-p", "0", "--depth", "40", "--kv-type", "f32")["rows"][0]
        self.assertEqual(x["bytes_per_step"], round(step_bytes(1, 40, 4, kv_bytes=4)))

    def test_a_window(self):
        # Gemma's sliding layers attend to 512 positions at most, five in six of them.
        per = 2 * 1 * 256 * 2
        for depth in (0, 1000):
            j = json.loads(ochre("bench", "--synthetic", "gemma3-270m", "-d", "cpu", "-p", "0", "-n", "1", "-r", "1", "--depth",
                                 str(depth), "--fill", "zeros", "--json").stdout)
            if depth == 0:
                least = j["rows"][0]["bytes_per_step"]
        self.assertEqual(j["rows"][0]["bytes_per_step"] - least, per * (3 * 1000 + 15 * 511))

    def test_csv(self):
        r = ochre("bench", MODEL, "-d", "cpu", "-p", "8", "-n", "4", "-r", "1", "--batch", "1,2", "--csv")
        rows = list(csv.DictReader(r.stdout.splitlines()))
        self.assertEqual([(x["test"], x["batch"]) for x in rows], [("prefill", "1"), ("decode", "1"), ("decode", "2")])
        self.assertEqual([x["bytes_per_step"] for x in rows], ["", *("%d" % round(step_bytes(b, 0, 4)) for b in (1, 2))])
        self.assertTrue(all(None not in x and None not in x.values() for x in rows))

    def test_the_table(self):
        text = ochre("bench", MODEL, "-d", "cpu", "-p", "8", "-n", "4", "-r", "1", "--batch", "2", "--depth", "16").stdout
        self.assertRegex(text, r"prefill +8 +1 +0 +1 .*FLOP/s\n")
        self.assertRegex(text, r"decode +4 +2 +16 +1 .*GB a step, [\d.]+% of [\d.]+ tokens/s\n")
        self.assertRegex(text, r"the device reads [\d.]+ GB/s")

    def test_words_that_are_none(self):
        words = (("-p", "8,", "prompt-tokens"), ("-p", "", "prompt-tokens"), ("-p", "8,,9", "prompt-tokens"),
                 ("--batch", "0", "1 to 4096"), ("--batch", "1,-2", "batch"), ("--batch", "1x", "batch"),
                 ("--depth", "99999999999999999999", "depth"), ("--depth", ",".join(["1"] * 17), "at most 16"),
                 ("--fill", "ones", "prompt or zeros"), ("--step-tokens", "0", "step-tokens"))
        for option, word, wanted in words:
            r = ochre("bench", MODEL, option, word)
            self.assertEqual((r.returncode, r.stdout), (2, ""), (option, word))
            self.assertIn(wanted, r.stderr)

    def test_too_deep(self):
        r = ochre("bench", MODEL, "-d", "cpu", "-p", "0", "-n", "4", "--depth", str(CONTEXT))
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn("max_context", r.stderr)


class Fill(unittest.TestCase):
    def test_zeros(self):
        args = ["-d", "cpu", "-p", "0", "-n", "4", "-r", "2", "--batch", "2", "--depth", "100", "--json"]
        a, b = (json.loads(ochre("bench", MODEL, *args, *more).stdout) for more in ([], ["--fill", "zeros"]))
        self.assertEqual(a["decode"]["bytes_per_step"], b["decode"]["bytes_per_step"])
        self.assertEqual((b["decode"]["steps"], b["depth"]), (8, 100))

    def test_prompt_in_steps(self):
        for step in ("1", "7", "300"):
            j = json.loads(ochre("bench", MODEL, "-d", "cpu", "-p", "40", "-n", "2", "-r", "1", "--depth", "40", "--step-tokens",
                                 step, "--json").stdout)
            self.assertGreater(j["prefill"]["median"], 0)

    def test_a_ring_goes_back(self):
        # A ring of 512 positions and a step has lost what the run began with, and is filled again.
        r = ochre("bench", "--synthetic", "gemma3-270m", "--format", "Q4_0", "-d", "cpu", "-p", "0", "-n", "100", "-r", "1",
                  "--depth", "600", "--fill", "zeros", "--json", "--step-tokens", "32")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(json.loads(r.stdout)["decode"]["steps"], 100)


class Lines(unittest.TestCase):
    def test_other_cases(self):
        lines = ["decode", "decode 3", "decode 1 50", "prefill", "prefill 30", "rate", "decode 0", "decode 1 2 3",
                 "prefill 1 2", "prefill -1", "rate 1", "decode 1 x", "quit"]
        r = ochre("bench", MODEL, "-d", "cpu", "-p", "8", "-n", "4", "--interactive", stdin="\n".join(lines) + "\n")
        said = [json.loads(x) for x in r.stdout.splitlines()]
        self.assertTrue(said[0]["ready"])
        self.assertEqual([(x["kind"], x["tokens"], x["batch"], x["depth"]) for x in said[1:6]],
                         [("decode", 4, 1, 0), ("decode", 4, 3, 0), ("decode", 4, 1, 50), ("prefill", 8, 1, 0),
                          ("prefill", 30, 1, 0)])
        self.assertEqual(said[3]["bytes_per_step"], round(step_bytes(1, 50, 4)))
        self.assertEqual(said[5]["flops"], prefill_flops(30))
        self.assertGreater(said[6]["read_bytes_per_second"], 1e8)
        self.assertEqual(["error" in x for x in said[7:]], [True] * 6)


class Files(unittest.TestCase):
    def test_a_shape_as_a_file(self):
        # One layer of it, and what a step reads of that, counted from the published sizes.
        path = os.path.join(TMP.name, "shape.gguf")
        tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "make_gguf.py")
        for shape, fmt, block in (("llama-8b", "Q4_K", 144 / 256), ("qwen3-0.6b", "Q8_0", 34 / 32), ("qwen3-0.6b", "BF16", 2)):
            subprocess.run([sys.executable, tool, shape, fmt, path, "--layers", "1", "--vocab", "300"], check=True, capture_output=True)
            r = ochre("bench", path, "-d", "cpu", "-p", "0", "-n", "1", "-r", "1", "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            j = json.loads(r.stdout)
            d, kv, q, ff, vectors = (4096, 1024, 4096, 14336, 3 * 4096) if shape == "llama-8b" else (1024, 1024, 2048, 3072, 3 * 1024 + 256)
            weights = 2 * d * q + 2 * d * kv + 3 * d * ff
            self.assertEqual(j["architecture"], shape.split("-")[0].rstrip("8"))
            self.assertEqual(j["parameters"], weights + 2 * 300 * d + vectors)
            self.assertEqual(j["decode"]["bytes_per_step"], round(block * (weights + 301 * d) + 4 * vectors + 2 * 2 * kv * 2))
            os.remove(path)


@unittest.skipUnless(COMPILES, "no clang")
class Simulated(unittest.TestCase):
    def test_a_board(self):
        args = ["bench", "--synthetic", "tiny", "--format", "Q4_K", "--device", BOARD, "-p", "8", "-n", "2", "-r", "1",
                "--batch", "1,2", "--depth", "40"]
        for fill in ("prompt", "zeros"):
            r = ochre(*args, "--fill", fill, "--json")
            self.assertEqual(r.returncode, 0, r.stderr)
            j = json.loads(r.stdout)
            self.assertEqual([x["batch"] for x in j["rows"]], [1, 1, 2])
            # no rate: the simulator's time says nothing
            self.assertFalse([x for x in j["rows"] if {"bytes_per_second", "flops_per_second", "share"} & set(x)])
            self.assertNotIn("read_bytes_per_second", j)
            self.assertTrue(j["rows"][1]["bytes_per_step"] < j["rows"][2]["bytes_per_step"])
            self.assertGreater(j["rows"][1]["kernels_per_step"], 0)
        r = ochre(*args, "--interactive", stdin="rate\n")
        self.assertIn("means nothing", json.loads(r.stdout.splitlines()[1])["error"])


if __name__ == "__main__":
    with open(MODEL, "wb") as f:
        f.write(tiny_gguf.build(kind="f16", n_layers=LAYERS, d=D, n_heads=HEADS, n_kv=KV_HEADS, d_ff=FF, context=CONTEXT))
    unittest.main(verbosity=2)
