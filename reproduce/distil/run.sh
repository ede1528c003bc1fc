#!/usr/bin/env bash
# A noisy judge, a chain of scorers and a text judge, distilled into one pass in the miniature world, and an ensemble of four
# students (README.md). A second call resumes.
#
#   DISTIL_OUT=DIR       working folder (build/distil)
#   DISTIL_SHORT=1       little data and few steps: checks that everything runs, its figures mean nothing
#   DISTIL_RESULTS=DIR   folder of small.md (reproduce/distil; for a short run DISTIL_OUT)
#   DISTIL_SETS='240 70' instructions for training and for the exam
#   DEMO_BIN, DEMO_LAB   folders of the commands and of lab's programs, if not make's
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${DEMO_BIN:-bin}       # score
lab=${DEMO_LAB:-build/lab} # miniature
out=${DISTIL_OUT:-build/distil}
results=${DISTIL_RESULTS:-reproduce/distil}
sets=${DISTIL_SETS:-240 70}
passes=100 # of the text judge
if [ -n "${DISTIL_SHORT:-}" ]; then
	sets='14 4'
	passes=2
	results=${DISTIL_RESULTS:-$out}
fi
read -r instructions exam <<<"$sets"
mkdir -p "$out"
out=$(cd "$out" && pwd)
. lab/demo/made.sh

held=tissue,rocket
made "$out/train" "edits to learn from" -- \
	"$lab/miniature" --photos examples/photos --held $held --seed 21 --instructions "$instructions" --chains 0 --out "$out/train"
made "$out/exam" "exam" -- \
	"$lab/miniature" --photos examples/photos --only $held --exam --seed 777 --instructions "$exam" --out "$out/exam"
for set in train exam; do
	made "$out/$set-rated.jsonl" "ratings of a noisy judge" -- \
		"$lab/miniature" rate --in "$out/$set/edits.jsonl" --truth "$out/$set/truth.jsonl" --passes 4 --noise 0.3 --out "$out/$set-rated.jsonl"
done
distil() { # NAME FLAGS...: the report for a teacher
	local name=$1
	shift
	"$bin/score" distil --config "${student:-reproduce/distil/student.yaml}" --out "$out/$name" --truth "$out/exam/truth.jsonl" \
		--truth-column degree --by kind,family "$@" >"$out/$name.txt"
}
distil judge --ratings --in "$out/train-rated.jsonl" --held-out "$out/exam-rated.jsonl"
for question in 'is it done?' 'is a part of it done?'; do # the questions of the backbone's pretraining
	name=$(tr -cd a-z <<<"$question")
	[ -d "$out/$name" ] || {
		printf '%s [INSTRUCTION]' "$question" >"$out/$name.txt"
		"$bin/score" import choices --base backbones/tiny --prompts "$out/$name.txt" --choices yes,no --values 1,0 --pictures frames \
			--out "$out/$name"
	}
done
distil scorers --scorer backbones/tiny-scorer --scorer "$out/isitdone" --scorer "$out/isapartofitdone" \
	--in "$out/train/edits.jsonl" --held-out "$out/exam/edits.jsonl"

# A text judge: many answers for one score.
distil asker --judge reproduce/distil/asker --backbone backbones/tiny --pictures frames --passes $passes \
	--device cpu --store "$out/answers" --in "$out/train/edits.jsonl" --held-out "$out/exam/edits.jsonl"

# One scorer from four students of the noisy judge that differ in their seeds.
members=(--scorer "$out/judge/run/scorer")
for seed in 2 3 4; do
	student=$out/student-$seed.yaml
	sed "s#\.\./\.\./#$PWD/#; s/^seed: .*/seed: $seed/" reproduce/distil/student.yaml >"$student"
	student=$student distil "judge-$seed" --ratings --in "$out/train-rated.jsonl" --held-out "$out/exam-rated.jsonl"
	members+=(--scorer "$out/judge-$seed/run/scorer")
done
rm -rf "$out/ensemble"
"$bin/train" ensemble "${members[@]}" --out "$out/ensemble"
python3 reproduce/distil/halves.py "$out/exam/edits.jsonl" "$out/exam/fit.jsonl" "$out/exam/measure.jsonl"
covered() { # NAME: coverage of sigma on the test half
	rm -f "$out/$1.jsonl"
	"$bin/score" batch --scorer "$out/ensemble" --device cpu --in "$out/exam/measure.jsonl" --out "$out/$1.jsonl" >&2
	python3 reproduce/distil/coverage.py "$out/$1.jsonl" "$out/exam/truth.jsonl" "$1"
}
{
	printf '| | edits | off the truth | mean sigma | within sigma | within 1.96 sigma |\n|---|---|---|---|---|---|\n'
	covered raw
	for coverage in 0.68 0.95; do
		"$bin/score" calibrate --scorer "$out/ensemble" --in "$out/exam/fit.jsonl" --labels "$out/exam/truth.jsonl" \
			--test "$out/exam/measure.jsonl" --test-labels "$out/exam/truth.jsonl" --columns label=degree --by source --coverage $coverage \
			--out "$out/calibration-$coverage" >"$out/calibration-$coverage.txt" || [ -n "${DISTIL_SHORT:-}" ] # too few pictures
	done
	covered calibrated
	printf '\n'
	for coverage in 0.68 0.95; do
		cat "$out/calibration-$coverage.txt"
	done
} >"$out/ensemble.txt"
{
	cat <<-END
		# A judge distilled, in the miniature world

		Written by \`reproduce/distil/run.sh\`: $instructions instructions to learn from, an exam of $exam on other photographs, one seed.

	END
	for name in judge scorers asker ensemble; do
		printf '## %s\n\n' "$name"
		grep -vE '^(scorer:|written to) ' "$out/$name.txt" # paths of this machine
	done
} >"$results/small.md.new"
mv "$results/small.md.new" "$results/small.md"
