"""Questions to LLVM's assembler and disassembler, many at a time."""
import os
import subprocess


def tool(name):
    return os.environ.get("OCHRE_" + name.upper().replace("-", "_"), name + "-22")


def run(argv, text):
    return subprocess.run(argv, input=text, capture_output=True, text=True)


def _disassemble(cpu, items, features):
    """One run: texts, or None when the tool died. An item's texts end at its marker, an s_nop with the item's number."""
    lines = []
    for i, words in enumerate(items):
        code = b"".join(w.to_bytes(4, "little") for w in words)
        lines.append("[" + " ".join("0x%02x" % b for b in code) + "]")
        lines.append("[0x%02x 0x%02x 0x80 0xbf]" % (i & 255, i >> 8))
    argv = [tool("llvm-mc"), "--disassemble", "-triple=amdgcn", "-mcpu=" + cpu]
    if features:
        argv.append("-mattr=" + features)
    r = run(argv, "\n".join(lines) + "\n")
    if r.returncode < 0 or "PLEASE submit a bug report" in r.stderr:
        return None
    out, got = [None] * len(items), []
    for line in r.stdout.splitlines():
        line = line.strip()
        if not line or line.startswith(".") or line.startswith(";"):
            continue
        if line.startswith("s_nop "):
            i = int(line.split()[1], 0)
            out[i] = got[0] if len(got) == 1 else None
            got = []
        else:
            got.append(line.split(";")[0].split("//")[0].strip())
    return out


def disassemble(cpu, items, features=""):
    """items: lists of dwords, one instruction each. Texts, None for what LLVM does not accept (or dies on)."""
    out = []
    for at in range(0, len(items), 4096):
        out += _bisect(cpu, items[at : at + 4096], features)
    return out


def _bisect(cpu, items, features):
    got = _disassemble(cpu, items, features)
    if got is not None:
        return got
    if len(items) == 1:
        return [None]
    half = len(items) // 2
    return _bisect(cpu, items[:half], features) + _bisect(cpu, items[half:], features)


def assemble(cpu, texts, features=""):
    """The dwords of each text, or None."""
    argv = [tool("llvm-mc"), "-triple=amdgcn", "-mcpu=" + cpu, "-show-encoding"]
    if features:
        argv.append("-mattr=" + features)
    out = [None] * len(texts)
    for at in range(0, len(texts), 4096):
        lines = []
        for i, t in enumerate(texts[at : at + 4096]):
            lines += [".if 1", t, ".endif", "s_nop %d" % i]
        r = run(argv, "\n".join(lines) + "\n")
        got = []
        for line in r.stdout.splitlines():
            if "encoding: [" not in line:
                continue
            text, enc = line.split("encoding: [")
            if text.strip().startswith("s_nop "):
                i = int(text.split()[1].rstrip(";"), 0)
                out[at + i] = got[0] if len(got) == 1 else None
                got = []
                continue
            enc = enc.split("]")[0]
            try:
                code = bytes(int(b, 0) for b in enc.split(","))
            except ValueError:
                got.append(None)
                continue
            got.append([int.from_bytes(code[k : k + 4], "little") for k in range(0, len(code), 4)])
    return out
