#!/usr/bin/env python3
"""The command line from outside: what is printed where, exit codes, messages, interruption, a full disk.

    test_cli.py OCHRE [unittest arguments]

Uses a tiny random model; needs no real one.
"""
import contextlib
import http.server
import json
import math
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tiny_gguf

OCHRE = os.path.abspath(sys.argv.pop(1))
TMP = tempfile.TemporaryDirectory()
MODEL = os.path.join(TMP.name, "tiny.gguf")
CHAT = os.path.join(TMP.name, "tiny-chat.gguf")
GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden")
COMMANDS = ["run", "pull", "inspect", "bench", "verify", "tokenize", "devices", "doctor", "ops", "tune", "fit", "cache",
            "selftest", "kernels", "targets", "sim"]


def wait_until_caught(p, signo):
    """Until the process has its handler: before that a signal ends it as it would any program."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with open(f"/proc/{p.pid}/status") as f:
            caught = next((int(line.split()[1], 16) for line in f if line.startswith("SigCgt:")), 0)
        if caught >> (signo - 1) & 1:
            return
        time.sleep(0.01)


def ochre(*args, stdin="", env=None, binary=False, timeout=120):
    e = {k: v for k, v in os.environ.items() if not k.startswith("OCHRE_")}
    e.update(env or {})
    return subprocess.run([OCHRE, *args], input=stdin.encode(), capture_output=True, env=e, timeout=timeout) if binary else \
        subprocess.run([OCHRE, *args], input=stdin, capture_output=True, text=True, errors="replace", env=e, timeout=timeout)


@contextlib.contextmanager
def http_server(body):
    """The URL of a file m.gguf on a server of this machine alone."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield "http://127.0.0.1:%d/m.gguf" % server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def setUpModule():
    for path, chat in ((MODEL, False), (CHAT, True)):
        with open(path, "wb") as f:
            f.write(tiny_gguf.build(chat=chat))


