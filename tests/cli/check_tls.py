#!/usr/bin/env python3
"""Libraries that a program opens while it runs keep their threads' variables at fixed places (src/base/tls.h): no relocation asks
the loader for a block a thread.

    check_tls.py LIBRARY...
"""
import struct
import sys

DYNAMIC = {62: {16: "DTPMOD64", 17: "DTPOFF64", 36: "TLSDESC"}, 183: {1028: "TLS_DTPMOD", 1029: "TLS_DTPREL", 1031: "TLSDESC"}}
RELA = 4


def of_blocks(path):
    """Names of the relocations of such variables, of a 64-bit ELF file."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:6] != b"\x7fELF\x02\x01":
        sys.exit("check_tls.py: %s: expected a 64-bit ELF file" % path)
    machine, = struct.unpack_from("<H", data, 18)
    sections, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    if machine not in DYNAMIC or not count:
        sys.exit("check_tls.py: %s: machine %d, %d sections: expected x86-64 or AArch64, with sections" % (path, machine, count))
    found = []
    for i in range(count):
        kind, _, _, at, n_bytes = struct.unpack_from("<IQQQQ", data, sections + i * size + 4)
        if kind == RELA:
            for r in range(at, at + n_bytes, 24):
                name = DYNAMIC[machine].get(struct.unpack_from("<I", data, r + 8)[0])
                found += [name] if name else []
    return found


def main():
    bad = {path: of_blocks(path) for path in sys.argv[1:]}
    for path, names in bad.items():
        if names:
            print("%s: %s: declare the variable OCH_THREAD_LOCAL (base/tls.h)" % (path, ", ".join(names)))
    return 1 if any(bad.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
