#!/usr/bin/env bash
# RACE, from the official archive to the accuracy on dev and test, middle and high apart.
#
#     bash examples/finetune_race.sh MODEL RACE OUT
#
# MODEL is a checkpoint folder; RACE is the official archive's folder, with train/, dev/ and test/,
# each with middle/ and high/, a file a passage or an all.txt. The recipe is the paper's; for the
# second version of the released models, which diverges with it, FLAGS="--recipe race-v2". Other FLAGS
# as in finetune_glue.sh.
#
# Time: 12,000 steps of 32 questions, each with four rows of up to 512 pieces; for a GPU or a TPU.
set -euo pipefail
model=$1 race=$2 out=$3
read -ra flags <<<"${FLAGS:-}"
if [[ -e $out ]]; then flags+=(--resume); fi
albert-keras finetune --model "$model" --task race --data "$race" --out "$out" "${flags[@]}"
