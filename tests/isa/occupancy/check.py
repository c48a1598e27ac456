#!/usr/bin/env python3
"""The simulator's occupancy against the compiler's.

    check.py SIM_OCCUPANCY

compiles kernels.hip for each target and wave size with clang-22's remarks on resource usage, and compares registers, LDS,
scratch and waves a SIMD with what ochre_sim_occupancy says of the code object. Exit status: 0 all agree, 1 some differ, 77 no
clang-22.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = {"gfx906": [64], "gfx908": [64], "gfx90a": [64], "gfx942": [64], "gfx950": [64], "gfx1030": [32, 64], "gfx1100": [32, 64],
           "gfx1102": [32, 64], "gfx1103": [32, 64], "gfx1150": [32, 64], "gfx1151": [32, 64], "gfx1200": [32, 64],
           "gfx1201": [32, 64]}

# Where the two are known to differ, and have to: (targets, kernels) -> the compiler's waves less the simulator's. The remarks take
# scalar registers by a table in steps of 8 (80, 88, 100); hardware of gfx9 gives them, and the runtime counts them, in units of
# 16 of 800.
KNOWN = {("gfx906", "scalars_80"): 1, ("gfx908", "scalars_80"): 1, ("gfx906", "scalars_96"): 1, ("gfx908", "scalars_96"): 1,
         ("gfx90a", "scalars_96"): 1}


def waves_agree(target, name, lds, granule, here, compiler):
    if (target, name) in KNOWN:
        return compiler - here == KNOWN[target, name]
    # The remarks divide LDS by what the kernel asks for, not by what it is given.
    return here <= compiler if lds % granule else here == compiler


def remarks(text):
    kernels, now = {}, None
    for what, value in re.findall(r"remark:\s+([^:]+): (\S+) \[-Rpass-analysis", text):
        if what == "Function Name":
            now = kernels.setdefault(value, {})
        else:
            now[what] = value
    return kernels


def main():
    if not shutil.which("clang-22"):
        print("clang-22 is not installed")
        return 77
    compared = bad = 0
    with tempfile.TemporaryDirectory() as tmp:
        for target, waves in TARGETS.items():
            for wave in waves:
                code = f"{tmp}/{target}_{wave}.hsaco"
                flags = ["-mwavefrontsize64"] if wave == 64 and target.startswith("gfx1") else []
                r = subprocess.run(["clang-22", "-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", f"--offload-arch={target}",
                                    "-O2", *flags, "--no-gpu-bundle-output", "-Rpass-analysis=kernel-resource-usage",
                                    f"{HERE}/kernels.hip", "-o", code], capture_output=True, text=True)
                if r.returncode:
                    print(f"{target} wave{wave}: {r.stderr.strip().splitlines()[-1:]}")
                    return 1
                compiler = remarks(r.stderr)
                sim = subprocess.run([sys.argv[1], target, code, *compiler], capture_output=True, text=True)
                if sim.returncode:
                    print(f"{target} wave{wave}: {sim.stderr.strip()}")
                    return 1
                for line in sim.stdout.splitlines():
                    name, _, vgprs, _, agprs, _, lds, _, scratch, _, granule, _, here = line.split()
                    c = compiler[name]
                    compared += 1
                    # Registers are allocated in granules: the compiler's count is at most the simulator's.
                    if (not waves_agree(target, name, int(lds), int(granule), int(here), int(c["Occupancy [waves/SIMD]"])) or lds != c["LDS Size [bytes/block]"] or
                            scratch != c["ScratchSize [bytes/lane]"] or int(c["VGPRs"]) > int(vgprs) or
                            int(c.get("AGPRs", 0)) > int(agprs)):
                        print(f"{target} wave{wave} {line}; the compiler says {c}")
                        bad += 1
    print(f"{compared} kernels compared, {bad} differ")
    return 1 if bad or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
