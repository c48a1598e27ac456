#!/bin/sh
# The second half of `make demo`: a sentence on a simulated board. tools/demo-sim.sh OCHRE PROMPT
# Kernels are compiled by clang (19 or newer) where no pack has them; without it this says so and is no failure.
set -u
ochre=$1 prompt=$2 board=sim:gfx1151
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
echo
echo "\$ OCHRE_OP_STATS=1 ochre run smollm2-135m --chat --device $board --max-tokens 32 --prompt \"$prompt\""
if OCHRE_OP_STATS=1 "$ochre" run smollm2-135m --chat --device $board --max-tokens 32 --prompt "$prompt" 2>"$log"; then
  cat "$log" >&2
  echo "What this shows: the machine code of the kernels for gfx1151 (Strix Halo), executed by a simulator on this CPU. No such board"
  echo "is here: the answer and the ops that gave it are real, every op ran as a kernel (reference-tier hits count those that did not),"
  echo "and the times are the simulator's."
elif grep -q "no compiler" "$log"; then
  echo "Left out: no clang 19 or newer was found to compile kernels for a simulated board (Debian: apt install clang-22 or clang-19;"
  echo "OCHRE_CLANG names another). The answer above was the CPU's."
else
  cat "$log" >&2
  exit 1
fi
