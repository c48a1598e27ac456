#!/usr/bin/env python3
"""`ochre tune` from outside: what it lists and forgets, what it refuses. Products are timed on real devices alone; that measured
times are kept and decide is unit/test_blas's, and that measured cuts do, unit/test_gpu_tune's.

    test_tune.py OCHRE HIPBLASLT [unittest arguments]

HIPBLASLT: one for simulated boards (unit/fake_blas.c).
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

OCHRE = os.path.abspath(sys.argv.pop(1))
HIPBLASLT = os.path.abspath(sys.argv.pop(1))
TMP = tempfile.TemporaryDirectory()
NAMES = ("device", "arch", "driver", "library", "ochre")
BOARD = ('A "board", größer', "gfx1151", "HIP 7.0", "hipBLASLt 1.0.0", "0.1.0")
OTHER = ("another", "sm_90", "CUDA 13.0", "cuBLASLt 13.1.0", "0.1.0")
TIMES = [(BOARD, "Q4_K", 4096, 2048, 16, 10.5, 21.25), (BOARD, "Q4_K", 4096, 2048, 512, 100.0, 50.0),
         (OTHER, "BF16", 14336, 4096, 2048, 7.0, 7.0)]
CUT_NAMES = ("device", "arch", "driver", "source")
CUT_BOARD, CUT_OTHER = BOARD[:3] + ("0123456789abcdef" * 2,), OTHER[:3] + ("f" * 32,)
CUTS = [(CUT_BOARD, "matvec", "Q4_K", "Q4_K", 4096, 2048, "ROWS=2,U=2,", 10.5, 8.25),
        (CUT_BOARD, "matvec_qkv", "Q4_K", "Q6_K", 6144, 2048, "", 7.5, 7.25),
        (CUT_OTHER, "matvec_glu", "BF16", "BF16", 14336, 4096, "U=2,", 50.0, 40.0)]


def cut(key, kernel, dtype, dtype_v, m, k, cut, present_us, cut_us):
    return dict(zip(CUT_NAMES, key), kernel=kernel, dtype=dtype, dtype_v=dtype_v, m=m, k=k, cut=cut, present_us=present_us, cut_us=cut_us)


def record(key, dtype, m, k, rows, kernel_us, library_us):
    return dict(zip(NAMES, key), dtype=dtype, m=m, k=k, rows=rows, kernel_us=kernel_us, library_us=library_us)


class Tune(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=TMP.name)
        self.store = os.path.join(self.folder, "blas.json")
        self.cuts = os.path.join(self.folder, "cuts.json")

    def write(self, text, path=None):
        with open(path or self.store, "w") as f:
            f.write(text)

    def measured(self, cuts=False):
        self.write(json.dumps({"format": 1, "products": [record(*t) for t in TIMES]}))
        if cuts:
            self.write(json.dumps({"format": 1, "cuts": [cut(*c) for c in CUTS]}), self.cuts)

    def tune(self, *args, code=0, stdout=subprocess.PIPE, **env):
        e = {k: v for k, v in os.environ.items() if not k.startswith("OCHRE_")}
        e.update({"OCHRE_CACHE_DIR": self.folder, **env})
        e = {k: v for k, v in e.items() if v is not None}
        r = subprocess.run([OCHRE, "tune", *args], stdout=stdout, stderr=subprocess.PIPE, text=True, env=e, timeout=120)
        self.assertEqual(r.returncode, code, (args, r.stderr))
        if code:
            self.assertIn("ochre: error: ", r.stderr)
            self.assertFalse(r.stdout)
        return r.stderr if code else r.stdout

    def test_help(self):
        text = self.tune("--help")
        self.assertLess(max(map(len, text.splitlines())), 129)
        for part in ("usage: ochre tune [MODEL]", "--list", "--clear", "--json", "--synthetic SHAPE", "--seconds N", "\n  ochre tune --list\n", "docs/tuning.md"):
            self.assertIn(part, text)

    def test_nothing_was_measured(self):
        self.assertEqual(self.tune("--list"), "nothing was measured\n")
        self.assertEqual(json.loads(self.tune("--list", "--json")), {"cuts": [], "products": []})
        self.assertEqual(self.tune("--clear"), "nothing was measured\n")
        self.assertEqual(json.loads(self.tune("--clear", "--json")), {"removed": False})
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_was_measured(self):
        self.measured()
        lines = self.tune("--list").splitlines()
        self.assertEqual(len(lines), 5)  # two headings
        self.assertEqual(lines[0], 'A "board", größer (gfx1151), HIP 7.0, hipBLASLt 1.0.0, ochre 0.1.0: kernels, library, the faster')
        self.assertEqual(lines[1].split(), "Q4_K 4096 x 2048 16 rows 10.5 us 21.2 us kernels".split())
        self.assertEqual(lines[2].split(), "Q4_K 4096 x 2048 512 rows 100.0 us 50.0 us library".split())
        self.assertTrue(lines[3].startswith("another (sm_90), "))
        self.assertEqual(lines[4].split()[-1], "kernels")  # neither is faster: no library is needed

    def test_json_reads_back(self):
        self.measured()
        found = json.loads(self.tune("--json", "--list"))["products"]
        self.assertEqual(found, [dict(record(*t), faster=f) for t, f in zip(TIMES, ("kernels", "library", "kernels"))])
        p = subprocess.Popen([OCHRE, "tune", "--list", "--json"], stdout=subprocess.PIPE, env=dict(os.environ, OCHRE_CACHE_DIR=self.folder))
        r = subprocess.run([sys.executable, "-m", "json.tool"], stdin=p.stdout, capture_output=True, text=True, timeout=60)
        p.stdout.close()
        self.assertEqual((p.wait(), r.returncode), (0, 0), r.stderr)

    def test_what_cannot_be_written(self):
        self.measured()
        with open("/dev/full", "w") as full:
            self.assertIn("No space left", self.tune("--list", code=1, stdout=full))

    def test_clear_takes_the_times_alone(self):
        self.measured()
        os.mkdir(os.path.join(self.folder, "v1"))
        self.assertEqual(self.tune("--clear"), "measured times were removed\n")
        self.assertEqual(os.listdir(self.folder), ["v1"])
        self.measured()
        self.assertEqual(json.loads(self.tune("--clear", "--json")), {"removed": True})
        self.assertEqual(json.loads(self.tune("--list", "--json")), {"cuts": [], "products": []})
        self.measured(cuts=True)
        self.assertEqual(self.tune("--clear"), "measured times were removed\n")
        self.assertEqual(os.listdir(self.folder), ["v1"])
        self.write(json.dumps({"format": 1, "cuts": []}), self.cuts)
        self.assertEqual(json.loads(self.tune("--clear", "--json")), {"removed": True})
        self.assertEqual(os.listdir(self.folder), ["v1"])

    def test_how_products_with_one_row_are_cut(self):
        self.measured(cuts=True)
        lines = self.tune("--list").splitlines()
        self.assertEqual(len(lines), 10)  # four headings, which cuts stand before
        self.assertEqual(lines[0], 'A "board", größer (gfx1151), HIP 7.0: one row: as it is, the fastest, how that is cut')
        self.assertEqual(lines[1].split(), "Q4_K 4096 x 2048 matvec 10.5 us 8.2 us ROWS=2,U=2".split())
        self.assertEqual(lines[2].split(), "Q4_K+Q6_K 6144 x 2048 matvec_qkv 7.5 us 7.2 us as it is".split())
        self.assertTrue(lines[3].startswith("another (sm_90), CUDA 13.0: "))
        self.assertEqual(lines[4].split()[-1], "U=2")
        self.assertTrue(lines[5].endswith("kernels, library, the faster"))
        found = json.loads(self.tune("--json", "--list"))
        self.assertEqual(found["cuts"], [cut(*c) for c in CUTS])
        self.assertEqual(len(found["products"]), len(TIMES))

    def test_cuts_that_are_none(self):
        bad = json.dumps({"format": 1, "cuts": [dict(cut(*CUTS[0]), kernel="matmul")]})
        for text, wanted in (("{", "cuts.json"), ('{"format": 9, "cuts": []}', "expected format 1, found 9"), (bad, 'found "matmul"')):
            self.measured()
            self.write(text, self.cuts)
            for more in ([], ["--json"]):
                error = self.tune("--list", *more, code=1)
                self.assertIn(self.cuts, error)
                self.assertIn(wanted, error)
            self.tune("--clear")
            self.assertEqual(os.listdir(self.folder), [])

    def test_one_that_cannot_be_removed(self):
        self.measured()
        os.mkdir(self.cuts)
        self.assertIn("cuts.json: Is a directory", self.tune("--clear", code=1))
        self.assertEqual(os.listdir(self.folder), ["cuts.json"])
        os.rmdir(self.cuts)
        self.measured(cuts=True)
        os.remove(self.store)
        os.mkdir(self.store)
        self.assertIn("blas.json: Is a directory", self.tune("--clear", code=1))
        self.assertEqual(os.listdir(self.folder), ["blas.json"])

    def test_texts_that_are_no_commands(self):
        key = ("a\x1b[31m\nb\x7f",) * 5
        self.write(json.dumps({"format": 1, "products": [record(key, *TIMES[0][1:])]}))
        self.write(json.dumps({"format": 1, "cuts": [cut(key[:4], *CUTS[0][1:6], "U\x1b[2J", 1, 1)]}), self.cuts)
        lines = self.tune("--list").split("\n")
        self.assertEqual(len(lines), 5)
        self.assertTrue(all(line.isprintable() for line in lines))
        self.assertEqual(lines[0].split(",")[0], "a?[31m?b? (a?[31m?b?)")
        self.assertEqual(lines[1].split()[-1], "U?[2J")  # all of what is no list's
        found = json.loads(self.tune("--list", "--json"))  # which escapes them
        self.assertEqual((found["cuts"][0]["device"], found["cuts"][0]["cut"], found["products"][0]["library"]), (key[0], "U\x1b[2J", key[0]))

    def test_short_times(self):
        self.write(json.dumps({"format": 1, "products": [record(*TIMES[0][:5], 0.0004, 1e-9)]}))
        self.write(json.dumps({"format": 1, "cuts": [cut(*CUTS[0][:7], 0.0004, 1e-9)]}), self.cuts)
        found = json.loads(self.tune("--list", "--json"))
        self.assertEqual([found["cuts"][0][k] for k in ("present_us", "cut_us")], [0.0004, 1e-9])
        self.assertEqual([found["products"][0][k] for k in ("kernel_us", "library_us")], [0.0004, 1e-9])

    def test_a_file_that_is_none(self):
        for text, wanted in (("{", "blas.json"), ('{"format": 9, "products": []}', "expected format 1, found 9"),
                             (json.dumps({"format": 1, "products": [record(BOARD, "Q9", 1, 1, 1, 1, 1)]}), 'found "Q9"')):
            self.write(text)
            for more in ([], ["--json"]):
                error = self.tune("--list", *more, code=1)
                self.assertIn(self.store, error)
                self.assertIn(wanted, error)
            self.tune("--clear")
            self.assertFalse(os.path.exists(self.store))

    def test_no_folder(self):
        for args in (["--list"], ["--clear"], ["--synthetic", "tiny"]):
            error = self.tune(*args, code=1, OCHRE_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME=None)
            self.assertIn("no folder for a cache: OCHRE_CACHE_DIR", error)

    def test_what_makes_no_sense(self):
        for args, wanted in (([], "which model?"), (["m.gguf", "--synthetic", "tiny"], "expected one"), (["a", "b"], 'unexpected argument "b"'),
                             (["--list", "--clear"], "expected one"), (["--list", "m.gguf"], "--list is of all"),
                             (["--clear", "m.gguf"], "--clear is of all"), (["--clear", "--device", "cpu"], "--clear is of all"),
                             (["--list", "--synthetic", "tiny"], "--list is of all"), (["--list", "--format", "F16"], "--list is of all"),
                             (["m.gguf", "--format", "F16"], "weight format of --synthetic"),
                             (["--synthetic", "tiny", "--format", "Q9"], '--format: expected one of F32, F16, BF16, '),
                             (["--list", "--seconds", "9"], "--list is of all"), (["m.gguf", "--seconds", "0"], "--seconds"),
                             (["--lits"], "did you mean --list?"), (["--list=1"], "--list"), (["--device"], "--device")):
            self.measured()
            error = self.tune(*args, code=2)
            self.assertIn(wanted, error)
            self.assertIn("ochre tune --help", error)
            self.assertTrue(os.path.exists(self.store))

    def test_devices_that_are_not_timed(self):
        for device, wanted in (("cpu", "expected a GPU"), ("null", "expected a GPU"), ("sim:gfx1151", "seconds of a simulated device"),
                               ("toaster", "toaster")):
            for more in ([], ["--json"]):
                error = self.tune("--synthetic", "tiny", "--device", device, *more, code=1, OCHRE_HIPBLASLT=HIPBLASLT)
                self.assertIn(wanted, error)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
