#!/usr/bin/env bash
# A noisy judge and a chain of scorers distilled into one pass in the miniature world (README.md). A second call resumes.
#
#   DISTIL_OUT=DIR       folder to work in (build/distil)
#   DISTIL_SHORT=1       little data and few steps: everything runs, the figures mean nothing
#   DISTIL_RESULTS=DIR   folder of small.md (reproduce/distil; of a short run DISTIL_OUT)
#   DISTIL_SETS='240 70' instructions to learn from and of the exam
#   DEMO_BIN, DEMO_LAB   folders of the commands and of lab's programs, if not make's
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${DEMO_BIN:-bin}       # score
lab=${DEMO_LAB:-build/lab} # miniature
out=${DISTIL_OUT:-build/distil}
results=${DISTIL_RESULTS:-reproduce/distil}
sets=${DISTIL_SETS:-240 70}
if [ -n "${DISTIL_SHORT:-}" ]; then
	sets='14 4'
	results=${DISTIL_RESULTS:-$out}
fi
read -r instructions exam <<<"$sets"
mkdir -p "$out"
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
distil() { # NAME FLAGS...: a teacher's report
	local name=$1
	shift
	"$bin/score" distil --config reproduce/distil/student.yaml --out "$out/$name" --truth "$out/exam/truth.jsonl" \
		--truth-column degree --by kind,family "$@" >"$out/$name.txt"
}
distil judge --ratings --in "$out/train-rated.jsonl" --held-out "$out/exam-rated.jsonl"
for question in 'is it done?' 'is a part of it done?'; do # what the backbone was pretrained to answer
	name=$(tr -cd a-z <<<"$question")
	[ -d "$out/$name" ] || {
		printf '%s [INSTRUCTION]' "$question" >"$out/$name.txt"
		"$bin/score" import choices --base backbones/tiny --prompts "$out/$name.txt" --choices yes,no --values 1,0 --pictures frames \
			--out "$out/$name"
	}
done
distil scorers --scorer backbones/tiny-scorer --scorer "$out/isitdone" --scorer "$out/isapartofitdone" \
	--in "$out/train/edits.jsonl" --held-out "$out/exam/edits.jsonl"
{
	cat <<-END
		# A judge distilled, in the miniature world

		Written by \`reproduce/distil/run.sh\`: $instructions instructions to learn from, an exam of $exam on other photographs, one seed.

	END
	for name in judge scorers; do
		printf '## %s\n\n' "$name"
		grep -v '^scorer: ' "$out/$name.txt"
	done
} >"$results/small.md.new"
mv "$results/small.md.new" "$results/small.md"
