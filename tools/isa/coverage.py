#!/usr/bin/env python3
"""Writes docs/instructions.md: every instruction of every target, whether it is decoded, executed and tested.

    coverage.py MEANINGS          MEANINGS: the program ochre_sim_meanings
    coverage.py --emitted N       first: what clang-22 emits for N units of the differential test's programs, at -O0 and -O3,
                                  into tests/isa/diff/emitted.txt

Decoded and executed are what the simulator's own lists say (tables, meanings). Tested has three sources: a vector of
tests/isa/vectors or tests/isa/hand whose bytes decode to the row; a name in a test of tests/isa (*.c: matrix, memory, image,
...); a name among those that the compiler emits for the programs of the differential test."""
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGETS = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1150", "gfx1200"]
SHOWN = {"gfx1150": "gfx1151", "gfx1200": "gfx1201"}  # the member of the set that was run
EMITTED = os.path.join(ROOT, "tests/isa/diff/emitted.txt")
NOTHING = re.compile(r"^[vs]_(nop|pipeflush|clrexcp)$")


def plain(name):
    return re.sub(r"_(e32|e64|dpp|sdwa|e64_dpp|gfx\d+\w*)$", "", re.sub(r"_e64_dpp$", "", name))


def emitted(units):
    out = {}
    diff = os.path.join(ROOT, "tests/isa/diff")
    with tempfile.TemporaryDirectory() as tmp:
        for unit in range(units):
            text = os.path.join(tmp, "p.h")
            subprocess.run([sys.executable, os.path.join(diff, "generate.py"), str(unit + 1), "50", text], check=True)
            for t in TARGETS:
                target = SHOWN.get(t, t)
                for level in ("0", "3"):
                    obj = os.path.join(tmp, "o")
                    sys.path.insert(0, diff)
                    import run
                    wave = 64 if target.startswith("gfx9") else 32
                    run.compile_device(text, target, wave, level, obj)
                    r = subprocess.run(["llvm-objdump-22", "-d", obj], capture_output=True, text=True)
                    names = out.setdefault(t, set())
                    for line in r.stdout.splitlines():
                        m = re.match(r"^\t([a-z]\w+)(?:.*?:: (v_dual_\w+))?", line)
                        if m:
                            names.update(plain(x) for x in m.groups() if x)
    with open(EMITTED, "w") as f:
        for t in TARGETS:
            f.write("%s %s\n" % (t, " ".join(sorted(out[t]))))
    print({t: len(n) for t, n in out.items()})


