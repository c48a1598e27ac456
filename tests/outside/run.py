#!/usr/bin/env python3
"""Installs a build into an empty prefix and uses it as somebody else would.

    run.py BUILD_DIR SOURCE_DIR

Programs outside the tree find libochre through pkg-config, from C and from C++: four that use models, and four with
kernels of their own on simulated boards, one of them the program of docs/kernel-api.md; the library shows ochre_ names
only; library and program need nothing but the C library's own files. Prints one line a check; exit status 1 when one
failed.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import tiny_gguf

build, source = (os.path.abspath(p) for p in sys.argv[1:3])
here = os.path.join(source, "tests", "outside")
failures = 0


def check(name, ok, detail=""):
    global failures
    print("%-4s %s%s" % ("ok" if ok else "FAIL", name, "" if ok else "\n" + str(detail)), flush=True)
    failures += not ok


def run(*argv, **kw):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)


with tempfile.TemporaryDirectory() as tmp:
    prefix = os.path.join(tmp, "prefix")
    done = run("cmake", "--install", build, "--prefix", prefix)
    check("cmake --install", done.returncode == 0, done.stdout)
    libdir = next((d for d, _, files in os.walk(prefix) if "libochre.so" in files), prefix)
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(libdir, "pkgconfig"), LD_LIBRARY_PATH=libdir)
    model = os.path.join(tmp, "tiny.gguf")
    with open(model, "wb") as f:
        f.write(tiny_gguf.build())

    # The prefix is not the one that was configured; what pkg-config says must still be right.
    flags = run("pkg-config", "--cflags", "--libs", "ochre", env=env)
    check("pkg-config finds ochre", flags.returncode == 0, flags.stdout)
    flags = flags.stdout.split()
    programs = [("c_generate.c", "cc", "-std=c99", [model, "the"], r"\[16 tokens\]|\[\d+ tokens\]"),
                ("cpp_generate.cpp", "c++", "-std=c++11", [model, "the"], r"\[\d+ tokens\]"),
                ("c_missing_file.c", "cc", "-std=c99", [], "no-such-model"),
                ("c_wrong_argument.c", "cc", "-std=c99", [model], "toaster")]
    said = {}
    for name, compiler, std, args, expected in programs:
        lines = sum(1 for _ in open(os.path.join(here, name)))
        check("%s has under 40 lines" % name, lines < 40, lines)
        program = os.path.join(tmp, name.split(".")[0])
        made = run(compiler, std, "-Wall", "-Wextra", "-Wpedantic", "-Werror", os.path.join(here, name), "-o", program, *flags)
        check("%s builds against the installed prefix" % name, made.returncode == 0, made.stdout)
        if made.returncode == 0:
            ran = run(program, *args, env=env)
            said[name] = ran.stdout
            check("%s does its work" % name, ran.returncode == 0 and re.search(expected, ran.stdout), ran.stdout)
    # Kernels on simulated boards, by a compiler that may not be there.
    compilers = ("clang-22", "clang-21", "clang-20", "clang-19", "clang", "amdclang")
    compiles = any(os.path.exists(os.path.join(d, c)) for d in os.environ.get("PATH", "").split(":") for c in compilers)
    with open(os.path.join(source, "docs", "kernel-api.md"), encoding="utf-8") as f:
        shown = re.findall(r"^```c\n(.*?)^```$", f.read(), re.S | re.M)
    check("docs/kernel-api.md has one program", len(shown) == 1, len(shown))
    page = os.path.join(tmp, "page.c")
    with open(page, "w") as f:
        f.write(shown[0])
    boards = ["sim:gfx1100", "sim:gfx942"]
    own = dict(env, OCHRE_CACHE_DIR=os.path.join(tmp, "cache"))
    for name in ("OCHRE_SIM_BOARD", "OCHRE_SIM_LIBRARY", "OCHRE_PACK"):
        own.pop(name, None)
    kernels = [("c_kernels.c", "cc", "-std=c99", [boards], "axpy, scale and turn are right"),
               ("cpp_kernels.cpp", "c++", "-std=c++11", [boards], "squares and row_sums are right"),
               ("c_kernel_errors.c", "cc", "-std=c99", [boards], "load: another target's"),
               (page, "cc", "-std=c99", [boards[:1], boards[1:]], "^0.5 1 ... 200$")]
    for name, compiler, std, runs, expected in kernels:
        program = os.path.join(tmp, os.path.basename(name).split(".")[0])
        # The page shows what is easiest to read: designated initialisers of a part of a struct, a function from an object pointer.
        strict = ["-Wno-missing-field-initializers"] if name == page else []
        made = run(compiler, std, "-Wall", "-Wextra", "-Wpedantic", "-Werror", *strict, os.path.join(here, name), "-o", program, *flags, "-ldl")
        check("%s builds against the installed prefix" % os.path.basename(name), made.returncode == 0, made.stdout)
        for args in runs if made.returncode == 0 and compiles else []:
            ran = run(program, *args, env=own)
            lines = len(re.findall(expected, ran.stdout, re.M))
            good = ran.returncode == 0 and lines == (len(args) if name != "c_kernel_errors.c" else 1) and "FAIL" not in ran.stdout
            check("%s does its work on %s" % (os.path.basename(name), " ".join(args)), good, ran.stdout)
    if not compiles:
        print("skip no clang: the programs with kernels were built and not run")
    check("C and C++ generate the same text",
          said.get("c_generate.c", 1) == said.get("cpp_generate.cpp", 2), said)

    library = os.path.join(libdir, "libochre.so")
    names = [l.split()[-1] for l in run("nm", "-D", "--defined-only", library).stdout.splitlines() if l.strip()]
    other = [n for n in names if not n.startswith("ochre_")]
    check("nm: %d names, all ochre_" % len(names), names and not other, other)
    declared = set()
    for header in ("ochre.h", "kernels.h"):
        with open(os.path.join(source, "include", "ochre", header)) as f:
            declared |= set(re.findall(r"OCHRE_API[^;(]*?\b(ochre_\w+)\(", f.read()))
    check("every function of the headers is exported", declared and declared == set(names), declared ^ set(names))

    glibc = re.compile(r"linux-vdso|/ld-linux|lib(c|m|dl|pthread|rt|mvec)\.so|ld-linux")
    for f in (library, os.path.join(prefix, "bin", "ochre")):
        needed = [l.strip() for l in run("ldd", f).stdout.splitlines() if l.strip()]
        foreign = [l for l in needed if not glibc.search(l)]
        check("ldd %s: the C library's own files alone" % os.path.basename(f), needed and not foreign, foreign)
    version = run(os.path.join(prefix, "bin", "ochre"), "--version")
    check("the installed program runs", version.returncode == 0 and version.stdout.startswith("ochre "), version.stdout)

sys.exit(failures != 0)
