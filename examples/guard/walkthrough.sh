#!/bin/sh
# Run a small training twice under a guard, on two ranks of this machine's CPU, and decide whether the second
# became slower:
#
#     sh examples/guard/walkthrough.sh [OUTPUT-FOLDER]
#
# What is compared stands in traintrace.yaml, beside this script. So small a training differs by tens of percent
# between two runs of the same code; hence the wide threshold. `traintrace guard pairs` is for narrow ones.
set -eu

out=${1:-$PWD/guard-trial}
cd "$(dirname "$0")"
export OMP_NUM_THREADS=1

for name in guard-reference guard-candidate; do
    traintrace run --run-dir "$out/runs" --run-name "$name" --nproc-per-node 2 train_ddp.py --steps 60
done

# Exit code 0: WITHIN_THRESHOLD or FASTER; 4: SLOWER; 3: INCONCLUSIVE; 1 and 2: bad input.
traintrace compare \
    "$out/runs/guard-reference/final_summary.json" \
    "$out/runs/guard-candidate/final_summary.json" \
    --max-step-time-regression-pct 1000 \
    --output "$out/guard-reference-vs-candidate"
