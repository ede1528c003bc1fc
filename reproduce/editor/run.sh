#!/usr/bin/env bash
# make demo DEMO=editor: a small editor in PyTorch, pretrained on outputs of the miniature world's editors, then tuned with
# a scorer in several ways (README.md). A second call resumes where the first one stopped.
#
#   EDITOR_OUT=DIR       working folder (build/editor)
#   EDITOR_SHORT=1       little data and few steps: checks that everything runs, its figures mean nothing
#   EDITOR_RESULTS=DIR   folder of the results (reproduce/editor; for a short run EDITOR_OUT)
#   EDITOR_SEEDS='1 2'   seeds of tuning (1 2 3)
#   EDITOR_JOBS=N        concurrent training runs (2), one thread each
#   DEMO_BIN, DEMO_LAB, EDITOR_PYTHON   folders of the commands and of lab's programs, and a Python with PyTorch, if not make's
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${DEMO_BIN:-bin}       # score, label
lab=${DEMO_LAB:-build/lab} # miniature
python=${EDITOR_PYTHON:-build/venv/bin/python}
out=${EDITOR_OUT:-build/editor}
scorer=backbones/tiny-scorer clip=backbones/tiny-clip
results=${EDITOR_RESULTS:-reproduce/editor}
first_set=3200 second_set=1600 exam=140 pretraining=1600 groups=1600 blends=800 steps=100 every=20 seeds=${EDITOR_SEEDS:-1 2 3}
if [ -n "${EDITOR_SHORT:-}" ]; then
	first_set=28 second_set=56 exam=14 pretraining=20 groups=28 blends=28 steps=6 every=3 seeds=${EDITOR_SEEDS:-1 2}
	results=${EDITOR_RESULTS:-$out}
fi
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
made "$out/drawn/edits.jsonl" "edits of the pretrained editor" -- "${tune[@]}" draw base --groups $groups
made "$out/drawn/scores.jsonl" "their scores and preferences" -- \
	"$bin/score" batch --scorer $scorer --in "$out/drawn/edits.jsonl" --out "$out/drawn/scores.jsonl" --pairs "$out/drawn/preferences.jsonl" --margin 0.5
made "$out/drawn/best.jsonl" "the best of each instruction" -- \
	"$bin/score" best --in "$out/drawn/scores.jsonl" --out "$out/drawn/best.jsonl" >/dev/null

