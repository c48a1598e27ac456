#!/usr/bin/env python3
"""Rewrites tests/fuzz/seeds/sim_words and sim_module: the instructions of tests/isa/vectors, one of each mnemonic, forty to a
file, and the code objects of tests/golden, with the bytes in front that the targets take their choices from.

usage: tests/fuzz/fuzz_sim_seeds.py (needs zstd)"""
import pathlib
import re
import subprocess

root = pathlib.Path(__file__).resolve().parents[2]
seeds = root / "tests/fuzz/seeds"
# The order of the targets in fuzz_sim_words.c, and of the rows of sim/board/boards.def.
ISAS = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1201"]
END = {"gfx1100": 0xBFB00000, "gfx1151": 0xBFB00000, "gfx1201": 0xBFB00000}
A_FILE = 40


def clear(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for f in folder.iterdir():
        f.unlink()


def words():
    folder = seeds / "sim_words"
    clear(folder)
    for family in ["gfx9", "gfx10", "gfx11", "gfx12"]:
        text = subprocess.run(["zstd", "-dc", root / f"tests/isa/vectors/{family}.txt.zst"], capture_output=True, check=True,
                              text=True).stdout
        targets, name, found = [], "", {}
        for line in text.splitlines():
            if line.startswith("targets "):
                targets = line.split()[1:]
            elif line.startswith("inst "):
                name = line[5:]
            elif (m := re.match(r"([0-9a-f]+) (32|64) ([0-9a-f]+) ", line)) and not line.startswith("pool "):
                for bit, target in enumerate(targets):
                    if int(m[1], 16) >> bit & 1:
                        found.setdefault((target, m[2]), {}).setdefault(name, bytes.fromhex(m[3]))
        for (target, wave), codes in found.items():
            codes = [codes[n] for n in sorted(codes)]
            # Neighbours in a file differ: each file takes every n-th.
            n = -(-len(codes) // A_FILE)
            for i in range(n):
                head = bytes([ISAS.index(target), (1 if wave == "64" else 0) | 8 | 0xF0, i & 255, 7])
                (folder / f"{target}-w{wave}-{i:02}").write_bytes(head + b"".join(codes[i::n]))


def modules():
    folder = seeds / "sim_module"
    clear(folder)
    boards = re.findall(r'^SIM_BOARD\("(\w+)"', (root / "sim/board/boards.def").read_text(), re.M)
    serves = {"gfx9-generic": "gfx906", "relocs": "gfx1100", "undefined": "gfx1100"}
    for f in sorted([*root.glob("tests/golden/obj/*"), *root.glob("tests/golden/sim/**/*")]):
        data = f.read_bytes() if f.is_file() else b""
        if data[:4] not in (b"\x7fELF", b"CCOB", b"__CL") or len(data) > 64 << 10:
            continue
        board = next((b for b in sorted(boards, key=len, reverse=True) if b in f.name), None)
        board = board or next((v for k, v in serves.items() if k in f.name), "gfx1100")
        (folder / f.name).write_bytes(bytes([boards.index(board)]) + data)


words()
modules()