class Frame(unittest.TestCase):
    def test_version(self):
        r = ochre("--version")
        self.assertRegex(r.stdout, r"^ochre \d+\.\d+\.\d+\n$")
        self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_help_names_every_command(self):
        r = ochre("--help")
        self.assertEqual(r.returncode, 0)
        for c in COMMANDS:
            self.assertRegex(r.stdout, r"(?m)^  %s " % c)

    def test_each_command_teaches(self):
        for c in COMMANDS:
            a, b = ochre(c, "--help"), ochre("help", c)
            self.assertEqual((a.returncode, a.stderr), (0, ""), c)
            self.assertEqual(a.stdout, b.stdout, c)
            self.assertIn("usage: ochre " + c, a.stdout)
            self.assertIn("ochre " + c, a.stdout.split("usage:")[1].split("\n", 1)[1], "an example of " + c)

    def test_no_command(self):
        r = ochre()
        self.assertEqual((r.returncode, r.stdout), (2, ""))
        self.assertIn("ochre --help", r.stderr)

    def test_suggestions(self):
        for args, wanted in ((["rum"], "did you mean run?"), (["benhc"], "did you mean bench?"),
                             (["run", MODEL, "--promt", "x"], "did you mean --prompt?"),
                             (["run", MODEL, "--max", "3"], "did you mean --max-tokens?"),
                             (["devices", "--jsno"], "did you mean --json?")):
            r = ochre(*args)
            self.assertEqual((r.returncode, r.stdout), (2, ""), args)
            self.assertIn(wanted, r.stderr)
        r = ochre("frobnicate")
        self.assertEqual(r.returncode, 2)
        self.assertNotIn("did you mean", r.stderr)

    def test_environment(self):
        r = ochre("help", "environment")
        for v in ("OCHRE_OP_ONLY", "OCHRE_THREADS", "OCHRE_MODELS"):
            self.assertIn(v, r.stdout)
        starts = {m.end() for l in r.stdout.splitlines() for m in [re.match(r"  ([A-Z_]+ +|  {10,})(?=\S)", l)] if m}
        self.assertEqual(len(starts), 1, starts)  # one column, whatever the names' lengths
        self.assertLessEqual(max(map(len, r.stdout.splitlines())), 120)
        self.assertEqual(ochre("help", "help").stdout, ochre("--help").stdout)
        self.assertIn("OCHRE_THRAEDS", ochre("--version", env={"OCHRE_THRAEDS": "2"}).stderr)
        self.assertEqual(ochre("--version", env={"OCHRE_LOG": "loud"}).returncode, 2)
        op = ("bench", "op", "add", "-d", "sim:gfx1151", "--k", "64")
        odd = 'OCHRE_RING: expected 0 or 1, found "yes": taken as 1'
        self.assertEqual(ochre(*op, env={"OCHRE_RING": "yes"}).stderr.count(odd), 1)
        self.assertNotIn("OCHRE_RING", ochre(*op, env={"OCHRE_RING": "1"}).stderr)

    def test_examples_name_models_that_there_are(self):
        for c in COMMANDS:
            for name in re.findall(r"(?m)^  ochre \w+ ((?:smollm2|gemma3)\S*)", ochre(c, "--help").stdout):
                self.assertIn(name, ("smollm2-135m", "gemma3-270m"), c)

    def test_devices(self):
        r = ochre("devices")
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stdout, r"(?m)^cpu:0 ")
        d = json.loads(ochre("devices", "--json").stdout)["devices"]
        self.assertEqual([x for x in d if x["kind"] == "null"], [])  # no model runs on it
        self.assertNotIn("null", r.stdout)
        cpu = [x for x in d if x["device"] == "cpu:0"][0]
        self.assertTrue(cpu["unified_memory"])
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.assertLess(abs(cpu["memory_bytes"] - total), total * 0.1)

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            for args in (["--help"], ["devices"], ["run", MODEL, "--prompt", "the", "--max-tokens", "4"]):
                r = subprocess.run([OCHRE, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(r.returncode, 1, args)
                self.assertIn("standard output: No space left on device", r.stderr)

    def test_closed_pipe(self):
        for args in (["help", "environment"], ["run", MODEL, "--prompt", "the", "--max-tokens", "200"]):
            r, w = os.pipe()
            os.close(r)
            p = subprocess.run([OCHRE, *args], stdout=w, stderr=subprocess.PIPE, text=True, timeout=60)
            os.close(w)
            self.assertEqual(p.returncode, 1, args)
            self.assertIn("Broken pipe", p.stderr)

    def test_closed_streams(self):
        # What is opened next must not take the number of a stream: messages would end up in the file.
        with http_server(b"model" * 1000) as url:
            for closed, code in (("<&-", 0), (">&-", 1), ("2>&-", 0), ("<&- >&- 2>&-", 1)):
                folder = tempfile.mkdtemp(dir=TMP.name)
                r = subprocess.run(["/bin/sh", "-c", '"$0" pull "$1" --dir "$2" ' + closed, OCHRE, url, folder],
                                   capture_output=True, timeout=60)
                self.assertEqual(r.returncode, code, closed)
                with open(os.path.join(folder, "m.gguf"), "rb") as f:
                    self.assertEqual(f.read(), b"model" * 1000, closed)
        r = subprocess.run(["/bin/sh", "-c", '"$0" run "$1" - -n 2 <&-', OCHRE, MODEL], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 1)
        self.assertIn("standard input: Bad file descriptor", r.stderr)

    def test_pull_where_no_file_can_go(self):
        with http_server(b"model") as url:
            r = ochre("pull", url, "--dir", "")
            self.assertEqual((r.returncode, r.stdout), (2, ""))
            self.assertIn("--dir", r.stderr)
            os.makedirs(os.path.join(TMP.name, "taken", "m.gguf"))
            for more in ([], ["--force"]):
                r = ochre("pull", url, "--dir", os.path.join(TMP.name, "taken"), *more)
                self.assertEqual((r.returncode, r.stdout), (1, ""))
                self.assertIn("m.gguf exists and is not a file", r.stderr)
            self.assertEqual(os.listdir(os.path.join(TMP.name, "taken")), ["m.gguf"])

    def test_limit_on_the_size_of_files(self):
        path = os.path.join(TMP.name, "limited.txt")
        r = subprocess.run(["/bin/sh", "-c", 'ulimit -f 1; "$0" inspect "$1" --json >"$2"', OCHRE, MODEL, path],
                           capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn("standard output: ", r.stderr)

    def test_providers_by_name(self):
        for args in (["run", MODEL, "--prompt", "x"], ["inspect", MODEL], ["bench", MODEL], ["verify", MODEL, "--against", "reference"]):
            for name in ("refrence", ""):
                r = ochre(*args, "--provider", name)
                self.assertEqual((r.returncode, r.stdout), (2, ""), args)
                self.assertIn('--provider: expected one of reference, cpu, kernel, blas, found "%s"' % name, r.stderr)

    def test_bounds_are_printed_whole(self):
        self.assertIn("from 0 to 1073741824", ochre("run", MODEL, "--prompt", "x", "-n", "-1").stderr)
        self.assertIn("from 1 to 1024", ochre("run", MODEL, "--prompt", "x", "-t", "1025").stderr)

    def test_op_statistics(self):
        r = ochre("run", MODEL, "--prompt", "the", "-n", "4", "-q", env={"OCHRE_OP_STATS": "1"})
        self.assertRegex(r.stderr, r"(?m)^linear +cpu:0 +cpu +\d+ ")
        self.assertIn("reference-tier hits: 0", r.stderr)
        r = ochre("run", MODEL, "--prompt", "the", "-n", "4", "-q", env={"OCHRE_OP_STATS": "1", "OCHRE_CPU_ISA": "generic"})
        self.assertRegex(r.stderr, r"reference-tier hits: [1-9]")

    def test_ops(self):
        r = ochre("ops")
        self.assertEqual(r.returncode, 0)
        for op in ("linear", "attention", "rms_norm"):
            self.assertRegex(r.stdout, r"(?m)^%s +reference " % op)
        self.assertNotIn("serves backend", r.stdout)  # a row of another kind of device says nothing of this one
        self.assertNotIn("null:", r.stdout)
        self.assertIn("serves backend", ochre("ops", "--json").stdout)
        r = ochre("ops", "--device", "sim:gfx1151")
        self.assertRegex(r.stdout, r"(?m)^linear +kernel +sim +\d+  sim:gfx1151 yes +F32 ")
        self.assertNotIn("cpu:0", r.stdout)
        self.assertEqual(ochre("ops", "--device", "gpu").returncode, 1)

    def test_targets_stand_in_columns(self):
        lines = ochre("targets").stdout.splitlines()
        for title in ("family", "waves", "matrix", "fp8", "products"):
            at = lines[0].index(title)
            for l in lines[1:]:
                self.assertEqual(l[at - 1], " ", l)
                self.assertNotEqual(l[at:at + 1], " ", l)

    def test_a_wrong_kernel_is_told_once(self):
        path = os.path.join(TMP.name, "wrong.ok")
        with open(path, "w") as f:
            f.write("kernel k(y: out buf<f32>[n, 1])\n  launch grid(n) waves(1)\n{\n  y[0, 0] = nothing;\n}\n")
        r = ochre("kernels", "emit", "k", "--file", path, "--target", "gfx1151")
        self.assertEqual(r.returncode, 1)
        self.assertEqual(r.stderr.count("wrong.ok:4:13: error:"), 1, r.stderr)
        self.assertIn("\nochre: error: kernel k for gfx1151: not made, see above\n", r.stderr)

    def test_folder_that_is_no_model(self):
        r = ochre("run", TMP.name, "--device", "cpu", "--prompt", "a")
        self.assertEqual(r.returncode, 1)
        self.assertIn("found a folder without it", r.stderr)

    def test_the_page_names_every_kernel(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/kernels.md")) as f:
            page = f.read()
        for k in json.loads(ochre("kernels", "ls", "--json").stdout)["kernels"]:
            self.assertIn("`%s`" % k["kernel"], page)
            self.assertIn("`%s`" % k["file"], page)

    def test_kernels_by_name(self):
        r = ochre("kernels", "ls", "matvec", "act_q8")
        self.assertEqual([l.split()[0] for l in r.stdout.splitlines()], ["kernel", "act_q8", "matvec"])
        for args, code in ((("ls", "matvex"), 1), (("test", "matvex", "--device", "sim:gfx1151"), 2)):
            r = ochre("kernels", *args)
            self.assertEqual(r.returncode, code)
            self.assertIn("no kernel matvex; did you mean matvec?", r.stderr)
            self.assertEqual(r.stdout, "")
        self.assertIn("there are embed, ", ochre("bench", "op", "nothing-like-it").stderr)

    def test_tokenize(self):
        ids = ochre("tokenize", MODEL, "the thing").stdout.split()
        self.assertTrue(ids and all(i.isdigit() for i in ids))
        self.assertEqual(ochre("tokenize", MODEL, "--decode", " ".join(ids)).stdout.rstrip("\n"), "the thing")
        self.assertEqual(ochre("tokenize", MODEL, "--file", "-", stdin="the thing").stdout.split(), ids)
        for args, stdin, code, wanted in ((["--file", TMP.name], "", 1, "Is a directory"), (["--decode"], "104\0 105", 1, "NUL"),
                                          (["x", "--json", "--count"], "", 2, "at most one"),
                                          (["1", "--json", "--decode"], "", 2, "at most one")):
            r = ochre("tokenize", MODEL, *args, stdin=stdin)
            self.assertEqual((r.returncode, r.stdout), (code, ""), args)
            self.assertIn(wanted, r.stderr)

    def test_progress_on_a_terminal(self):
        pid, fd = pty.fork()
        if pid == 0:
            os.execv(OCHRE, [OCHRE, "run", MODEL, "--prompt", "the", "-n", "1"])
        shown = b""
        while True:
            try:
                block = os.read(fd, 4096)
            except OSError:  # the terminal is gone when the program is
                break
            if not block:
                break
            shown += block
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertRegex(shown, rb"\[#+\.*\] +\d+%")
        self.assertIn(b"\r\x1b[K", shown)


class Run(unittest.TestCase):
    def test_a_message_begins_on_a_line_of_its_own(self):
        p = subprocess.run([OCHRE, "run", MODEL, "--device", "cpu", "--prompt", "a", "--context", "3", "-n", "10"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, errors="replace", timeout=60)
        self.assertEqual(p.returncode, 0, p.stdout)
        if "is full" in p.stdout:  # else the model ended first
            self.assertRegex(p.stdout, r"\nochre: the context of 3 tokens is full\n$")
        r = ochre("run", MODEL, "--prompt", "a", "--stats", "--quiet")
        self.assertEqual(r.returncode, 2)
        self.assertIn("both --stats and --quiet", r.stderr)

    def test_text_alone_on_stdout(self):
        r = ochre("run", MODEL, "--device", "cpu", "--prompt", "the", "--max-tokens", "8", "--quiet")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertTrue(r.stdout.endswith("\n"))
        s = ochre("run", MODEL, "--prompt", "the", "--max-tokens", "8", "--stats")
        self.assertEqual(s.stdout, r.stdout)
        self.assertRegex(s.stderr, r"decode .* tokens/s")
        j = json.loads(ochre("run", MODEL, "--prompt", "the", "--max-tokens", "8", "--json").stdout)
        self.assertEqual(j["text"] + "\n", r.stdout)
        self.assertEqual((j["prompt_tokens"], j["stop"] in ("length", "end")), (1, True))

    def test_sources_of_the_prompt(self):
        path = os.path.join(TMP.name, "prompt.txt")
        with open(path, "w") as f:
            f.write("the thing")
        args = ["--max-tokens", "8", "--quiet"]
        wanted = ochre("run", MODEL, "--prompt", "the thing", *args).stdout
        self.assertEqual(ochre("run", MODEL, "--file", path, *args).stdout, wanted)
        self.assertEqual(ochre("run", MODEL, "-f", "-", *args, stdin="the thing").stdout, wanted)
        self.assertEqual(ochre("run", MODEL, "-", *args, stdin="the thing").stdout, wanted)
        self.assertEqual(ochre("run", "--prompt=the thing", *args, "--", MODEL).stdout, wanted)

    def test_seed(self):
        args = ["run", MODEL, "--prompt", "the", "-n", "24", "-q", "--temperature", "1"]
        a, b, c = (ochre(*args, "--seed", s, binary=True).stdout for s in ("1", "1", "2"))
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)

    def test_threads_and_batch_invariance_change_nothing(self):
        base = ["run", MODEL, "--prompt", "the thing and", "-n", "16", "-q"]
        wanted = ochre(*base).stdout
        for more in (["--threads", "1"], ["--threads", "3"], ["--batch-invariant"]):
            self.assertEqual(ochre(*base, *more).stdout, wanted, more)

    def test_values_are_checked(self):
        for args in (["--max-tokens", "x"], ["--max-tokens", "-1"], ["--max-tokens", "3.5"], ["--max-tokens", ""],
                     ["--max-tokens", " 3"], ["--max-tokens", "99999999999999999999"], ["--temperature", "nan"],
                     ["--temperature", "-1"], ["--temperature", "1e"], ["--temperature", "inf"], ["--temperature", "-nan"], ["--top-p", "0"],
                     ["--top-p", "1.5"], ["--min-p", "-0.1"], ["--seed", "-1"], ["--seed", "0x1"], ["--threads", "0"],
                     ["--kv-type", "f64"], ["--context", "0"], ["--max-tokens"], ["--chat=1"], ["extra"], ["-Z"]):
            r = ochre("run", MODEL, "--prompt", "x", *args)
            self.assertEqual((r.returncode, r.stdout), (2, ""), args)
            self.assertTrue(r.stderr.startswith("ochre: error: "), r.stderr)
            self.assertIn("ochre run --help", r.stderr)

    def test_one_prompt(self):
        self.assertEqual(ochre("run", MODEL).returncode, 2)
        self.assertEqual(ochre("run", MODEL, "--prompt", "a", "--file", "b").returncode, 2)
        self.assertEqual(ochre("run", "--prompt", "a").returncode, 2)

    def test_failures_say_what_to_do(self):
        r = ochre("run", "smollm2-135m", "--prompt", "x", env={"OCHRE_MODELS": TMP.name})
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn("ochre pull smollm2-135m", r.stderr)
        r = ochre("run", "smolm2-135m", "--prompt", "x", env={"OCHRE_MODELS": TMP.name})
        self.assertIn("did you mean smollm2-135m?", r.stderr)
        r = ochre("run", "./no/such.gguf", "--prompt", "x")
        self.assertEqual(r.returncode, 1)
        self.assertIn("./no/such.gguf", r.stderr)
        r = ochre("run", MODEL, "--prompt", "x", "--device", "toaster")
        self.assertEqual(r.returncode, 1)
        self.assertIn("toaster", r.stderr)
        self.assertIn("cpu", r.stderr)
        r = ochre("run", MODEL, "--file", os.path.join(TMP.name, "absent.txt"))
        self.assertIn("absent.txt: No such file or directory", r.stderr)
        r = ochre("run", MODEL, "-", stdin="a\0b")
        self.assertIn("NUL", r.stderr)
        self.assertEqual(r.returncode, 1)
        r = ochre("run", MODEL, "--prompt", "the " * 400, "-n", "4")
        self.assertEqual(r.returncode, 1)
        self.assertIn("context", r.stderr)

    def test_broken_model(self):
        path = os.path.join(TMP.name, "broken.gguf")
        with open(MODEL, "rb") as f:
            data = f.read()
        for cut in (0, 3, 11, 200, len(data) // 2, len(data) - 1):
            with open(path, "wb") as f:
                f.write(data[:cut])
            r = ochre("run", path, "--prompt", "x")
            self.assertEqual((r.returncode, r.stdout), (1, ""), cut)
            self.assertIn("broken.gguf", r.stderr)

    def test_models_folder(self):
        r = ochre("run", "tiny.gguf", "--prompt", "the", "-n", "2", "-q", env={"OCHRE_MODELS": TMP.name})
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_chat(self):
        r = ochre("run", CHAT, "--chat", "--system", "be brief", "--prompt", "the", "-n", "4", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        chatml = "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nthe<|im_end|>\n<|im_start|>assistant\n"
        plain = ochre("run", CHAT, "--prompt", chatml, "-n", "4", "--json")
        keys = ("text", "prompt_tokens", "generated_tokens")
        a, b = json.loads(r.stdout), json.loads(plain.stdout)
        self.assertEqual([a[k] for k in keys], [b[k] for k in keys])
        r = ochre("run", MODEL, "--chat", "--prompt", "the")
        self.assertEqual(r.returncode, 1)
        self.assertIn("template", r.stderr)
        self.assertIn("without --chat", r.stderr)

    def test_zero_tokens(self):
        r = ochre("run", MODEL, "--device", "cpu", "--prompt", "the", "-n", "0", "-q")
        self.assertEqual((r.returncode, r.stdout, r.stderr), (0, "", ""))

    def test_interrupt(self):
        # Enough tokens that it cannot be done before the signal; the text so far has been written.
        big = os.path.join(TMP.name, "long.gguf")
        with open(big, "wb") as f:
            f.write(tiny_gguf.build(context=1 << 20, ends=False))
        p = subprocess.Popen([OCHRE, "run", big, "--prompt", "the", "-n", "900000", "-q", "--temperature", "0"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = p.stdout.read(1)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130, err)
        self.assertEqual(len(first), 1)
        self.assertTrue(out.endswith(b"\n"))
        self.assertIn(b"interrupted", err)


    def test_interrupt_at_once(self):
        # While a long prompt is read, and wherever there is nothing to finish, the first Ctrl-C ends the program.
        big = os.path.join(TMP.name, "long.gguf")
        with open(big, "wb") as f:
            f.write(tiny_gguf.build(context=1 << 20))
        prompt = os.path.join(TMP.name, "long.txt")
        with open(prompt, "w") as f:
            f.write("the thing and " * 50000)
        for args in (["run", big, "--file", prompt, "-n", "4", "-q"], ["bench", big, "-p", "500000", "-n", "0"],
                     ["bench", big, "-p", "0", "-n", "1000000"], ["verify", big, "--against", "reference", "-n", "4096"]):
            for signo in (signal.SIGINT, signal.SIGTERM):
                p = subprocess.Popen([OCHRE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                wait_until_caught(p, signo)
                time.sleep(0.3)
                p.send_signal(signo)
                t0 = time.monotonic()
                _, err = p.communicate(timeout=60)
                self.assertEqual((p.returncode, err[-19:]), (130, b"ochre: interrupted\n"), args)
                self.assertLess(time.monotonic() - t0, 5, args)

    def test_interrupt_while_it_waits_for_a_line(self):
        p = subprocess.Popen([OCHRE, "bench", MODEL, "-p", "4", "-n", "4", "--interactive"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(timeout=60), 130)
        p.communicate()

    def test_a_model_that_shrinks(self):
        path = os.path.join(TMP.name, "shrinks.gguf")
        for threads in ("1", "2"):
            with open(path, "wb") as f:
                f.write(tiny_gguf.build())
            p = subprocess.Popen([OCHRE, "bench", path, "--device", "cpu", "-p", "0", "-n", "128", "--interactive", "-t", threads],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            p.stdout.readline()
            os.truncate(path, 0)
            out, err = p.communicate(b"decode\n", timeout=60)
            self.assertEqual((p.returncode, out, err.decode()),
                             (1, b"", "ochre: error: a file in use became shorter, or could not be read any more\n"))


class Gpus(unittest.TestCase):
    """Machines that are made up: OCHRE_SYSTEM_ROOT is where they have their libraries and device nodes."""
    DEBIAN = "/usr/lib/x86_64-linux-gnu/libamdhip64.so.5"
    SIMULATOR = os.path.join(os.path.dirname(OCHRE), "sim", "libamdhip64.so")

    def setUp(self):
        self.root = tempfile.TemporaryDirectory()
        self.env = {"OCHRE_SYSTEM_ROOT": self.root.name, "HOME": self.root.name, "LD_LIBRARY_PATH": "", "ROCM_PATH": "", "HIP_PATH": "",
                    "VIRTUAL_ENV": "", "CONDA_PREFIX": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "",
                    "CUDA_VISIBLE_DEVICES": "", "HSA_OVERRIDE_GFX_VERSION": "", "OCHRE_CACHE_DIR": self.root.name}

    def tearDown(self):
        self.root.cleanup()

    def report(self, **env):
        r = ochre("doctor", env={**self.env, **env})
        j = ochre("doctor", "--json", env={**self.env, **env})
        self.assertEqual((r.returncode, j.returncode), (0, 0), r.stderr + j.stderr)
        j = json.loads(j.stdout)
        if not j["problems"]:
            self.assertIn("No problem was found.", r.stdout)
        for i, p in enumerate(j["problems"], 1):  # a sentence each
            self.assertIn("  %d. %s\n" % (i, p), r.stdout)
            self.assertTrue(p.endswith("."), p)
        return r.stdout, j

    def test_no_library(self):
        text, j = self.report()
        self.assertIn("No HIP library serves", text)
        self.assertIn("install ROCm", text)
        self.assertEqual({l["state"] for l in j["hip_libraries"]}, {"absent"})
        self.assertIn(self.root.name + "/usr/lib/x86_64-linux-gnu", [l["path"] for l in j["hip_libraries"]])
        self.assertEqual(j["devices"], [])
        r = ochre("run", MODEL, "--device", "hip", "--prompt", "x", env=self.env)
        self.assertEqual(r.returncode, 1)
        self.assertIn("no libamdhip64", r.stderr)
        self.assertIn("OCHRE_HIP_LIBRARY", r.stderr)
        r = ochre("devices", env=self.env)
        self.assertEqual(r.returncode, 0)
        self.assertIn("ochre: hip: no libamdhip64", r.stderr)

    def test_falling_back_is_told_or_refused(self):
        r = ochre("run", MODEL, "--prompt", "x", "-n", "1", "-q", env=self.env)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)
        self.assertIn("no GPU is used, falling back to the CPU", r.stderr)
        self.assertIn("no libamdhip64", r.stderr)  # why, and where to read on; what to do is ochre doctor's, and an error's
        self.assertIn("ochre doctor", r.stderr)
        self.assertNotIn("install ", r.stderr)
        self.assertIn("install ", ochre("run", MODEL, "--prompt", "x", "--require-gpu", env=self.env).stderr)
        r = ochre("run", MODEL, "--prompt", "x", "--device", "gpu", env=self.env)
        self.assertIn("hip (none: no libamdhip64", r.stderr)
        self.assertNotIn("install ", r.stderr)
        r = ochre("verify", MODEL, "--against", "reference", "--tokens", "2", "--prompt", "the", env=self.env)
        self.assertEqual(r.stderr.count("falling back"), 1, r.stderr)  # of two models that are opened
        self.assertNotIn("falling back", ochre("fit", "no-such-model", env=self.env).stderr)
        for command in (("run", MODEL, "--prompt", "x"), ("bench", MODEL)):
            r = ochre(*command, "--require-gpu", env=self.env)
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertIn("a GPU is required", r.stderr)
        self.assertIn("--require-gpu", ochre("run", "--help").stdout)
        self.assertEqual(ochre("devices", "--require-gpu").returncode, 2)

    def test_broken_pack_is_one_problem(self):
        text, j = self.report(OCHRE_PACK="/nonexistent.okpack")
        self.assertEqual(text.count("A pack of kernels is left out: /nonexistent.okpack"), 1)
        self.assertEqual(sum("/nonexistent.okpack" in p for p in j["problems"]), 1)
        self.assertEqual(ochre("doctor", env={**self.env, "OCHRE_PACK": "/nonexistent.okpack"}).stderr, "")

    def test_debians_library_without_a_device(self):
        if not os.path.exists(self.DEBIAN) or os.path.exists("/dev/kfd"):
            self.skipTest("needs Debian's libamdhip64-5 and no device")
        env = {"OCHRE_HIP_LIBRARY": self.DEBIAN}
        text, j = self.report(**env)
        self.assertIn("HIP 5.2.", text)
        self.assertRegex(text, r"shows no device: hipErrorNoDevice \(100\); there is no \S+/dev/kfd")
        self.assertEqual([l["state"] for l in j["hip_libraries"]], ["in use"])
        self.assertIn("hipKernelGetFunction", j["optional_calls_missing"])
        for command in (("devices",), ("run", MODEL, "--device", "hip", "--prompt", "x")):
            r = ochre(*command, env={**self.env, **env})
            self.assertEqual(r.returncode, 0 if command[0] == "devices" else 1)
            self.assertRegex(r.stderr, r"HIP 5\.2\..*libamdhip64\.so\.5\) shows no device: hipErrorNoDevice \(100\); there is no \S+/dev/kfd")

    def test_nodes_without_permission(self):
        if not os.path.exists(self.DEBIAN) or os.path.exists("/dev/kfd"):
            self.skipTest("needs Debian's libamdhip64-5 and no device")
        os.makedirs(os.path.join(self.root.name, "dev", "dri"))
        for node in ("dev/kfd", "dev/dri/renderD128"):
            with open(os.path.join(self.root.name, node), "w"):
                pass
            os.chmod(os.path.join(self.root.name, node), 0o400)
        os.chmod(self.root.name, 0o777)
        drop = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        env = {k: v for k, v in os.environ.items() if not k.startswith("OCHRE_")}
        env.update(self.env, OCHRE_HIP_LIBRARY=self.DEBIAN)
        try:
            r = subprocess.run([OCHRE, "doctor"], env=env, capture_output=True, text=True, timeout=60, cwd="/", **drop)
        except PermissionError:
            self.skipTest("another user may not run this build")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("/dev/kfd: no permission (mode 400", r.stdout)
        self.assertIn("/dev/dri/renderD128: no permission (mode 400", r.stdout)
        self.assertRegex(r.stdout, r"/dev/kfd may not be read and written by this user .*usermod -aG")

    def test_boards(self):
        if not os.path.exists(self.SIMULATOR):
            self.skipTest("needs the simulator")
        os.makedirs(os.path.join(self.root.name, "usr", "include", "hip"))
        with open(os.path.join(self.root.name, "usr", "include", "hip", "hip_version.h"), "w") as f:
            f.write("#define HIP_VERSION_MAJOR 5\n#define HIP_VERSION_MINOR 7\n")
        env = {"OCHRE_HIP_LIBRARY": self.SIMULATOR, "OCHRE_SIM_BOARD": "gfx1151+gfx942", "HSA_OVERRIDE_GFX_VERSION": "11.0.0"}
        text, j = self.report(**env)
        self.assertEqual([d["device"] for d in j["devices"]], ["hip:0", "hip:1"])
        self.assertEqual([d["arch"] for d in j["devices"]], ["gfx1151", "gfx942:sramecc+:xnack-"])
        self.assertEqual([(d["integrated"], d["managed"], d["unified"]) for d in j["devices"]], [(True, True, True), (False, True, False)])
        self.assertEqual([d["kind"] for d in j["devices"]], ["simulated"] * 2)
        self.assertEqual(j["hip_headers"], [{"path": self.root.name + "/usr/include/hip/hip_version.h", "version": "5.7", "agrees": False}])
        for wanted in ("HSA_OVERRIDE_GFX_VERSION=11.0.0 makes", "of HIP 5.7 and the library in use is 6.3", "is Ochre's simulator"):
            self.assertIn(wanted, "\n".join(j["problems"]))
        r = ochre("devices", env={**self.env, **env})
        self.assertRegex(r.stdout, r"(?m)^hip:0 +simulated +gfx1151 +96\.0 GiB +integrated,managed,unified +AMD Radeon 8060S$")
        self.assertRegex(r.stdout, r"(?m)^hip:1 +simulated +gfx942:sramecc\+:xnack- +192\.0 GiB +managed +AMD Instinct MI300X$")
        self.assertIn("sim:1 ", r.stdout)
        del env["OCHRE_SIM_BOARD"]  # simulated boards are there by name, and in the list when they are asked for
        self.assertNotIn("sim:", ochre("devices", env={**self.env, **env}).stdout)
        env["HIP_VISIBLE_DEVICES"] = "9"
        text, j = self.report(**env)
        self.assertIn("HIP_VISIBLE_DEVICES=9 hides devices", "\n".join(j["problems"]))


class Kernels(unittest.TestCase):
    """Kernels of one's own. Texts and messages need no compiler."""
    OWN = """// y = x. A workgroup takes a row.
// check: WAVES=1,4
kernel own(x: in buf<f32>[n, d], y: out buf<f32>[n, d])
  param WAVES: int = 4
  launch grid(n) waves(WAVES)
{
  for i in group.lanes(d) { y[group.id.x, i] = x[group.id.x, i]; }
}
"""

    def setUp(self):
        self.dir = tempfile.mkdtemp(dir=TMP.name)
        self.write("own.ok", self.OWN)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def test_a_folder_stands_before_the_built_in_files(self):
        env = {"OCHRE_KERNELS_DIR": self.dir}
        listed = [k["kernel"] for k in json.loads(ochre("kernels", "ls", "--json", env=env).stdout)["kernels"]]
        built_in = [k["kernel"] for k in json.loads(ochre("kernels", "ls", "--json").stdout)["kernels"]]
        self.assertEqual(sorted(listed), sorted(built_in + ["own"]))
        for name in ("own", "rms_norm"):
            p = ochre("kernels", "emit", name, "--target", "gfx1151", env=env)
            self.assertEqual(p.returncode, 0, p.stderr)
        self.write("norm.ok", self.OWN.replace("own", "mine"))
        p = ochre("kernels", "emit", "rms_norm", "--target", "gfx1151", env=env)
        self.assertEqual(p.returncode, 1)
        self.assertIn("no kernel rms_norm", p.stderr)
        self.write("own.ok", 'use "absent.ok";')
        p = ochre("kernels", "ls", env=env)
        self.assertEqual(p.returncode, 1)
        self.assertIn(f'cannot find "absent.ok" among the built-in kernels nor in {self.dir}', p.stderr)

    def test_two_files_with_one_kernel(self):
        """Whichever command asks, neither of the two is taken: not by the name, not by another's, not by a session."""
        self.write("mine.ok", self.OWN.replace("own", "fill"))
        env = {"OCHRE_KERNELS_DIR": self.dir}
        said = f"kernel fill: expected one file that declares it, found elementwise.ok and mine.ok (OCHRE_KERNELS_DIR: {self.dir})"
        for args in (("ls",), ("emit", "fill", "--target", "gfx1151"), ("emit", "own", "--target", "gfx1151"),
                     ("build", "fill", "--target", "gfx1151"), ("disasm", "fill", "--target", "gfx1151"), ("check", "fill"), ("check",),
                     ("pack", "-o", os.path.join(self.dir, "x.okpack"), "--target", "gfx1151")):
            p = ochre("kernels", *args, env=env)
            self.assertEqual(p.returncode, 1, args)
            self.assertIn(said, p.stderr, args)
        p = ochre("run", MODEL, "--device", "sim:gfx1151", "--prompt", "a", "--max-tokens", "1", "--require-gpu", env=env)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("kernel fill: expected one file that declares it", p.stderr)
        # Two in one file, or in what it uses.
        path = self.write("twice.ok", 'use "own.ok";' + self.OWN)
        p = ochre("kernels", "ls", path)
        self.assertEqual(p.returncode, 1)
        self.assertIn("'own' is declared twice", p.stderr)

    def test_kernels_that_a_file_uses(self):
        path = self.write("user.ok", 'use "own.ok";' + self.OWN.replace("own", "mine"))
        for name in ("own", "mine"):
            p = ochre("kernels", "emit", "--file", path, name, "--target", "sm_90")
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertIn(f"// {name} WAVES=4", p.stdout)
        p = ochre("kernels", "emit", "--file", path, "nothing_like_it", "--target", "sm_90")
        self.assertEqual(p.returncode, 1)
        self.assertIn("nor in what it uses; its own: mine", p.stderr)

    def packed(self, target, *args):
        """What a pack would hold, in words, and what is wrong with it other than that there is no compiler."""
        p = ochre("kernels", "pack", "--target", target, "-o", os.path.join(self.dir, "x.okpack"), *args,
                  env={"OCHRE_JIT_COMPILER": "/nonexistent/clang", "OCHRE_CACHE_DIR": os.path.join(self.dir, "cache")})
        lines = [l for l in p.stderr.splitlines() if f" for {target}: " in l]
        return [l.split(" for ")[0] for l in lines], [l for l in lines if "no compiler for" not in l]

    def test_what_packs_hold(self):
        """All of it can be made, or a pack of everything could not; it has the norms that models of usual widths begin with."""
        for target in ("gfx1151", "gfx942", "gfx906", "sm_80"):
            kernels, wrong = self.packed(target)
            self.assertEqual(wrong, [])
            for waves, rounds in ((1, 0), (1, 1), (4, 0), (4, 2), (8, 0), (8, 3), (8, 4), (8, 5), (8, 8)):
                spec = f"rms_norm V=4,WIDE=true,ADD1=false,WAVES={waves}" + (f",ROUNDS={rounds}" if rounds else "")
                self.assertIn(spec, kernels)
            self.assertFalse([k for k in kernels if k.split()[0] in ("attention_rows", "matmul_qkv", "matmul_glu")])

    def test_pack_comments(self):
        for line, expected in (("", ["own WAVES=1", "own WAVES=4"]), ("// pack: WAVES=2\n", ["own WAVES=2"]), ("// pack:\n", [])):
            path = self.write("packed.ok", self.OWN.replace("kernel own", line + "kernel own"))
            self.assertEqual(self.packed("gfx1151", "--file", path), (expected, []))

    def test_check_comments_that_are_not_read(self):
        wrong = self.OWN.replace("y[group.id.x, i] = x[group.id.x, i];", "y[group.id.x, i] = nothing;")
        path = self.write("astray.ok", "// check: WAVES=2\n\n" + wrong)
        p = ochre("kernels", "check", "--file", path, "--target", "gfx1151")
        self.assertEqual(p.returncode, 1)
        self.assertEqual(p.stderr, f"{path}:1: warning: `// check:` is not read here: expected it directly above a kernel\n")
        self.assertIn("own WAVES=1 for gfx1151", p.stdout)
        self.assertIn("own WAVES=4 for gfx1151", p.stdout)


class Inspect(unittest.TestCase):
    def test_readable_and_json(self):
        r = ochre("inspect", MODEL)
        self.assertEqual(r.returncode, 0, r.stderr)
        for word in ("llama", "token_embd.weight", "blk.0.attn_q.weight", "weights", "state", "linear"):
            self.assertIn(word, r.stdout)
        j = json.loads(ochre("inspect", MODEL, "--json").stdout)
        self.assertEqual(len(j["tensors"]), 2 * 9 + 3)
        self.assertEqual(j["metadata"]["llama.block_count"], 2)

    def test_a_folder(self):
        folder = os.path.join(GOLDEN, "tiny-qwen3")
        j = json.loads(ochre("inspect", folder, "--context", "64", "--sequences", "3", "--json").stdout)
        self.assertEqual((j["runs"], j["metadata"]["model_type"], j["architecture"]), (True, "qwen3", "qwen3"))
        roles = {t["role"] for t in j["tensors"]}
        self.assertTrue({"embed", "q", "q_norm", "gate", "output_norm"} <= roles, roles)
        self.assertEqual({t["verdict"] for t in j["tensors"]}, {"native"})  # all F32
        self.assertEqual(j["memory"]["weight_bytes"] > 0, True)
        self.assertEqual([op["op"] for op in j["plan"]][0], "embed")
        # Three sequences of 64 tokens: layers x 2 x kv heads x head_dim x 2 bytes x 64 x 3, in blocks of 32 tokens.
        c = j["metadata"]
        exact = c["num_hidden_layers"] * 2 * c["num_key_value_heads"] * c["head_dim"] * 2 * 64 * 3
        self.assertGreaterEqual(j["memory"]["state_bytes"], exact)
        self.assertLessEqual(j["memory"]["state_bytes"], 2 * exact)

    def test_state_of_eight_bits(self):
        def fit(kind):
            return json.loads(ochre("fit", MODEL, "--device", "cpu", "--kv-type", kind, "--json").stdout)

        f16, fp8 = fit("f16"), fit("fp8")
        self.assertEqual((f16["kv_type"], fp8["kv_type"]), ("F16", "F8_E4M3"))
        self.assertEqual(2 * fp8["paged_state_bytes"], f16["paged_state_bytes"])
        self.assertGreater(fp8["paged_state_bytes"], 0)
        r = ochre("verify", MODEL, "--device", "cpu", "--kv-type", "fp8", "--against", "reference", "--tokens", "8", "--json")
        j = json.loads(r.stdout)
        self.assertEqual(j["bounds"]["for"], "a state of eight-bit floats")
        self.assertGreater(j["mean_kl"], 0)  # it is another state than the reference's
        r = ochre("run", MODEL, "--device", "cpu", "--kv-type", "fp8", "--prompt", "a", "--max-tokens", "4")
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_another_device(self):
        j = json.loads(ochre("inspect", MODEL, "--device", "null", "--json").stdout)
        self.assertFalse(j["runs"])
        self.assertIn("null:0", j["reason"])
        self.assertEqual({t["verdict"] for t in j["tensors"]}, {"reject"})

    def test_what_cannot_run_is_shown(self):
        path = os.path.join(TMP.name, "alien.gguf")
        with open(MODEL, "rb") as f:
            data = f.read()
        with open(path, "wb") as f:
            f.write(data.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0alien", 1))
        r = ochre("inspect", path)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("alien", r.stdout)
        self.assertIn("token_embd.weight", r.stdout)
        self.assertIn("cannot run", r.stdout)


    def test_a_type_with_a_quote(self):
        folder = os.path.join(GOLDEN, "tiny-llama")
        with open(os.path.join(folder, "model.safetensors"), "rb") as f:
            n = struct.unpack("<Q", f.read(8))[0]
            header, data = json.loads(f.read(n)), f.read()
        name = [k for k in header if k.endswith("q_proj.weight")][0]
        header[name]["dtype"] = 'F"\x1b[31m'
        head = json.dumps(header).encode()
        path = os.path.join(TMP.name, "quote.safetensors")
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head + data)
        r = ochre("inspect", path, "--json")
        self.assertEqual({t["name"]: t["type"] for t in json.loads(r.stdout)["tensors"]}[name], 'F"?[31m')
        self.assertNotIn("\x1b", ochre("inspect", path).stdout)

    def test_rope_of_a_wrong_type_is_refused(self):
        folder = os.path.join(GOLDEN, "tiny-llama")
        copy = os.path.join(TMP.name, "rope")
        os.mkdir(copy)
        os.symlink(os.path.join(folder, "model.safetensors"), os.path.join(copy, "model.safetensors"))
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
        for key in ("rope_scaling", "rope_parameters"):
            for value, runs in ((None, True), ("linear", False), (2, False), ([], False), (False, False)):
                with open(os.path.join(copy, "config.json"), "w") as f:
                    json.dump({**config, key: value}, f)
                j = json.loads(ochre("inspect", copy, "--json").stdout)
                self.assertEqual(j["runs"], runs, (key, value))
                self.assertIn("" if runs else key, j["reason"] or "")


def read_safetensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(n))
        data = f.read()
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = (t["dtype"], t["shape"], list(struct.unpack("<%d%s" % ((b - a) // 4, {"F32": "f", "I32": "i"}[t["dtype"]]),
                                                                    data[a:b])))
    return out


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        raw = struct.pack("<%d%s" % (len(values), {"F32": "f", "I32": "i"}[dtype]), *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + data)


def softmax(x):
    m = max(x)
    e = [math.exp(v - m) for v in x]
    return [v / sum(e) for v in e]


class Verify(unittest.TestCase):
    """The gates, with goldens that are wrong by a known amount."""
    FOLDER = os.path.join(GOLDEN, "tiny-llama")
    FILE = os.path.join(GOLDEN, "tiny-llama", "golden.safetensors")

    def verify(self, golden, *args, model=None):
        r = ochre("verify", model or self.FOLDER, "--against", golden, "--json", *args)
        return r, json.loads(r.stdout) if r.stdout else None

    def golden(self, change):
        """A golden of the prompt `one` alone, changed by change(tensors)."""
        t = {k: (d, s, list(v)) for k, (d, s, v) in read_safetensors(self.FILE).items() if k.startswith("one.")}
        change(t)
        path = os.path.join(TMP.name, "golden.safetensors")
        write_safetensors(path, t)
        return path

    def test_within_the_bounds(self):
        for args in (["--provider", "reference"], [], ["--step", "1"]):
            r, j = self.verify(self.FILE, *args)
            self.assertEqual(r.returncode, 0, r.stderr + r.stdout)
            self.assertEqual((j["tokens"], j["equal"], j["failed"]), (48, 48, None))
        r = ochre("verify", self.FOLDER, "--against", self.FILE, self.FILE)
        self.assertEqual(r.returncode, 0, r.stdout)
        self.assertRegex(r.stdout, r"(?m)^all +96/96 ")

    def test_a_wrong_logit_is_measured(self):
        def change(t):
            t["one.logits"][2][3 * 288 + 5] += 0.5

        r, j = self.verify(self.golden(change), "--provider", "reference")
        self.assertEqual(r.returncode, 1)
        self.assertAlmostEqual(j["worst_delta"], 0.5, places=3)
        self.assertIn("max |logit|", j["failed"])
        # The KL that the change makes at that position, over the 17 positions.
        row = read_safetensors(self.FILE)["one.logits"][2][3 * 288:4 * 288]
        q = softmax(row)
        p = softmax([v + 0.5 * (i == 5) for i, v in enumerate(row)])
        kl = sum(a * math.log(a / b) for a, b in zip(p, q))
        self.assertAlmostEqual(j["mean_kl"], kl / 17, delta=1e-3 * kl / 17 + 1e-9)

    def test_oracles_that_disagree(self):
        def change(t):
            t["one.logits"][2][3 * 288 + 5] += 0.5

        wrong = self.golden(change)
        for order in ((wrong, self.FILE), (self.FILE, wrong)):
            args = ["verify", self.FOLDER, "--provider", "reference", "--json", "--against", *order]
            r = ochre(*args)
            self.assertEqual(r.returncode, 1)
            self.assertEqual(json.loads(r.stdout)["tokens"], 64)
            r = ochre(*args, "--any")
            self.assertEqual(r.returncode, 0, r.stdout)
            self.assertEqual(json.loads(r.stdout)["tokens"], 48)
        r = ochre("verify", self.FOLDER, "--provider", "reference", "--any", "--json", "--against", wrong, wrong)
        self.assertEqual((r.returncode, json.loads(r.stdout)["tokens"]), (1, 16))

    def test_kl_bound(self):
        def change(t):  # a constant shift of all logits but one changes the distribution, not much any logit
            values = t["one.logits"][2]
            for row in range(17):
                values[row * 288 + 7] += 3.0

        r, j = self.verify(self.golden(change))
        self.assertEqual(r.returncode, 1)
        self.assertEqual(j["bounds"]["max_kl"], 1e-3)
        self.assertGreater(j["worst_delta"], 2.9)

    def test_another_token_is_no_near_tie(self):
        def change(t):  # the golden says another token was taken last, though its logits say otherwise
            t["one.greedy"][2][15] = (t["one.greedy"][2][15] + 1) % 288
            del t["one.logits"][2][16 * 288:]
            t["one.logits"][1][0] = 16

        r, j = self.verify(self.golden(change))
        self.assertEqual(r.returncode, 1)
        self.assertEqual(j["prompts"][0]["differences"][0]["token"], 15)
        self.assertEqual(j["failed"], "a token that is no near tie")
        self.assertFalse(j["prompts"][0]["differences"][0]["near_tie"])

    def test_a_near_tie_is_named_with_its_gap(self):
        # At one position raise the runner-up to just above the best: the oracle's choice changes by a hair.
        def change(t):
            n = len(t["one.ids"][2])
            row = n - 1 + 15  # the last greedy token: nothing after it depends on it
            values, greedy = t["one.logits"][2], t["one.greedy"][2]
            logits = values[row * 288:(row + 1) * 288]
            order = sorted(range(288), key=lambda i: -logits[i])
            values[row * 288 + order[1]] = logits[order[0]] + 0.01
            greedy[15] = order[1]
            del values[(row + 1) * 288:]
            t["one.logits"][1][0] = row + 1

        r, j = self.verify(self.golden(change))
        d = j["prompts"][0]["differences"][0]
        self.assertTrue(d["near_tie"])
        self.assertAlmostEqual(d["gap"], 0.01, places=4)
        self.assertEqual((j["near_ties"], j["equal"], r.returncode), (1, 15, 1))

    def test_short_golden(self):
        """The form that keeps the 64 greatest logits: the same values, the rest as one bucket."""
        full = read_safetensors(self.FILE)

        def short(delta):
            rows = [full["one.logits"][2][i * 288:(i + 1) * 288] for i in range(16)]
            order = [sorted(range(288), key=lambda i: -r[i])[:64] for r in rows]
            t = {"one.ids": full["one.ids"], "one.greedy": full["one.greedy"],
                 "one.top_ids": ("I32", [16, 64], [i for o in order for i in o]),
                 "one.top_logits": ("F32", [16, 64], [r[i] + delta * (i == o[3]) for r, o in zip(rows, order) for i in o]),
                 "one.lse": ("F32", [16], [math.log(sum(math.exp(v) for v in r)) for r in rows]),
                 "one.max_abs": ("F32", [16], [max(abs(v) for v in r) for r in rows]),
                 "probe_ids": ("I32", [2], [0, 287]),
                 "one.probe_logits": ("F32", [16, 2], [r[i] for r in rows for i in (0, 287)])}
            path = os.path.join(TMP.name, "short.safetensors")
            write_safetensors(path, t)
            return path

        r, j = self.verify(short(0), "--provider", "reference")
        self.assertEqual(r.returncode, 0, r.stdout)
        self.assertLess(abs(j["mean_kl"]), 1e-6)
        r, j = self.verify(short(0.25), "--provider", "reference")
        self.assertEqual(r.returncode, 1)
        self.assertAlmostEqual(j["worst_delta"], 0.25, places=3)

    def test_the_share_of_near_ties_is_capped(self):
        # The closest call of all positions, turned round by 0.001: everything else keeps to the bounds.
        full = read_safetensors(self.FILE)
        best = None
        for name in ("one", "short", "long"):
            n, values = len(full[name + ".ids"][2]), full[name + ".logits"][2]
            for i in range(4, 16):
                row = values[(n - 1 + i) * 288:(n + i) * 288]
                order = sorted(range(288), key=lambda k: -row[k])
                gap = row[order[0]] - row[order[1]]
                if best is None or gap < best[0]:
                    best = (gap, name, i, order)
        gap, name, i, order = best
        ids, greedy, values = (list(full[name + "." + k][2]) for k in ("ids", "greedy", "logits"))
        n = len(ids)
        values[(n - 1 + i) * 288 + order[1]] += gap + 0.001
        greedy = greedy[:i] + [order[1]]
        path = os.path.join(TMP.name, "tie.safetensors")
        write_safetensors(path, {"t.ids": ("I32", [n], ids), "t.greedy": ("I32", [i + 1], greedy),
                                 "t.logits": ("F32", [n + i, 288], values[:(n + i) * 288])})
        r, j = self.verify(path)
        self.assertEqual((j["near_ties"], j["failed"], r.returncode), (1, "share of near ties", 1))

    def test_the_rest_of_a_short_golden_is_one_bucket(self):
        full = read_safetensors(self.FILE)
        row = full["one.logits"][2][:288]
        order = sorted(range(288), key=lambda k: -row[k])[:4]
        # The golden claims a normaliser twice as large: every stored probability is halved, the rest has what they lose.
        lse = math.log(sum(math.exp(v) for v in row))
        path = os.path.join(TMP.name, "rest.safetensors")
        write_safetensors(path, {"t.ids": full["one.ids"], "t.greedy": ("I32", [1], [order[0]]), "t.top_ids": ("I32", [1, 4], order),
                                 "t.top_logits": ("F32", [1, 4], [row[k] for k in order]),
                                 "t.lse": ("F32", [1], [lse + math.log(2)]), "t.max_abs": ("F32", [1], [max(map(abs, row))])})
        q = [math.exp(row[k] - lse) for k in order]
        p = [v / 2 for v in q]
        expected = sum(a * math.log(a / b) for a, b in zip(p, q)) + (1 - sum(p)) * math.log((1 - sum(p)) / (1 - sum(q)))
        r, j = self.verify(path, "--provider", "reference")
        self.assertAlmostEqual(j["mean_kl"], expected, delta=1e-4 * expected)

    def test_against_reference(self):
        args = ["verify", MODEL, "--against", "reference", "--prompt", "the thing", "--tokens", "8", "--json"]
        r = ochre(*args)
        self.assertEqual(r.returncode, 0, r.stderr + r.stdout)
        self.assertEqual(json.loads(r.stdout)["tokens"], 8)

    def test_messages(self):
        for args, code, wanted in ((["--against", os.path.join(TMP.name, "absent")], 1, "absent"),
                                   (["--against", os.path.join(self.FOLDER, "model.safetensors")], 1, "no golden"),
                                   (["--against", self.FILE, "--only", "two"], 1, "no prompt named two"),
                                   (["--against", self.FILE, "--against", self.FILE], 2, "found it twice"),
                                   ([], 2, "--against"), (["--against", self.FILE, "--step", "65"], 2, "1 to 64")):
            r = ochre("verify", self.FOLDER, *args)
            self.assertEqual(r.returncode, code, args)
            self.assertIn(wanted, r.stderr)
        r = ochre("verify", MODEL, "--against", self.FILE)
        self.assertEqual(r.returncode, 1)
        self.assertIn("another model", r.stderr)
        r = ochre("verify", MODEL, "--against", "reference", "--only", "nothing")
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn("nothing", r.stderr)


class Bench(unittest.TestCase):
    def test_no_speed_after_a_fall_back(self):
        # Where the fast provider may use no instruction set, the reference serves.
        args = ["bench", MODEL, "-p", "4", "-n", "2", "-r", "1"]
        r = ochre(*args, env={"OCHRE_CPU_ISA": "generic"})
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertRegex(r.stderr, r"(?m)^  linear +cpu:0 +\d+ calls")
        r = ochre(*args, "--interactive", env={"OCHRE_CPU_ISA": "generic"}, stdin="decode\n")
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        r = ochre(*args, "--provider", "reference", "--json")
        self.assertGreater(json.loads(r.stdout)["decode"]["median"], 0)

    def test_interactive(self):
        r = ochre("bench", MODEL, "-p", "16", "-n", "8", "--interactive", stdin="decode\nprefill\nwhat\nquit\n")
        lines = [json.loads(line) for line in r.stdout.splitlines()]
        self.assertTrue(lines[0]["ready"])
        self.assertEqual([x.get("kind") for x in lines[1:]], ["decode", "prefill", None])
        self.assertGreater(lines[1]["tok_per_s"], 0)
        self.assertIn("expected", lines[3]["error"])
        r = ochre("bench", MODEL, "-p", "0", "-n", "8", "--interactive", stdin="prefill\n")
        self.assertIn("0 tokens", json.loads(r.stdout.splitlines()[1])["error"])

    def test_synthetic(self):
        r = ochre("bench", "--synthetic", "tiny", "--format", "Q4_K", "-p", "8", "-n", "2", "-r", "1", "--json")
        self.assertEqual(r.returncode, 0, r.stderr)
        for args, code, wanted in ((["--synthetic", "huge"], 1, "llama-8b"), (["--synthetic", "tiny", "--format", "Q9"], 2, "Q4_K, Q5_K"),
                                   (["--synthetic", "tiny", "--format", ""], 2, "expected one of F32"),
                                   ([MODEL, "--format", "Q4_0"], 2, "--synthetic"), (["-p", "0", "-n", "0", MODEL], 2, "nothing"),
                                   ([MODEL, "--synthetic", "tiny"], 2, "expected one"), ([], 2, "which model")):
            r = ochre("bench", *args)
            self.assertEqual(r.returncode, code, args)
            self.assertIn(wanted, r.stderr)
        for command in ("fit", "tune"):
            r = ochre(command, "--synthetic", "tiny", "--format", "Q9")
            self.assertEqual(r.returncode, 2)
            self.assertIn("Q4_K, Q5_K", r.stderr)

    def test_formats(self):
        args = ["bench", MODEL, "-p", "16", "-n", "8", "-r", "2"]
        self.assertRegex(ochre(*args).stdout, r"prefill.*\n.*decode|pp16|prefill")
        j = json.loads(ochre(*args, "--json").stdout)
        self.assertGreater(j["decode"]["median"], 0)
        self.assertEqual(len(j["decode"]["runs"]), 2)
        csv = ochre(*args, "--csv").stdout.splitlines()
        self.assertEqual(len(csv), 3)
        self.assertEqual(len({line.count(",") for line in csv}), 1)


if __name__ == "__main__":
    unittest.main(verbosity=1)
