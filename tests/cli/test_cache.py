#!/usr/bin/env python3
"""ochre cache from outside: what it lists, finds broken, takes away and says.

    test_cache.py OCHRE [unittest arguments]

Entries are made by ochre kernels build: without a clang these tests are skipped, but for those of an empty cache.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

OCHRE = os.path.abspath(sys.argv.pop(1))
TMP = tempfile.TemporaryDirectory()
CACHE = os.path.join(TMP.name, "cache")
FILE = os.path.join(TMP.name, "two.ok")
TEXT = """kernel fill(x: out buf<f32>[n])
  param WAVES: int = 1
  launch grid(1) waves(WAVES)
{ for i in group.lanes(n) { x[i] = 1.0; } }
"""
COMPILES = any(shutil.which(c) for c in ("clang-22", "clang-21", "clang-20", "clang-19", "clang", "amdclang"))


def ochre(*args, cache=CACHE, **env):
    e = {k: v for k, v in os.environ.items() if not k.startswith("OCHRE_")}
    return subprocess.run([OCHRE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300,
                          env=dict(e, OCHRE_CACHE_DIR=cache, **env))


def entries():
    """Folders of entries, by key."""
    root = os.path.join(CACHE, "v1")
    return {k: os.path.join(root, k) for k in os.listdir(root) if re.fullmatch("[0-9a-f]{32}", k)}


class Empty(unittest.TestCase):
    def test_nothing_there(self):
        where = os.path.join(TMP.name, "never-made")
        for command, said in (("ls", "0 entries, 0 B"), ("verify", "0 entries, 0 B, all whole"), ("clear", "removed 0 entries, 0 B")):
            r = ochre("cache", command, cache=where)
            self.assertEqual((r.returncode, r.stderr), (0, ""), command)
            self.assertEqual(r.stdout, f"{where}: {said}\n")
            self.assertEqual(json.loads(ochre("cache", command, "--json", cache=where).stdout)["folder"], where)
            self.assertFalse(os.path.exists(where), "a look creates nothing")

    def test_usage(self):
        r = ochre("cache", "--help")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        for word in ("ls", "verify", "clear", "OCHRE_CACHE_DIR", "OCHRE_CACHE_LIMIT", "--json", "ochre cache ls"):
            self.assertIn(word, r.stdout)
        for args, words in (((), "expected ls, verify or clear"), (("claer",), "did you mean clear?"), (("xyzzy",), '"xyzzy"'),
                            (("ls", "more"), "more"), (("ls", "--jsn"), "--json")):
            r = ochre("cache", *args)
            self.assertEqual((r.returncode, r.stdout), (2, ""), args)
            self.assertIn(words, r.stderr)
        self.assertIn("cache", ochre("--help").stdout)

    def test_no_place(self):
        r = subprocess.run([OCHRE, "cache", "ls"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PATH": "/bin"})
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn("OCHRE_CACHE_DIR", r.stderr)


@unittest.skipUnless(COMPILES, "no clang")
class Filled(unittest.TestCase):
    def setUp(self):
        shutil.rmtree(CACHE, ignore_errors=True)
        with open(FILE, "w") as f:
            f.write(TEXT)
        for target, waves in (("gfx1100", 1), ("gfx942", 2)):
            r = ochre("kernels", "build", "fill", "-f", FILE, "--target", target, "-p", f"WAVES={waves}")
            self.assertEqual(r.returncode, 0, r.stderr)

    def bytes_of(self, folder):
        return sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))

    def test_ls(self):
        r = ochre("cache", "ls")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        lines = r.stdout.splitlines()
        self.assertEqual(len(lines), 4, r.stdout)
        self.assertRegex(lines[0], r"^key +size +used +target +w +compiler +kernel$")
        self.assertRegex(lines[1], r"^[0-9a-f]{12} +[\d.]+ KiB +\d+ s +gfx942\S* +64 +clang .* fill WAVES=2$") # the last used first
        self.assertRegex(lines[2], r"^[0-9a-f]{12} +[\d.]+ KiB +\d+ s +gfx1100 +32 +clang .* fill WAVES=1$")
        self.assertRegex(lines[3], r"^%s: 2 entries, [\d.]+ KiB$" % re.escape(CACHE))

    def test_json(self):
        before = time.time()
        found = json.loads(ochre("cache", "ls", "--json").stdout)
        self.assertEqual({e["key"] for e in found["entries"]}, set(entries()))
        for e in found["entries"]:
            self.assertEqual(e["bytes"], self.bytes_of(entries()[e["key"]]))
            self.assertTrue(0 < e["code_bytes"] < e["bytes"])
            self.assertEqual((e["kernel"], e["wave_size"]), ("fill", 64 if e["target"].startswith("gfx942") else 32))
            self.assertTrue(before - 300 < e["used"] <= time.time() + 2)
        self.assertEqual((found["whole"], found["broken"], found["bytes"]), (2, 0, sum(e["bytes"] for e in found["entries"])))

    def test_verify(self):
        r = ochre("cache", "verify")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertRegex(r.stdout, r"^%s: 2 entries, [\d.]+ KiB, all whole$" % re.escape(CACHE))
        key, folder = sorted(entries().items())[0]
        with open(os.path.join(folder, "code"), "r+b") as f:
            f.seek(100)
            byte = f.read(1)[0]
            f.seek(100)
            f.write(bytes([byte ^ 1]))
        listed = ochre("cache", "ls")
        self.assertEqual(listed.returncode, 0)
        self.assertRegex(listed.stdout, rf"(?m)^{key[:12]} .* broken: .*")
        self.assertIn("1 broken: ochre cache verify takes such away", listed.stdout)
        self.assertEqual(len(entries()), 2, "a look takes nothing away")
        r = ochre("cache", "verify")
        self.assertEqual(r.returncode, 1)
        lines = r.stdout.splitlines()
        self.assertEqual(len(lines), 2, r.stdout)
        self.assertRegex(lines[0], rf"^{key[:12]} .* broken: .*code")
        self.assertRegex(lines[1], r"1 entry, [\d.]+ KiB whole; 1 broken, taken away$")
        self.assertEqual(len(entries()), 1)
        self.assertNotIn(key, entries())
        self.assertEqual(ochre("cache", "verify").returncode, 0, "what is left is whole")

    def test_verify_json(self):
        key, folder = sorted(entries().items())[1]
        os.truncate(os.path.join(folder, "manifest"), 10)
        r = ochre("cache", "verify", "--json")
        found = json.loads(r.stdout)
        self.assertEqual((r.returncode, found["whole"], found["broken"]), (1, 1, 1))
        self.assertEqual([p["key"] for p in found["problems"]], [key])
        self.assertIn("manifest", found["problems"][0]["problem"])

    def test_leftovers(self):
        os.makedirs(os.path.join(CACHE, "v1", "tmp", "0" * 32 + ".1.1"))
        self.assertIn("1 left by who was interrupted, taken away", ochre("cache", "verify").stdout)
        self.assertEqual(os.listdir(os.path.join(CACHE, "v1", "tmp")), [])

    def test_clear(self):
        total = sum(self.bytes_of(f) for f in entries().values())
        r = ochre("cache", "clear", "--json")
        found = json.loads(r.stdout)
        self.assertEqual((r.returncode, found["removed"], found["bytes"]), (0, 2, total))
        self.assertEqual(entries(), {})
        self.assertEqual(ochre("cache", "clear").stdout, f"{CACHE}: removed 0 entries, 0 B\n")


if __name__ == "__main__":
    unittest.main()
