#!/usr/bin/env bash
# SQuAD 1.1 or 2.0, from the official files to the official score and its prediction files.
#
#     bash examples/finetune_squad.sh MODEL SQUAD OUT squad1|squad2
#
# MODEL is a checkpoint folder; SQUAD holds train-v1.1.json and dev-v1.1.json, or those of v2.0. The
# recipe is the best public one (learning rate 2e-5, 3 epochs, batch 48, warm-up 0.1, clipping at 0.1).
# FLAGS are those of `albert-keras finetune`, see finetune_glue.sh: FLAGS="--recipe squad1-paper" for the
# paper's recipe; with "--runs 5" the five of them answer together as well, in OUT/ensemble.
#
# predictions.json and null_odds.json are what evaluate-v1.1.py and evaluate-v2.0.py read; the scores
# in evaluation.json are theirs.
#
# Time: 5,474 steps of 48 windows of up to 512 pieces for 1.1, 8,144 for 2.0; for a GPU or a TPU, since
# base takes most of a minute a step on two CPU cores.
set -euo pipefail
model=$1 squad=$2 out=$3 task=$4
read -ra flags <<<"${FLAGS:-}"
if [[ -e $out ]]; then flags+=(--resume); fi
albert-keras finetune --model "$model" --task "$task" --data "$squad" --out "$out" "${flags[@]}"
if [[ -e $out/summary.json && ! -e $out/ensemble ]]; then
    members=()
    # Those that learned something.
    for seed in $(python3 -c 'import json, sys
print(*(run["seed"] for run in json.load(open(sys.argv[1]))["runs"]))' "$out/summary.json"); do
        members+=(--model "$out/seed-$seed")
    done
    version=$([[ $task == squad1 ]] && echo v1.1 || echo v2.0)
    albert-keras predict-file "${members[@]}" --file "$squad/dev-$version.json" --out "$out/ensemble"
fi
