#!/usr/bin/env python3
"""Rules about the source tree that a compiler does not check.

    check.py SOURCE_DIR [--self-test]

Includes point to the left; rooms that know no device by name name none; malloc, getenv and exit have one home; every
file is UTF-8 text with a final newline and no trailing blanks; no file names an absolute path of the machine that it
was written on. --self-test feeds each rule a file that breaks it and expects the rule to say so.
"""
import os
import re
import subprocess
import sys
import tempfile

RANK = {"base": 0, "file": 1, "obj": 1, "quant": 1, "tok": 1, "target": 1, "kv": 1, "sched": 1, "kl": 2, "jit": 3, "dev": 4,
        "op": 5, "model": 6, "engine": 7, "server": 8, "main": 9}
SAME_RANK = {("quant", "file"), ("tok", "file")}
NAMELESS = {"file", "quant", "tok", "kv", "sched", "model", "engine", "server"}
DEVICE_WORDS = re.compile(r"(?i)(?<![a-z])(hip|cuda|gfx\d*|sm_\d*)(?![a-z])")
# What calls the thing that has one home, and that home.
HOMES = [
    (re.compile(r"(?<![\w.>])(malloc|calloc|realloc|strdup|strndup|posix_memalign|aligned_alloc|free)\s*\("), "src/base/alloc.c"),
    (re.compile(r"(?<![\w.>])(secure_)?getenv\s*\("), "src/base/env.c"),
    (re.compile(r"(?<![\w.>])_?exit\s*\("), "src/main/"),
]
MARKS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
SPECS = re.compile(r"och_gpu_kernel_get\([^;{]*?err,\s*\"([^\"]*)\"")
PATHS = re.compile(r"(?<![\w.:/])/(work|opt|root|home)/")


def strip(text):
    """C without comments and string contents, lines kept."""
    def blank(m):
        s = m.group(0)
        return s if s[0] not in "/\"'" else re.sub(r"[^\n]", " ", s)
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.S)


def rules(path, text):
    """Yields (line, complaint) for a file, by its path from the root."""
    lines = text.split("\n")
    parts = path.split("/")
    is_c = path.endswith((".c", ".h", ".def")) and parts[0] == "src"
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end"
    for i, line in enumerate(lines, 1):
        if line.endswith((" ", "\t", "\r")) and not path.endswith((".md", ".txt")):
            yield i, "a trailing blank"
        if PATHS.search(line) and not path.endswith(".safetensors"):
            yield i, "an absolute path of a machine"
        if MARKS.search(line) and parts[0] in ("src", "include"):
            yield i, "a mark of unfinished work"
    if not is_c:
        return
    room = parts[1]
    if room not in RANK:
        yield 1, "src/%s is no room" % room
        return
    for i, line in enumerate(lines, 1):
        m = re.match(r"\s*#\s*include\s+\"(\w+)/", line)
        if m and m.group(1) in RANK and m.group(1) != room:
            other = m.group(1)
            if RANK[other] > RANK[room] or (RANK[other] == RANK[room] and (room, other) not in SAME_RANK):
                yield i, "%s includes %s, which is not to its left" % (room, other)
    for i, line in enumerate(strip(text).split("\n"), 1):
        for pattern, home in HOMES:
            m = pattern.search(line)
            if m and not path.startswith(home):
                yield i, "%s belongs to %s" % (m.group(0).strip(" ("), home)
    for m in SPECS.finditer(text):
        if re.search(r"%(?![sd])", m.group(1)):
            yield text.count("\n", 0, m.start()) + 1, "no memo holds a kernel asked for by other conversions than %s and %d"
    if room in NAMELESS:
        for i, line in enumerate(lines, 1):
            m = DEVICE_WORDS.search(line)
            if m:
                yield i, "%s names a kind of device: %s" % (room, m.group(0))
    if len(lines) > 1200:
        yield 1200, "longer than 1,200 lines"


def check(root):
    try:
        found = subprocess.run(["git", "-C", root, "ls-files", "-z"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except FileNotFoundError: # a machine without git: every file counts
        found = None
    if found and found.returncode == 0:
        names = [n for n in found.stdout.decode().split("\0") if n]
    else:
        names = [os.path.relpath(os.path.join(d, f), root) for d, _, files in os.walk(root) for f in files]
    bad = n = 0
    for name in sorted(names):
        full = os.path.join(root, name)
        if not os.path.isfile(full) or "/fuzz/seeds/" in name or name.startswith(("tests/golden/", "build", "models/", ".git/")):
            continue
        if not name.endswith((".c", ".h", ".def", ".py", ".sh", ".cpp", ".cmake", ".md", ".json", ".txt", "Makefile")):
            continue
        if "/corpus/" in name or name.endswith((".json", ".txt")):
            continue
        n += 1
        with open(full, encoding="utf-8") as f:
            for line, complaint in rules(name, f.read()):
                print("%s:%d: %s" % (name, line, complaint))
                bad += 1
    print("%d files, %d complaints" % (n, bad))
    return bad


def self_test():
    cases = [("src/base/x.c", "#include \"op/op.h\"\n"), ("src/quant/x.c", "#include \"kv/blocks.h\"\n"),
             ("src/model/x.c", "/* as CUDA does */\n"), ("src/file/x.c", "p = malloc(3);\n"), ("src/op/x.c", "getenv(\"X\");\n"),
             ("src/engine/x.c", "exit(1);\n"), ("src/base/x.h", "int a; \n"), ("src/base/x.h", "int a;"),
             ("src/op/x.c", "st = och_gpu_kernel_get(d, \"k\", &k, err,\n    \"%.*s,A=%d\", n, s, a);\n"),
             ("src/base/x.h", "/* TO" + "DO */\n"), ("docs/x.md", "see /wo" + "rk/x\n"), ("src/zoo/x.c", "\n")]
    good = [("src/tok/x.c", "#include \"file/gguf.h\"\n"), ("src/file/x.c", "p = och_malloc(3); /* not malloc(3) */\n"),
            ("src/op/x.c", "st = och_gpu_kernel_get(d, \"k\", &k, err, \"%sA=%d\", s, a);\n"),
            ("src/model/x.c", "int chip; /* ship */\n"), ("src/dev/x.c", "och_buf_free(b); v->free(d, b);\n")]
    bad = 0
    for path, text in cases:
        if len(list(rules(path, text))) != 1:
            print("not caught once: %s %r %s" % (path, text, list(rules(path, text))))
            bad += 1
    for path, text in good:
        if list(rules(path, text)):
            print("caught wrongly: %s %r %s" % (path, text, list(rules(path, text))))
            bad += 1
    return bad


if __name__ == "__main__":
    sys.exit(1 if (self_test() if "--self-test" in sys.argv else check(sys.argv[1])) else 0)