# The arms. A server provides rewards and gradients of scorers to the arms that need them.
server= arms=
trap '[ -z "$server" ] || kill $server' EXIT
serve() {
	local port
	[ -z "$server" ] || { kill $server; wait $server || true; }
	port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	"$bin/score" serve "$@" --addr 127.0.0.1:$port >"$out/serve.log" 2>&1 &
	server=$! url=http://127.0.0.1:$port
}
tune_arm() {
	[ ! -e "$out/outputs/$1-$2.done" ] || return 0
	local start=$SECONDS
	"${tune[@]}" --server $url arm "$1" --seed "$2" --steps $steps --every $every >"$out/outputs/$1-$2.log" 2>&1 ||
		{ echo "error: arm $1, seed $2: see $out/outputs/$1-$2.log" >&2; return 1; }
	echo "$1, seed $2: $((SECONDS - start)) s" | tee "$out/outputs/$1-$2.done"
}
# tune_arms SCORER... -- ARM...: tunes arms that are rewarded by these scorers, with all seeds
tune_arms() {
	local scorers=()
	while [ "$1" != -- ]; do scorers+=(--scorer "$1"); shift; done
	shift
	arms="$arms $*"
	serve "${scorers[@]}"
	printf '\n== tuning\n'
	for seed in $seeds; do
		for arm in "$@"; do
			while [ "$(jobs -rp | grep -vc "^$server$")" -ge "${EDITOR_JOBS:-2}" ]; do wait -n; done
			tune_arm "$arm" "$seed" &
		done
	done
	for job in $(jobs -p); do [ "$job" = $server ] || wait "$job"; done
}
# drawn ARM: edits of an arm's last seed, as training data for another scorer
drawn() {
	made "$out/drawn-$1/edits.jsonl" "edits of $1" "$out/$1.pt" -- "${tune[@]}" draw "$1" --groups $groups --each 1
}
# guard NAME FOLDER...: trains a scorer on outputs of learnt editors, from folders of edits whose truth is measured
guard() {
	local name=$1 folder truths=() change=(-e "s#BACKBONE#$PWD/backbones/tiny#")
	shift
	for folder in "$@"; do
		made "$out/$folder/truth.jsonl" "truth of $folder" "$out/$folder/edits.jsonl" -- "$lab/miniature" measure --photos examples/photos \
			--held $held --seed 12 --instructions $second_set --in "$out/$folder/edits.jsonl" --out "$out/$folder/truth.jsonl"
		truths+=("$out/$folder/truth.jsonl")
	done
	made "$out/$name/table.parquet" "labels of $name" "${truths[@]}" -- "$python" reproduce/editor/guard.py --work "$out" table --name $name "$@"
	[ -z "${EDITOR_SHORT:-}" ] || change+=(-e 's/^epochs: .*/steps: 4/')
	sed "${change[@]}" reproduce/editor/guard.yaml >"$out/$name/guard.yaml"
	made "$out/$name/run/scorer" "training of $name" "$out/$name/table.parquet" -- "$bin/train" --config "$out/$name/guard.yaml"
}
last=${seeds##* }
tune_arms $scorer -- base words feedback
echo "words and feedback: $SECONDS s after the start of this call"
tune_arms $scorer -- no-words good best preferences feedback-50 clipped-50 kept-50
made "$out/mixed/edits.jsonl" "blends" -- "$python" reproduce/editor/guard.py --work "$out" mix --groups $blends
guard guard drawn mixed
tune_arms "$out/guard/run/scorer" -- guarded guarded-50
tune_arms scorer=$scorer guard="$out/guard/run/scorer" -- agreed-50
drawn feedback-50-$last
drawn guarded-50-$last
guard hardened drawn mixed drawn-feedback-50-$last drawn-guarded-50-$last
tune_arms "$out/hardened/run/scorer" -- hardened-50

all=$out/outputs/all.jsonl
made "$all" "one table of all outputs" "$out"/outputs/*.done -- "$python" reproduce/editor/page.py join --work "$out" --seeds $seeds
# by NAME SCORER: scores all outputs, and the exam's own outputs
by() {
	made "$out/$1.jsonl" "scores: $1" "$all" "$2" -- "$bin/score" batch --scorer "$2" --in "$all" --out "$out/$1.jsonl"
	made "$out/exam/$1.jsonl" "exam: $1" "$2" -- "$bin/score" batch --scorer "$2" --in "$out/exam/edits.jsonl" --out "$out/exam/$1.jsonl"
	"$lab/miniature" evaluate --json --truth "$out/exam/truth.jsonl" --scores "$out/exam/$1.jsonl" >"$out/exam/$1.json"
}
by scores $scorer
by guard-scores "$out/guard/run/scorer"
by hardened-scores "$out/hardened/run/scorer"
made "$out/similarities.jsonl" "CLIP-D" "$all" -- \
	"$bin/label" similarities --clip $clip --cache "$out/cache" --in "$all" --out "$out/similarities.jsonl"
made "$out/truth.jsonl" "truth" "$all" -- "$lab/miniature" measure "${tasks[@]}" --in "$all" --out "$out/truth.jsonl"
for arm in $arms; do
	[ "$arm" = base ] || made "$out/drift-$arm.json" "drift of $arm" "$all" -- bash -c \
		'"$1" drift --before "$2/base.jsonl" --after "$2/$3.jsonl" --scorer "$4" --clip "$5" --json >"$6.new" && mv "$6.new" "$6"' - \
		"$bin/score" "$out/outputs" "$arm" $scorer $clip "$out/drift-$arm.json"
done

# The gate, at every checkpoint: the arm's training reward, confirmed by another judge.
"$python" reproduce/editor/page.py gates --work "$out"
for table in "$out"/gates/*.jsonl; do
	name=$(basename "$table" .jsonl)
	[[ $name != base-* ]] || continue
	for column in other clip_d; do
		result=$out/gates/$name-$column.json
		[ "$result" -nt "$table" ] && continue
		"$bin/score" drift --before "$out/gates/base-$name.jsonl" --after "$table" --held-out-column $column --json >"$result" ||
			grep -q '"alarm": *true' "$result"
	done
done
"$python" reproduce/editor/page.py write --work "$out" --out "$results"
