#!/usr/bin/env bash
# Compares one scorer with eight heads to eight scorers with one head each, in the miniature world (README.md). A second call
# resumes where the first one stopped.
#
#   HEADS_OUT=DIR       working folder (build/heads)
#   HEADS_SHORT=1       little data and few steps: checks that everything runs, its figures mean nothing
#   HEADS_RESULTS=DIR   folder of the results (reproduce/heads; for a short run HEADS_OUT)
#   HEADS_SEEDS='1 2'   seeds of training (1 2 3)
#   DEMO_BIN, DEMO_LAB, HEADS_PYTHON   folders of the commands and of lab's programs, and a Python with NumPy and Pillow, if not make's
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${DEMO_BIN:-bin}       # train, score
lab=${DEMO_LAB:-build/lab} # miniature, reproduce
python=${HEADS_PYTHON:-build/venv/bin/python}
out=${HEADS_OUT:-build/heads}
results=${HEADS_RESULTS:-reproduce/heads}
instructions=1600 exam=56 steps=240 seeds=${HEADS_SEEDS:-1 2 3}
if [ -n "${HEADS_SHORT:-}" ]; then
	instructions=28 exam=14 steps=8 seeds=${HEADS_SEEDS:-1}
	results=${HEADS_RESULTS:-$out}
fi
[ -n "${HEADS_PYTHON:-}" ] || tools/setup/python.sh
mkdir -p "$out"
. lab/demo/made.sh

held=tissue,rocket
made "$out/train" "edits to train on" -- \
	"$lab/miniature" --photos examples/photos --held $held --seed 21 --instructions $instructions --chains 0 --out "$out/train"
made "$out/exam" "exam" -- \
	"$lab/miniature" --photos examples/photos --only $held --exam --seed 778 --instructions $exam --out "$out/exam"
made "$out/tables/exam.jsonl" "tables of labels" -- \
	"$python" reproduce/heads/labels.py --train "$out/train" --exam "$out/exam" --out "$out/tables"

backbone=$(realpath backbones/tiny)
# heads FOLDER SEED STEPS BATCH TABLES HEAD...: trains a scorer with these heads on these tables.
heads() {
	local dir=$out/$1 seed=$2 steps=$3 batch=$4 tables=$5
	shift 5
	mkdir -p "$dir"
	local list drop=''
	list=$(IFS=,; echo "$*")
	for head in overall following quality identity emotion valence arousal dominance; do
		case ,$list, in *,$head,*) ;; *) drop="$drop;/^  $head:/d;/dimension: $head[,}]/d" ;; esac
	done
	case ,$list, in *,overall,*) ;; *) drop="$drop;s/^score: .*/score: {fusion: mean}/" ;; esac
	sed -e "1,2d;s|BACKBONE|$backbone|;s|HEADS|[$list]|$drop" reproduce/heads/scorer.yaml >"$dir/scorer.yaml"
	sed -e "s|TABLES|[$tables]|;s|EXAM|../../tables/exam.jsonl|;s|STEPS|$steps|;s|SEED|$seed|;s|BATCH|$batch|$drop" \
		reproduce/heads/train.yaml >"$dir/run.yaml"
	made "$dir/run/scorer" "$dir" -- "$bin/train" --config "$dir/run.yaml"
}
table() { printf '../../tables/%s.jsonl' "$1"; }
quarter=$((steps / 4))
for seed in $seeds; do
	heads "$seed/all" "$seed" $steps 32 "$(table ratings), $(table overall), $(table emotions), $(table affect)" \
		overall following quality identity emotion valence arousal dominance
	# As many labels of each head as in the run above: a quarter of its edits, and 70 % of the ratings exist.
	heads "$seed/overall" "$seed" $quarter 32 "$(table overall)" overall
	heads "$seed/emotion" "$seed" $quarter 32 "$(table emotions)" emotion
	for head in following quality identity; do heads "$seed/$head" "$seed" $quarter 22 "$(table ratings)" $head; done
	for head in valence arousal dominance; do heads "$seed/$head" "$seed" $quarter 32 "$(table affect)" $head; done
done

# The benchmarks, in the layouts of their data sets: a column for each scorer with the head overall.
made "$out/data" "stand-ins of the benchmarks" "$out/train" "$out/exam" -- \
	"$lab/reproduce" stand-ins --train "$out/train" --edits "$out/train" --exam "$out/exam" --out "$out/data"
cp reproduce/heads/benchmarks.yaml "$out/"
mkdir -p "$out/columns"
scorers=()
for heads in all overall; do
	for seed in $seeds; do
		ln -sfn "../$seed/$heads/run/scorer" "$out/columns/$heads-$seed"
		scorers+=(--scorer "$out/columns/$heads-$seed")
	done
done
"$bin/score" bench all --config "$out/benchmarks.yaml" "${scorers[@]}" --device cpu --out "$out/bench" --report "$out/report"
"$python" reproduce/heads/page.py --work "$out" --out "$results" --seeds $seeds
