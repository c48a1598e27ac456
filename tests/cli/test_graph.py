#!/usr/bin/env python3
"""Graphs from outside: run and bench with and without, what they say of steps, bench/graphs.py.

    test_graph.py OCHRE [unittest arguments]

On a simulated board: without a clang there are no kernels and these tests are skipped, but for those of refusals.
"""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

OCHRE = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "tests", "golden", "tiny-llama.gguf")
BOARD = "sim:gfx1151"
COMPILES = any(shutil.which(c) for c in ("clang-22", "clang-21", "clang-20", "clang-19", "clang"))


def ochre(*args, **env):
    e = {k: v for k, v in os.environ.items() if k not in ("OCHRE_GRAPHS", "OCHRE_OP_STATS")}
    return subprocess.run([OCHRE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, env=dict(e, **env))


def generate(*args, **env):
    r = ochre("run", MODEL, "--device", BOARD, "--prompt", "hello there", "-n", "12", "--temperature", "0", *args, **env)
    if r.returncode:
        raise AssertionError(r.stderr.decode())
    found = re.search(rb"(\d+) captures, (\d+) refused, (\d+) replays over (\d+) decode steps", r.stderr)
    return r.stdout, tuple(int(x) for x in found.groups()) if found else None


class Refusals(unittest.TestCase):
    def test_a_device_that_captures_none(self):
        r = ochre("run", MODEL, "--device", "cpu", "--prompt", "x", "-n", "2", "--graphs", "on")
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"captures none", r.stderr)
        self.assertEqual(ochre("run", MODEL, "--device", "cpu", "--prompt", "x", "-n", "2", OCHRE_GRAPHS="1").returncode, 0)

    def test_other_words(self):
        for command in (["run", MODEL, "--prompt", "x"], ["bench", MODEL]):
            r = ochre(*command, "--graphs", "perhaps")
            self.assertEqual(r.returncode, 2)
            self.assertIn(b"--graphs: expected auto, on", r.stderr)


@unittest.skipUnless(COMPILES, "no clang")
class Graphs(unittest.TestCase):
    def test_the_same_text_and_the_counts(self):
        text, counts = generate("--graphs", "off", OCHRE_OP_STATS="count")
        self.assertEqual(counts[:3], (0, 0, 0))
        self.assertGreater(counts[3], 8)
        for args, env in ((["--graphs", "on"], {}), ([], {"OCHRE_GRAPHS": "1"})):
            same, on = generate(*args, OCHRE_OP_STATS="count", **env)
            self.assertEqual(same, text)
            self.assertEqual(on, (1, 0, counts[3] - 1, counts[3]))
        # each op is waited for to be timed
        self.assertEqual(generate(OCHRE_OP_STATS="1", OCHRE_GRAPHS="1"), (text, (0, 0, 0, counts[3])))
        # the platform's row says no
        self.assertEqual(generate(OCHRE_OP_STATS="count"), (text, counts))

    def test_bench(self):
        args = ["bench", MODEL, "--device", BOARD, "--graphs", "both", "-p", "2", "-n", "5", "-r", "2"]
        j = json.loads(ochre(*args, "--json").stdout)
        off, on = j["decode"], j["decode_graphs"]
        self.assertEqual((off["steps"], off["replays"], on["steps"], on["replays"]), (10, 0, 10, 10))
        self.assertEqual(on["launches_per_step"], 0)
        self.assertEqual(on["kernels_per_step"], off["kernels_per_step"])
        self.assertEqual(off["launches_per_step"], off["kernels_per_step"])
        self.assertTrue(0 < on["host_seconds_per_step"] < 10)
        rows = list(csv.DictReader(ochre(*args, "--csv").stdout.decode().splitlines()))
        self.assertEqual([r["test"] for r in rows], ["prefill", "decode", "decode_graphs"])
        self.assertEqual(rows[2]["replays"], "10")
        self.assertIn(b"10 replays over 10 decode steps", ochre(*args).stdout)

    def test_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.csv")
            r = subprocess.run([sys.executable, os.path.join(ROOT, "bench", "graphs.py"), "--program", OCHRE, "--device", BOARD,
                                "--shapes", "tiny", "--batch", "1,2", "-n", "4", "-r", "2", "--csv", path],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual(r.stdout.count("8 of 8"), 2)
            with open(path) as f:
                self.assertEqual([row["batch"] for row in csv.DictReader(f)], ["1", "2"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
