#!/usr/bin/env python3
"""Every kernel compiles for every target, and decode kernels do not spill: check_kernels.py OCHRE. Skipped (77) where no clang
is that knows all targets."""
import shutil
import subprocess
import sys
import tempfile
import os

if not shutil.which("clang-22"):
    print("skipped: clang-22 is not installed")
    sys.exit(77)
with tempfile.TemporaryDirectory() as cache:
    sys.exit(subprocess.run([sys.argv[1], "kernels", "check"], env=dict(os.environ, OCHRE_CACHE_DIR=cache)).returncode)
