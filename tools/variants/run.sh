#!/usr/bin/env bash
# Variants of a recipe in the miniature world (docs/miniature.md), with the same amount of data and steps, examined on held-out
# photographs. Resumable: completed steps are skipped.
#
#   tools/variants/run.sh adiee            ADIEE's recipe and its ablations, one seed
#   tools/variants/run.sh losses [SEED...] pointwise, comparisons, orders, mu and sigma, and their sums; seeds 1 2 3
#   tools/variants/run.sh table            results so far: the mean over seeds, and the number of seeds
#
#   VARIANTS_BIN, VARIANTS_LAB   folders of the commands and of miniature, if other than bin and build/lab (make build lab)
#   VARIANTS_TASKS instructions in the data (800; half as many chains)
#   VARIANTS_EXAM  instructions in the exam (280)
#   VARIANTS_OUT   folder of all results (build/variants-TASKS)
#   VARIANTS_JOBS  concurrent runs, one thread each (1)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tasks=${VARIANTS_TASKS:-800} exam=${VARIANTS_EXAM:-280} held=tissue,rocket
mkdir -p "${VARIANTS_OUT:=build/variants-$tasks}"
out=$(cd "$VARIANTS_OUT" && pwd) bin=$(cd "${VARIANTS_BIN:-bin}" && pwd) lab=$(cd "${VARIANTS_LAB:-build/lab}" && pwd)

# labelled NAME SOURCE...: labels from ADIEE's rules, for some of the sources.
labelled() {
	local name=$1 sources=''
	shift
	[ ! -e "$out/$name/table.parquet" ] || return 0
	for s in "$@"; do
		case $s in
		edits) sources+=$'\n  - {layout: table, path: data/edits.parquet, name: edits, columns: {id: group}}' ;;
		chains) sources+=$'\n  - {layout: magicbrush, path: data/chains.parquet, name: chains, chains: true}' ;;
		esac
	done
	{
		echo "sources:$sources"
		echo "out: $name"
		sed -E -e '/^(out|sources):/d' -e '/^  - \{layout/d' -e 's#\.\./\.\./backbones#'"$PWD"'/backbones#' examples/miniature/label.yaml
	} >"$out/$name.yaml"
	"$bin/label" --config "$out/$name.yaml"
}

# trained NAME SEED DATA TEXT: runs the demonstration's recipe on DATA, with the keys in TEXT replaced.
trained() {
	local name=$1 keys
	[ ! -e "$out/$name/scorer" ] || return 0
	keys=out:data:seed:validate:$(printf '%s\n' "$4" | sed -nE 's/^([a-z_]+):.*/\1/p' | paste -sd :)
	case :$keys: in *:losses:*) keys+=:loss ;; esac
	case :$keys: in *:scorer:*) keys+=:pair:pair_size:question:answer:score_position:head ;; esac
	{
		sed -E "/^(${keys//:/|}):/d" examples/miniature/scorer.yaml | sed "s#\.\./\.\./backbones#$PWD/backbones#"
		printf 'out: %s\ndata: {%s, train_split: train, validation_split: validation}\nseed: %s\nvalidate: {every: 0}\nthreads: 1\n%s\n' \
			"$name" "$3" "$2" "$4"
	} >"$out/$name.yaml"
	"$bin/train" --config "$out/$name.yaml"
}

# examined NAME: scores the exam with it.
examined() {
	[ -e "$out/$1.exam.json" ] || {
		"$bin/score" batch --scorer "$out/$1/scorer" --in $out/exam/edits.jsonl --out "$out/$1.scores.jsonl"
		"$lab/miniature" evaluate --truth $out/exam/truth.jsonl --scores "$out/$1.scores.jsonl" --json >"$out/$1.new"
		mv "$out/$1.new" "$out/$1.exam.json"
	}
}

prepared() {
	[ -e $out/data ] || "$lab/miniature" --photos examples/photos --held $held --seed 1 --instructions $tasks --chains $((tasks / 2)) \
		--pictures embed --out $out/data
	[ -e $out/exam ] || "$lab/miniature" --photos examples/photos --only $held --exam --seed 777 --instructions $exam --out $out/exam
	labelled labels edits chains
}

