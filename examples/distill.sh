#!/usr/bin/env bash
# Do sharing and distillation add up? Small students with and without a teacher, shared and not.
#
#     bash examples/distill.sh DEMO OUT
#
# DEMO is the folder of `make demo`, whose pretrained model is fine-tuned as the teacher, on the
# demo's task: which library a paragraph documents. The students are four layers that share one
# block of width 64, and four blocks of width 33: as many parameters, a quarter of the arithmetic.
# Each is pretrained once, then fine-tuned by RUNS (3) seeds with the labels alone and with the
# teacher. After an interruption repeat the command: what has ended stays as it is.
#
# Measured with TensorFlow 2.21 on one core of a shared machine: accuracy on the demo's 2,262 held-out
# paragraphs of 11 libraries, at the last step, median (lowest to highest) of three seeds. The
# teacher (760,192 parameters, pretrained for 8,919 steps: the demo with --minutes 9) has 56.1 %, the
# most frequent library 13.3 %; an interval of 95 % is 2 points to either side.
#
#     learned from                         shared, 188,480 weights   unshared, 188,423
#     labels alone                         51.0 % (50.8 to 52.5)     45.2 % (43.7 to 48.4)
#     the teacher's answers as well        53.9 % (53.1 to 54.5)     53.4 % (53.0 to 53.6)
#     and its hidden states, weight 0.1    54.2 % (53.7 to 54.4)     not run
#     labels alone, after pretraining
#     with the demo's model as teacher     54.8 % (53.9 to 55.2)     not run
#
# Both gain from a teacher's answers. Sharing was worth 6 points without them and half a point with
# them, which the seeds do not tell from none: here the two gains do not add up, and the unshared
# student, of a quarter of the arithmetic, comes close. Hidden states add nothing that the seeds can
# tell. A teacher in pretraining is worth as much as one in fine-tuning: after the same 6,000 steps
# (one seed) the shared student has 5.15 nats a held-out masked piece, 5.46 without. One task, one
# pretraining each, a small teacher: no more than that.
set -euo pipefail
demo=$1 out=$2 runs=${RUNS:-3}
mkdir -p "$out"

# run FOLDER command ...: goes on with what is there; what has its model has ended.
run() {
    local folder=$1 own=()
    if [[ -e $folder/model ]]; then return; fi
    if [[ -e $folder ]]; then own=(--resume); fi
    albert-keras "${@:2}" --out "$folder" "${own[@]}"
}
tune() {
    run "$1" finetune --train "$demo/corpus/train.tsv" --dev "$demo/corpus/dev.tsv" \
        --length 64 --batch 32 --learning-rate 1e-3 "${@:2}"
}

declare -A width=([shared]=64 [unshared]=33) heads=([shared]=4 [unshared]=3)
declare -A sharing=([shared]=all [unshared]=none)
pretrain() {
    local h=${width[$2]}
    run "$1" pretrain --records "$demo/records/train" --vocab "$demo/vocabulary" \
        --dev "$demo/records/heldout" --preset small --set num_hidden_layers=4 \
        --set embedding_size=32 --set hidden_size="$h" --set intermediate_size=$((4 * h)) \
        --set num_attention_heads="${heads[$2]}" --set sharing="${sharing[$2]}" \
        --length 64 --batch 32 --steps 6000 --mask-rate 0.3 --optimizer adamw \
        --learning-rate 2e-3 --warmup 0.06 "${@:3}"
}

tune "$out/teacher" --model "$demo/pretrained" --epochs 1
teacher=(--teacher "$out/teacher" --temperature 2 --distillation-weight 0.5)
for student in shared unshared; do
    pretrain "$out/$student" "$student"
    tune "$out/$student-alone" --model "$out/$student" --epochs 3 --runs "$runs"
    tune "$out/$student-taught" --model "$out/$student" --epochs 3 --runs "$runs" "${teacher[@]}"
    tune "$out/$student-hidden" --model "$out/$student" --epochs 3 --runs "$runs" \
        "${teacher[@]}" --distill-hidden-weight 0.1
    pretrain "$out/$student-pretaught" "$student" --teacher "$demo/pretrained"
    tune "$out/$student-pretaught-alone" --model "$out/$student-pretaught" --epochs 3 --runs "$runs"
done
