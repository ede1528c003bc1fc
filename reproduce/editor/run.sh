#!/usr/bin/env bash
# make demo DEMO=editor: a small editor in PyTorch, pretrained on what the miniature world's editors make, then tuned by
# a scorer in several ways (README.md). A second call resumes where the first one stopped.
#
#   EDITOR_OUT=DIR       folder to work in (build/editor)
#   EDITOR_SHORT=1       little data and few steps: everything runs, the figures mean nothing
#   EDITOR_SECOND=DIR    another scorer to compare with (that of make demo, if it is there)
#   EDITOR_RESULTS=DIR   folder of the results (reproduce/editor; of a short run EDITOR_OUT)
#   EDITOR_SEEDS='1 2'   of tuning (1 2 3)
#   EDITOR_JOBS=N        runs of training at a time (2), one thread each
#   DEMO_BIN, DEMO_LAB, EDITOR_PYTHON   folders of the commands and of lab's programs, and a Python with PyTorch, if not make's
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${DEMO_BIN:-bin}       # score, label
lab=${DEMO_LAB:-build/lab} # miniature
python=${EDITOR_PYTHON:-build/venv/bin/python}
out=${EDITOR_OUT:-build/editor}
scorer=backbones/tiny-scorer clip=backbones/tiny-clip
second=${EDITOR_SECOND:-build/demo/run/scorer}
results=${EDITOR_RESULTS:-reproduce/editor}
first_set=3200 second_set=1600 exam=140 pretraining=1600 groups=800 steps=100 seeds=${EDITOR_SEEDS:-1 2 3}
if [ -n "${EDITOR_SHORT:-}" ]; then
	first_set=28 second_set=56 exam=14 pretraining=20 groups=28 steps=6 seeds=${EDITOR_SEEDS:-1 2}
	results=${EDITOR_RESULTS:-$out}
fi
arms='base words no-words good best preferences feedback feedback-50'
[ -n "${EDITOR_PYTHON:-}" ] || tools/setup/python.sh
export PYTHONPATH=clients/python OMP_NUM_THREADS=1
mkdir -p "$out/outputs"
. lab/demo/made.sh

held=tissue,rocket
tasks=(--photos examples/photos --only $held --exam --seed 777 --instructions $exam)
made "$out/first" "edits to pretrain on" -- \
	"$lab/miniature" --photos examples/photos --held $held --seed 11 --instructions $first_set --chains 0 --pictures embed --out "$out/first"
made "$out/second" "edits to tune on" -- \
	"$lab/miniature" --photos examples/photos --held $held --seed 12 --instructions $second_set --chains 0 --pictures embed --out "$out/second"
made "$out/exam" "exam" -- "$lab/miniature" "${tasks[@]}" --out "$out/exam"
made "$out/labels" "scores in words" -- "$bin/score" condition --in "$out/second/edits.parquet" --scorer $scorer --out "$out/labels"
tune=("$python" reproduce/editor/tune.py --work "$out")
made "$out/base.pt" "pretraining" -- "${tune[@]}" pretrain --steps $pretraining
made "$out/drawn/edits.jsonl" "edits of the pretrained editor" -- "${tune[@]}" draw --groups $groups
made "$out/drawn/scores.jsonl" "their scores and preferences" -- \
	"$bin/score" batch --scorer $scorer --in "$out/drawn/edits.jsonl" --out "$out/drawn/scores.jsonl" --pairs "$out/drawn/preferences.jsonl" --margin 0.5
made "$out/drawn/best.jsonl" "the best of each instruction" -- \
	"$bin/score" best --in "$out/drawn/scores.jsonl" --out "$out/drawn/best.jsonl" >/dev/null

# The arms. A server gives rewards and gradients to those that want them, for as long as this script runs.
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$bin/score" serve --scorer $scorer --addr 127.0.0.1:$port >"$out/serve.log" 2>&1 &
server=$!
trap 'kill $server' EXIT
tune+=(--server http://127.0.0.1:$port)
tune_arm() {
	[ ! -e "$out/outputs/$1-$2.done" ] || return 0
	local start=$SECONDS
	"${tune[@]}" arm "$1" --seed "$2" --steps $steps --every $((steps / 2)) >"$out/outputs/$1-$2.log" 2>&1 ||
		{ echo "error: arm $1 of seed $2: $out/outputs/$1-$2.log" >&2; return 1; }
	echo "$1, seed $2: $((SECONDS - start)) s" | tee "$out/outputs/$1-$2.done"
}
printf '\n== tuning\n'
for seed in $seeds; do
	for arm in $arms; do
		while [ "$(jobs -rp | grep -vc "^$server$")" -ge "${EDITOR_JOBS:-2}" ]; do wait -n; done
		tune_arm "$arm" "$seed" &
	done
done
for job in $(jobs -p); do [ "$job" = $server ] || wait "$job"; done

all=$out/outputs/all.jsonl
made "$all" "one table of all outputs" "$out"/outputs/*.done -- "$python" reproduce/editor/page.py join --work "$out" --seeds $seeds
made "$out/scores.jsonl" "scores" "$all" -- "$bin/score" batch --scorer $scorer --in "$all" --out "$out/scores.jsonl"
[ ! -d "$second" ] ||
	made "$out/second.jsonl" "a second scorer's" "$all" -- "$bin/score" batch --scorer "$second" --in "$all" --out "$out/second.jsonl"
made "$out/similarities.jsonl" "CLIP-D" "$all" -- \
	"$bin/label" similarities --clip $clip --cache "$out/cache" --in "$all" --out "$out/similarities.jsonl"
made "$out/truth.jsonl" "truth" "$all" -- "$lab/miniature" measure "${tasks[@]}" --in "$all" --out "$out/truth.jsonl"
for arm in $arms; do
	[ "$arm" = base ] || made "$out/drift-$arm.json" "drift of $arm" "$all" -- bash -c \
		'"$1" drift --before "$2/base.jsonl" --after "$2/$3.jsonl" --scorer "$4" --clip "$5" --json >"$6.new" && mv "$6.new" "$6"' - \
		"$bin/score" "$out/outputs" "$arm" $scorer $clip "$out/drift-$arm.json"
done
"$python" reproduce/editor/page.py write --work "$out" --out "$results"