# beside COMMAND...: runs in the background, once one of VARIANTS_JOBS slots is free. A failure ends the script.
beside() {
	while [ "$(jobs -rp | wc -l)" -ge "${VARIANTS_JOBS:-1}" ]; do wait -n; done
	"$@" &
}

# rest: waits for all background commands.
rest() {
	while [ -n "$(jobs -p)" ]; do wait -n; done
}

# run NAME SEED DATA TEXT: trains and examines.
run() {
	trained "$@"
	examined "$1"
}

# recipe NAME LABELS HIDDEN: trains a classifier, uses its scores as labels, trains a regression.
recipe() {
	local scored=$2/scored-$1.parquet
	run "$1-classifier" 1 "train: $2/table.parquet" "head: {hidden: $3, kind: classification, values: [0, 0.5, 1]}
loss: {text: 0, score: 10}"
	[ -e "$out/$scored" ] ||
		"$bin/score" batch --scorer "$out/$1-classifier/scorer" --in "$out/$2/table.parquet" --out "$out/$scored"
	run "$1-regression" 1 "train: $scored, columns: {label: score01}" "head: {hidden: $3}
loss: {text: 0, score: 100}"
}

case ${1:-} in
adiee)
	prepared
	beside recipe full labels '[256, 16]'
	beside run direct 1 'train: labels/table.parquet' $'head: {hidden: [256, 16]}\nloss: {text: 0, score: 100}'
	beside recipe linear labels '[]'
	labelled labels-edits edits
	beside recipe edits labels-edits '[256, 16]'
	labelled labels-chains chains
	beside recipe chains labels-chains '[256, 16]'
	rest
	;;
losses)
	shift
	prepared
	[ $# -gt 0 ] || set -- 1 2 3
	cat >"$out/musigma.yaml" <<-END
		format: 2
		backbone: $PWD/backbones/tiny
		pair_size: [64, 64]
		passes:
		  - {pictures: [frames], prompt: 'is a part of it done? [INSTRUCTION]', position: last, heads: [overall]}
		heads: {overall: {hidden: [64], outputs: mu_sigma}}
		score_range: [0, 10]
	END
	for seed in "$@"; do
		while IFS='|' read -r name head terms; do
			beside run "$name-$seed" "$seed" 'train: labels/table.parquet, sampling: whole_groups' "$head
losses: [$terms]"
		done <<-'END'
			classes|head: {hidden: [64], kind: classification, values: [0, 0.25, 0.5, 0.75, 1]}|{kind: classes}
			l1|head: {hidden: [64]}|{kind: l1, weight: 10}
			bradley_terry|head: {hidden: [64]}|{kind: bradley_terry}
			plackett_luce|head: {hidden: [64]}|{kind: plackett_luce}
			musigma|scorer: musigma.yaml|{kind: thurstone}
			bradley_terry+l1|head: {hidden: [64]}|{kind: bradley_terry}, {kind: l1, weight: 10}
			musigma+gaussian|scorer: musigma.yaml|{kind: thurstone}, {kind: gaussian}
		END
	done
	rest
	;;
table)
	printf '| run | seeds | Spearman | alive | pairs |\n|---|---|---|---|---|\n'
	for f in "$out"/*.exam.json; do
		[ -e "$f" ] || continue
		name=$(basename "$f" .exam.json) row=
		for key in spearman alive pair_accuracy; do
			row+=" $(grep -oE "\"$key\": ?[-0-9.]+" "$f" | head -1 | sed 's/.*://')"
		done
		echo "${name%-[0-9]} $row"
	done | awk '{
		n[$1]++
		for (i = 2; i <= 4; i++) { sum[$1, i] += $i; squares[$1, i] += $i * $i }
	} END {
		for (r in n) {
			line = "| " r " | " n[r] " |"
			for (i = 2; i <= 4; i++) {
				mean = sum[r, i] / n[r]
				line = line sprintf(" %.3f", mean)
				if (n[r] > 1) {
					rest = squares[r, i] - n[r] * mean * mean
					line = line sprintf(" (%.3f)", sqrt((rest > 0 ? rest : 0) / (n[r] - 1)))
				}
				line = line " |"
			}
			print line
		}
	}' | sort
	;;
*)
	sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
