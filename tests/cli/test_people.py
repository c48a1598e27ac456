#!/usr/bin/env python3
"""fit, selftest, bench op, --trace and the check of kernels, from outside. Uses a tiny random model.

    test_people.py OCHRE [unittest arguments]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tiny_gguf

OCHRE = os.path.abspath(sys.argv.pop(1))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TMP = tempfile.TemporaryDirectory()
MODEL = os.path.join(TMP.name, "tiny.gguf")
SIM = "sim:gfx1151"


def ochre(*args, env=None, timeout=600):
    e = {k: v for k, v in os.environ.items() if not k.startswith("OCHRE_")}
    e["OCHRE_CACHE_DIR"] = os.path.join(TMP.name, "cache")
    e.update(env or {})
    return subprocess.run([OCHRE, *args], capture_output=True, text=True, errors="replace", env=e, timeout=timeout)


def has_compiler():
    p = ochre("bench", "op", "add", "--device", SIM, "--k", "64")
    return p.returncode == 0, p.stderr.strip()


class Fit(unittest.TestCase):
    def fit(self, *args, rc=0):
        p = ochre("fit", *args, "--json")
        self.assertEqual(p.returncode, rc, p.stderr)
        return json.loads(p.stdout)

    def test_same_as_a_real_session(self):
        f = self.fit(MODEL, "--device", "cpu", "--context", "40", "--sequences", "3")
        p = ochre("inspect", MODEL, "--device", "cpu", "--context", "40", "--sequences", "3", "--json")
        m = json.loads(p.stdout)["memory"]
        self.assertEqual(f["paged_state_bytes"] + f["ring_state_bytes"], m["state_bytes"])
        for part in ("arena_bytes", "scratch_bytes", "logits_bytes", "inputs_bytes"):
            self.assertEqual(f[part], m[part], part)
        self.assertEqual(f["total_bytes"], f["weight_bytes"] + sum(f[k] for k in (
            "paged_state_bytes", "ring_state_bytes", "arena_bytes", "scratch_bytes", "logits_bytes", "inputs_bytes")))
        self.assertEqual(f["weight_bytes"], sum(t["bytes"] for t in f["tensors"]))

    def test_state_by_hand(self):
        """llama-8b: 32 layers, K and V, 8 heads of 128, f16: 131,072 bytes a token."""
        f = self.fit("--synthetic", "llama-8b", "--format", "Q4_0", "--device", "cpu", "--context", "1024")
        self.assertEqual(f["paged_state_bytes"], 1024 * 131072)
        g = self.fit("--synthetic", "llama-8b", "--format", "Q4_0", "--device", "cpu", "--context", "2048", "--sequences", "2")
        self.assertEqual(g["paged_state_bytes"], 2 * 2048 * 131072)

    def test_too_much(self):
        f = self.fit("--synthetic", "llama-8b", "--format", "F32", "--device", "cpu", "--context", "131072", "--sequences", "512", rc=1)
        self.assertFalse(f["fits"])
        self.assertLess(f["spare_bytes"], 0)
        self.assertEqual(f["spare_bytes"], f["free_bytes"] - f["total_bytes"])

    def test_greatest_context_is_the_edge(self):
        f = self.fit("--synthetic", "llama-8b", "--format", "Q4_0", "--device", "cpu", "--sequences", "64", "--context", "32")
        c = f["greatest_context"]
        if not 0 < c < f["model_context"]:
            self.skipTest("this machine holds all of it, or nothing")
        # Free memory moves: the sizes on both sides of the edge are what must hold.
        at, over = (self.total(c + d) for d in (0, 64))
        self.assertLessEqual(at, f["free_bytes"])
        self.assertGreater(over, f["free_bytes"])

    def total(self, context):
        p = ochre("fit", "--synthetic", "llama-8b", "--format", "Q4_0", "--device", "cpu", "--sequences", "64", "--context", str(context), "--json")
        return json.loads(p.stdout)["total_bytes"]

    def test_usage(self):
        self.assertEqual(ochre("fit").returncode, 2)
        self.assertEqual(ochre("fit", MODEL, "--synthetic", "tiny").returncode, 2)


class Trace(unittest.TestCase):
    def events(self, *args):
        path = os.path.join(TMP.name, "trace.json")
        p = ochre(*args, "--trace", path)
        self.assertEqual(p.returncode, 0, p.stderr)
        with open(path) as f:
            return json.load(f)["traceEvents"]

    def test_cpu(self):
        events = self.events("run", MODEL, "--device", "cpu", "--prompt", "a b", "--max-tokens", "3", "--quiet")
        bars = [e for e in events if e["ph"] == "X"]
        steps = [e for e in bars if e["cat"] == "step"]
        self.assertGreaterEqual(len(steps), 3)
        ops = [e for e in bars if e["cat"] == "op"]
        inside = [o for o in ops if any(s["ts"] <= o["ts"] and o["ts"] + o["dur"] <= s["ts"] + s["dur"] + 0.01 for s in steps)]
        self.assertEqual(len(inside), len(ops))
        self.assertTrue(any(e["name"].startswith("linear") for e in ops))

    def test_unwritable(self):
        p = ochre("run", MODEL, "--device", "cpu", "--prompt", "a", "--trace", "/nonexistent/x.json")
        self.assertEqual(p.returncode, 1)
        self.assertIn("/nonexistent/x.json", p.stderr)


class Selftest(unittest.TestCase):
    def test_cpu(self):
        path = os.path.join(TMP.name, "cpu.json")
        p = ochre("selftest", "--device", "cpu", "-o", path)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        with open(path) as f:
            r = json.load(f)
        self.assertEqual(r["evidence"], "run")
        self.assertTrue(r["passed"])
        self.assertEqual(r["model"]["tokens"], 16)
        self.assertIsNotNone(r["bench"]["speed"])
        self.assertEqual({c["provider"] for c in r["conformance"]["cases"]} - {"cpu", "reference"}, set())
        self.assertNotIn(TMP.name, json.dumps(r))

    def test_unwritable(self):
        p = ochre("selftest", "--device", "cpu", "-q", "-o", "/nonexistent/r.json")
        self.assertEqual(p.returncode, 1)


class Matrix(unittest.TestCase):
    TOOL = os.path.join(SOURCE, "tools/platform-matrix")

    def tool(self, *args):
        return subprocess.run([sys.executable, self.TOOL, *args], capture_output=True, text=True)

    def test_page_is_made_from_the_reports(self):
        p = self.tool("--check")
        self.assertEqual(p.returncode, 0, p.stderr)

    def test_no_label_is_raised(self):
        reports = os.path.join(SOURCE, "docs/evidence/reports")
        with open(os.path.join(reports, "sim-gfx1151.json")) as f:
            good = json.load(f)
        for change, message in (({"evidence": "run"}, "cannot give evidence"), ({"evidence": "measured"}, "expected one of"),
                                ({"model": {**good["model"], "ok": False}}, "a part of it did not")):
            with tempfile.TemporaryDirectory() as d:
                with open(os.path.join(d, "r.json"), "w") as f:
                    json.dump({**good, **change}, f)
                p = self.tool("--reports", d, "--print")
                self.assertEqual(p.returncode, 1)
                self.assertIn(message, p.stderr)


class BenchOp(unittest.TestCase):
    def test_cpu_has_a_speed(self):
        p = ochre("bench", "op", "linear", "--device", "cpu", "--dtype", "Q4_K", "--k", "512", "--m", "256", "--json")
        self.assertEqual(p.returncode, 0, p.stderr)
        r = json.loads(p.stdout)
        self.assertTrue(r["right"])
        self.assertGreater(r["bytes_per_second"], 0)
        # Q4_K: 144 bytes a block of 256; x and y in f32
        self.assertEqual(r["floor_bytes"], 256 * 512 // 256 * 144 + 512 * 4 + 256 * 4)
        self.assertEqual(r["flops"], 2 * 256 * 512)

    def test_refused(self):
        self.assertEqual(ochre("bench", "op", "linaer").returncode, 2)
        p = ochre("bench", "op", "linear", "--device", "cpu", "--dtype", "Q4_K", "--k", "100")
        self.assertEqual(p.returncode, 1)
        self.assertIn("100", p.stderr)


class Simulated(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ok, why = has_compiler()
        if not ok and "no compiler" in why:
            raise unittest.SkipTest(why)

    def test_bench_op_counts(self):
        p = ochre("bench", "op", "linear", "--device", SIM, "--dtype", "Q8_0", "--k", "1024", "--m", "512", "--json")
        self.assertEqual(p.returncode, 0, p.stderr)
        r = json.loads(p.stdout)
        self.assertEqual(r["evidence"], "simulated")
        self.assertNotIn("second", p.stdout)
        self.assertEqual(r["dram_bytes"], sum(l["dram_bytes_read"] + l["dram_bytes_written"] for l in r["launches"]))
        self.assertGreaterEqual(r["dram_bytes"], r["floor_bytes"])
        self.assertTrue(all(l["kernel"] in r["kernels"] for l in r["launches"]))

    def test_bench_op_codes_through_a_norm(self):
        """What writes them and what reads them, a launch each; without the wish there is no kernel for them."""
        asked = {"OCHRE_NORM_CODES": "1", "OCHRE_NEXT_CODES": "1", "OCHRE_OWN_CODES": "0"}
        common = ["bench", "op", "linear", "--device", SIM, "--dtype", "Q8_0", "--k", "288", "--json"]
        for more, kernel in ((["--m", "96", "--codes", "--residual", "--next-norm"], "matvec_codes"),
                             (["--m", "96", "--norm", "--codes"], "matvec_F"), (["--m", "96,32,64", "--norm", "--codes"], "matvec_qkv"),
                             (["--m", "96", "--gate", "--norm", "--codes"], "matvec_glu_codes")):
            p = ochre(*common, *more, env=asked)
            self.assertEqual(p.returncode, 0, p.stderr)
            r = json.loads(p.stdout)
            self.assertTrue(r["right"])
            self.assertEqual(len(r["launches"]), 1)
            self.assertTrue(r["kernels"].startswith(kernel), r["kernels"])
        p = ochre(*common, "--m", "96", "--next-norm", env={"OCHRE_NORM_CODES": "0"})
        self.assertEqual(p.returncode, 1)
        self.assertIn("makes codes for a norm", p.stderr)

    def test_selftest(self):
        reports = os.path.join(TMP.name, "reports")
        os.makedirs(reports)
        path = os.path.join(reports, "sim.json")
        p = ochre("selftest", "--device", SIM, "-q", "-o", path)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        self.assertEqual(p.stderr, "")
        with open(path) as f:
            r = json.load(f)
        self.assertEqual(r["evidence"], "simulated")
        self.assertIsNone(r["bench"]["speed"])
        self.assertEqual(r["conformance"]["reference_tier"], 0)
        self.assertNotIn("/", r["device"]["runtime"])
        row = subprocess.run([sys.executable, Matrix.TOOL, "--reports", reports, "--print"], capture_output=True, text=True)
        self.assertIn("| gfx1151 |", row.stdout)
        self.assertIn("| simulated |", row.stdout)

    def test_trace(self):
        path = os.path.join(TMP.name, "sim-trace")
        p = ochre("run", MODEL, "--device", SIM, "--prompt", "a b", "--max-tokens", "2", "--quiet", "--trace", path)
        self.assertEqual(p.returncode, 0, p.stderr)
        with open(path) as f:
            events = json.load(f)["traceEvents"]
        device = [e for e in events if e.get("pid") == 1]
        self.assertTrue(any("simulated" in e["args"]["name"] for e in device if e["ph"] == "M"))
        self.assertTrue(any(e["name"].startswith("matvec") for e in device if e.get("cat") == "kernel"))
        self.assertTrue({"copy", "wait", "kernel", "load"} <= {e.get("cat") for e in device})

    def broken(self, file, old, new):
        d = os.path.join(TMP.name, "kernels")
        shutil.rmtree(d, ignore_errors=True)
        shutil.copytree(os.path.join(SOURCE, "kernels"), d)
        path = os.path.join(d, file)
        with open(path) as f:
            text = f.read()
        self.assertRegex(text, old)
        with open(path, "w") as f:
            f.write(re.sub(old, new, text))
        return d

    def test_a_wrong_kernel_is_refused_by_name(self):
        run = ("run", MODEL, "--device", SIM, "--prompt", "a", "--max-tokens", "1", "--quiet")
        d = self.broken("linear.ok", r"var e = t;", "var e = t * 1.1;")
        p = ochre(*run, env={"OCHRE_KERNELS_DIR": d})
        self.assertEqual(p.returncode, 1, p.stdout)
        self.assertIn("matvec", p.stderr)
        self.assertIn("computes op linear wrongly", p.stderr)
        p = ochre(*run, env={"OCHRE_KERNELS_DIR": d, "OCHRE_KERNEL_CHECK": "0"})
        self.assertEqual(p.returncode, 0, p.stderr)
        p = ochre("bench", "op", "linear", "--device", SIM, "--k", "256", "--m", "64", env={"OCHRE_KERNELS_DIR": d})
        self.assertEqual(p.returncode, 1)
        self.assertIn("WRONG", p.stdout)
        p = ochre("selftest", "--device", SIM, "-q", env={"OCHRE_KERNELS_DIR": d})
        self.assertEqual(p.returncode, 1)
        self.assertIn("FAILED", p.stdout)

    def test_the_check_is_quick(self):
        p = ochre("run", MODEL, "--device", SIM, "--prompt", "a", "--max-tokens", "1", "--quiet", env={"OCHRE_LOG": "debug"})
        found = re.search(r"(\d+) calls checked in ([0-9.]+) ms", p.stderr)
        self.assertTrue(found, p.stderr[-2000:])
        self.assertGreater(int(found[1]), 5)


if __name__ == "__main__":
    with open(MODEL, "wb") as f:
        f.write(tiny_gguf.build())
    unittest.main()