def vector_rows(program):
    """{(target, format, opcode)} that some vector runs."""
    lines, keys = [], []
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/isa/vectors/gfx*.txt.zst")) +
                       glob.glob(os.path.join(ROOT, "tests/isa/hand/*.txt.zst"))):
        if path.endswith("_cases.txt.zst"):
            continue
        targets, done = [], set()
        text = subprocess.run(["zstd", "-dc", path], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            w = line.split(" ", 4)
            if w[0] == "targets":
                targets = line.split()[1:]
            elif w[0] not in ("pool", "inst"):
                for i, t in enumerate(targets):
                    if int(w[0], 16) >> i & 1 and (t, w[2]) not in done:
                        done.add((t, w[2]))
                        name = {v: k for k, v in SHOWN.items()}.get(t, t)
                        lines.append("%d %s %s" % (TARGETS.index(name), w[1], w[2]))
                        keys.append(name)
    r = subprocess.run([program, "decode"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    out = set()
    for t, line in zip(keys, r.stdout.splitlines()):
        p = line.split("\t")
        for i in range(0, len(p) - 1, 2):
            out.add((t, p[i], int(p[i + 1])))
    return out


def case_rows(program):
    """What the hardware-checked programs of gfx1100 contain is named by LLVM."""
    path = os.path.join(ROOT, "tests/isa/vectors/gfx1100_cases.txt.zst")
    text = subprocess.run(["zstd", "-dc", path], capture_output=True, text=True, check=True).stdout
    names = set()
    codes = []
    for line in text.splitlines():
        h = line.split()[2]
        codes.append(" ".join("0x" + h[i:i + 2] for i in range(0, len(h), 2)))
    r = subprocess.run(["llvm-mc-22", "-triple=amdgcn", "-mcpu=gfx1100", "-disassemble"], input="\n".join(codes) + "\n",
                       capture_output=True, text=True)
    for line in r.stdout.splitlines():
        m = re.match(r"^\t([a-z]\w+)(?:.*?:: (v_dual_\w+))?", line)
        if m:
            names.update(plain(x) for x in m.groups() if x)
    return names


def meaning_of(meanings, fmt, mnemonic, name):
    """The listed meaning that a row executes by: compares that write EXEC, VOPD halves and iu8 dots are variants of one."""
    for n in (name, re.sub("CMPX", "CMP", name), re.sub("^V_DUAL_", "V_", name), re.sub(r"^V_DUAL_(MIN|MAX)_F32", r"V_\1_NUM_F32", name),
              re.sub(r"^V_DUAL_(MIN|MAX)_NUM_F32", r"V_\1_F32", name), re.sub(r"(V_DOT[48]_I32_)I", r"\1IU", name) + "_II", name + "_UU"):
        if n in meanings:
            return meanings[n]
    return ("exact", "") if NOTHING.match(mnemonic) else None


def main():
    if sys.argv[1] == "--emitted":
        return emitted(int(sys.argv[2]))
    program = sys.argv[1]
    rows, meanings = [], {}
    for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines():
        p = line.split("\t")
        if p[0] == "row":
            rows.append((p[1], int(p[2]), p[3], p[4], int(p[5], 16)))
        else:
            meanings[p[2]] = (p[3], p[4])
    vectors, cases = vector_rows(program), case_rows(program)
    named = set(re.findall(r"\b[a-z]+_\w+", " ".join(open(f).read().lower() for f in
                                                     glob.glob(os.path.join(ROOT, "tests/isa/*.c")) +
                                                     glob.glob(os.path.join(ROOT, "tests/isa/*.h")))))
    compiled = {}
    if os.path.exists(EMITTED):
        for line in open(EMITTED):
            w = line.split()
            compiled[w[0]] = set(w[1:])
    matrix = re.compile(r"_(mfma|wmma|smfmac|swmmac|accvgpr)_")
    table, sums = {}, {t: [0, 0, 0, 0] for t in TARGETS}
    for fmt, opcode, mnemonic, name, isas in rows:
        m = meaning_of(meanings, fmt, mnemonic, name)
        entry = table.setdefault((fmt, mnemonic), ["", {}])
        entry[0] = "" if not m else "exact" if m[0] == "exact" else m[1] or "approximate"
        for i, t in enumerate(TARGETS):
            if not isas >> i & 1:
                continue
            if (t, fmt, opcode) in vectors or (t == "gfx1100" and mnemonic in cases):
                how = "v"
            elif m and (matrix.search(mnemonic) or mnemonic in named or name.lower() in named):
                how = "h"
            elif mnemonic in compiled.get(t, ()):
                how = "c"
            else:
                how = ""
            both = how + ("c" if how and how != "c" and mnemonic in compiled.get(t, ()) else "")
            entry[1][t] = both if both else "x" if m else "d"
            sums[t][0] += 1
            sums[t][1] += 1 if m else 0
            sums[t][2] += 1 if how else 0
            sums[t][3] += 1 if m and not how else 0
    missing = {t: sorted(n for n in compiled.get(t, ()) if not any(
        n == mn and t in e[1] and e[1][t] not in "xd" for (_, mn), e in table.items())) for t in TARGETS}
    with open(os.path.join(ROOT, "docs/instructions.md"), "w") as f:
        f.write(HEAD)
        f.write("| target | instructions decoded | executed | tested | executed, not tested |\n|---|---|---|---|---|\n")
        for t in TARGETS:
            f.write("| %s | %d | %d | %d | %d |\n" % ((SHOWN.get(t, t),) + tuple(sums[t])))
        f.write("\n")
        for t in TARGETS:
            if missing[t]:
                f.write("Emitted by clang-22 and not tested on %s: %s.\n\n" % (SHOWN.get(t, t), ", ".join(missing[t])))
        fmt = None
        for (fm, mn), (exact, marks) in sorted(table.items()):
            if fm != fmt:
                fmt = fm
                f.write("\n## %s\n\n| instruction | result | %s |\n|---|---|%s\n" %
                        (fm, " | ".join(SHOWN.get(t, t)[3:] for t in TARGETS), "---|" * len(TARGETS)))
            f.write("| %s | %s | %s |\n" % (mn, exact or "-", " | ".join(marks.get(t, "") for t in TARGETS)))
    for t in TARGETS:
        print(SHOWN.get(t, t), *sums[t], "emitted, not tested:", len(missing[t]), " ".join(missing[t][:8]))


HEAD = """# Instructions of the simulator

Generated by `tools/isa/coverage.py`. A cell: `v` has vectors whose results come from AMD's pseudocode, from hardware or from hand-worked
cases (`tests/isa/vectors`, `tests/isa/hand`); `h` is named by a test in C beside them (matrix, memory, image and other tests); `c` is
emitted by clang-22 for programs of the differential test (`tests/isa/diff`); `x` is executed, none of these; `d` is decoded only: a
kernel that can reach it is refused with its name; empty: not an instruction of the target. Result: exact, or the bound of the
difference from hardware. gfx1101 to 1103 are as gfx1100, gfx1150 to 1153 as gfx1151, gfx1200 as gfx1201. Formats of gfx12 are under
their older names (VBUFFER: MUBUF, VFLAT: FLAT, ...).

"""

if __name__ == "__main__":
    sys.exit(main())
