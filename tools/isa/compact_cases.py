"""Makes tests/isa/vectors/gfx1100_cases.txt.zst from a file of hardware-checked cases, one JSON object a line:
  compact_cases.py CASES.jsonl OUT.txt.zst"""
import json
import subprocess
import sys

lines = []
for text in open(sys.argv[1]):
    c = json.loads(text)
    lines.append("%s %d %s %s %s" % (c["test"].replace(" ", "_"), c["n_lanes"], c["code"],
                                     ",".join(map(str, c["unstable"])) or "-", c["out"]))
plain = sys.argv[2].removesuffix(".zst")
with open(plain, "w") as f:
    f.write("\n".join(lines) + "\n")
subprocess.run(["zstd", "-19", "-q", "-f", "--rm", plain], check=True)  # from a file: the size is in the frame
print("%d cases" % len(lines))
