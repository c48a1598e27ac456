#!/usr/bin/env python3
"""Compares sim_decode's text with LLVM's on everything that clang-22 emits for the kernels of this folder.

    check_llvm.py SIM_DECODE [TARGET ...]

All targets, both wave sizes where there are two, -O0 and -O3. Exits 77 where there is no clang-22. known_differences.txt:
lines TARGET<tab>LLVM's text<tab>ours, fnmatch patterns; an entry that no longer occurs fails."""
import fnmatch
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = {"gfx906": ("gfx906", (64,)), "gfx908": ("gfx908", (64,)), "gfx90a": ("gfx90a", (64,)), "gfx942": ("gfx942", (64,)),
           "gfx950": ("gfx950", (64,)), "gfx1030": ("gfx1030", (32, 64)), "gfx1100": ("gfx1100", (32, 64)),
           "gfx1151": ("gfx1150", (32, 64)), "gfx1201": ("gfx1200", (32, 64))}
LINE = re.compile(r"^\t(.*?)\s*// [0-9A-F]+: ((?:[0-9A-F]{8} ?)+)")


def compile_one(source, target, wave, opt, out):
    argv = ["clang-22", "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", opt, "-c",
            source,
            "--offload-arch=" + target, "-mwavefrontsize64" if wave == 64 else "-mno-wavefrontsize64",
            "-D__AMDGCN_WAVEFRONT_SIZE_TEST=%d" % wave, "-munsafe-fp-atomics", "-w", "-o", out]
    r = subprocess.run(argv, capture_output=True, text=True)
    if r.returncode:
        sys.exit("%s for %s wave%d %s does not compile:\n%s" % (source, target, wave, opt, r.stderr))


def listing(path, wave):
    argv = ["llvm-objdump-22", "-d", path] + (["--mattr=+wavefrontsize64"] if wave == 64 else [])
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    out = []
    for line in text.splitlines():
        m = LINE.match(line)
        if m:
            out.append((" ".join(m.group(1).split()), m.group(2).strip()))
    return out


def ours(tool, isa, wave, words):
    r = subprocess.run([tool, isa, str(wave), "--lines"], input="\n".join(words) + "\n", capture_output=True, text=True)
    if r.returncode:
        sys.exit("%s ends with %d" % (tool, r.returncode))
    rows = [line.split("\t", 2) for line in r.stdout.splitlines()]
    return [(int(n), " ".join(text.split())) for _, n, text in rows]


def known():
    path = os.path.join(HERE, "known_differences.txt")
    rows = []
    if os.path.exists(path):
        for line in open(path, encoding="ascii"):
            if line.strip() and not line.startswith("#"):
                rows.append(line.rstrip("\n").split("\t"))
    return rows


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if not shutil.which("clang-22") or not shutil.which("llvm-objdump-22"):
        print("no clang-22: skipped")
        return 77
    tool, wanted = sys.argv[1], sys.argv[2:] or list(TARGETS)
    allowed, used, differences, compared = known(), set(), {}, 0
    with tempfile.TemporaryDirectory() as tmp:
        for target in wanted:
            isa, waves = TARGETS[target]
            for wave in waves:
                pairs = {}
                for opt in ("-O0", "-O3"):
                    for source in sorted(glob.glob(os.path.join(HERE, "*.cpp"))):
                        out = os.path.join(tmp, "code.o")
                        compile_one(source, target, wave, opt, out)
                        for text, words in listing(out, wave):
                            compared += 1
                            pairs[words] = text
                words = sorted(pairs)
                for w, (n, text) in zip(words, ours(tool, isa, wave, words)):
                    if text == pairs[w] and n == len(w.split()):
                        continue
                    hit = [i for i, (t, a, b) in enumerate(allowed) if fnmatch.fnmatchcase(target, t)
                           and fnmatch.fnmatchcase(pairs[w], a) and fnmatch.fnmatchcase(text, b)]
                    if hit:
                        used.update(hit)
                    else:
                        differences.setdefault((pairs[w].split()[0], target, wave), []).append((w, pairs[w], text))
    for (_, target, wave), rows in sorted(differences.items()):
        for w, a, b in rows[:3]:
            print("%s wave%d %s\n  llvm %s\n  ours %s" % (target, wave, w, a, b))
    stale = [allowed[i] for i in range(len(allowed)) if i not in used] if len(wanted) == len(TARGETS) else []
    for row in stale:
        print("a known difference no longer occurs: " + "\t".join(row))
    n = sum(map(len, differences.values()))
    print("%d instructions compared, %d kinds differ in %d distinct encodings" % (compared, len(differences), n))
    return 1 if differences or stale else 0


if __name__ == "__main__":
    sys.exit(main())
