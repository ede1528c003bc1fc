#!/usr/bin/env bash
# make demo: ADIEE's pipeline on the miniature world of edits (docs/miniature.md): data from photographs, labels from rules, a
# scorer, scores of edits of held-out photographs, a report. A second call resumes where the first one stopped.
#
#   DEMO=short        little data and few steps: checks that everything runs, its figures mean nothing
#   DEMO=editor       tune a small editor with a scorer instead (reproduce/editor/run.sh)
#   DEMO_CAPTIONS=world   labels from the miniature world's own captions, in build/demo-world, instead of those of a tiny
#                     model; the model always captions the exam, for comparison
#   DEMO_PHOTOS=DIR   examine the scorer on all photographs in that folder instead of the held-out ones
#   DEMO_BIN, DEMO_LAB   folders of the commands and of lab's programs, if not make's
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ "${DEMO:-}" != editor ] || exec reproduce/editor/run.sh
bin=${DEMO_BIN:-bin}            # train, score, label
lab=${DEMO_LAB:-build/lab}      # miniature, demo
held=tissue,rocket
case ${DEMO:-full} in
full) out=build/demo configs=examples/miniature short=false instructions=2000 chains=1000 exam_instructions=280 ;;
short) out=build/demo-short configs=build/demo-short short=true instructions=56 chains=12 exam_instructions=28 ;;
*) echo "error: DEMO=$DEMO: want short, editor, or nothing" >&2; exit 2 ;;
esac
world=false
case ${DEMO_CAPTIONS:-model} in
model) ;;
world) out=$out-world configs=$out world=true ;;
*) echo "error: DEMO_CAPTIONS=$DEMO_CAPTIONS: want model, world, or nothing" >&2; exit 2 ;;
esac
mkdir -p "$out"

. lab/demo/made.sh

# Configurations of the other variants differ in the data folder, the length of a short run, and the captions.
if $short || $world; then
	change=(-e 's#\.\./\.\./build/demo/#./#g')
	! $short || change+=(-e 's/^(epochs|steps): .*/steps: 20/')
	! $world || change+=(-e 's#(path: )\./captioned/edits#\1./data/edits#')
	cp examples/miniature/captions-prompts.yaml "$out/"
	for c in captions label scorer; do
		sed -E "${change[@]}" examples/miniature/$c.yaml >"$out/new"
		cmp -s "$out/new" "$out/$c.yaml" || cp "$out/new" "$out/$c.yaml"
		rm "$out/new"
	done
fi

# The exam, and the folder of its report. The folder for DEMO_PHOTOS is named after a checksum of its contents.
exam=$out/exam report=$out
examined=(--photos examples/photos --only $held)
if [ -n "${DEMO_PHOTOS:-}" ]; then
	[ -d "$DEMO_PHOTOS" ] || { echo "error: DEMO_PHOTOS=$DEMO_PHOTOS: no such folder" >&2; exit 2; }
	report=$out/photos-$(cd "$DEMO_PHOTOS" && find . -maxdepth 1 -type f -exec cksum {} + | sort | cksum | cut -d ' ' -f 1)
	exam=$report/exam
	examined=(--photos "$DEMO_PHOTOS")
fi
clip=backbones/tiny-clip dino=backbones/tiny-dino scorer=$out/run/scorer

# written CONFIG: captions from a model. Rows without one (exit code 1) have a caption_error, and the report counts them.
written() {
	local code=0
	"$bin/label" captions --config "$1" || code=$?
	[ $code = 0 ] || { [ $code = 1 ] && [ -e "$exam/captioned.jsonl" ]; } || return $code
}

made "$out/data" "data of photographs" -- \
	"$lab/miniature" --photos examples/photos --held $held --seed 1 --instructions $instructions --chains $chains --pictures embed --out "$out/data"
edits=$out/data
if ! $world; then
	mkdir -p "$out/captioned"
	edits=$out/captioned/edits.parquet
	made "$edits" "captions by a small model" "$out/data" "$configs/captions.yaml" "$configs/captions-prompts.yaml" backbones/tiny/* \
		backbones/tiny-captions/* -- "$bin/label" captions --config "$configs/captions.yaml"
fi
made "$out/labels/table.parquet" "labels by ADIEE's rules" "$edits" "$configs/label.yaml" $clip/* $dino/* -- \
	"$bin/label" --config "$configs/label.yaml"
made "$scorer" "training" "$out/labels/table.parquet" "$configs/scorer.yaml" backbones/tiny/* -- \
	"$bin/train" --config "$configs/scorer.yaml"
made "$exam" "exam" -- \
	"$lab/miniature" "${examined[@]}" --exam --seed 777 --instructions $exam_instructions --out "$exam"
made "$exam/scores.jsonl" "scores" "$exam/edits.jsonl" "$scorer" -- \
	"$bin/score" batch --scorer "$scorer" --in "$exam/edits.jsonl" --out "$exam/scores.jsonl"
made "$exam/shuffled.jsonl" "instructions of other tasks" "$exam/edits.jsonl" -- \
	"$lab/demo" shuffle --in "$exam/edits.jsonl" --out "$exam/shuffled.jsonl" --seed 1
made "$exam/shuffled-scores.jsonl" "scores with these" "$exam/shuffled.jsonl" "$scorer" -- \
	"$bin/score" batch --scorer "$scorer" --in "$exam/shuffled.jsonl" --out "$exam/shuffled-scores.jsonl"
made "$exam/similarities.jsonl" "similarities to compare with" "$exam/edits.jsonl" $clip/* $dino/* -- \
	"$bin/label" similarities --clip $clip --dino $dino --cache "$out/labels/cache" --in "$exam/edits.jsonl" --out "$exam/similarities.jsonl"
made "$exam/source-similarities.jsonl" "similarities to the source" "$exam/edits.jsonl" $clip/* $dino/* -- \
	"$bin/label" similarities --clip $clip --dino $dino --cache "$out/labels/cache" --columns target=source --in "$exam/edits.jsonl" --out "$exam/source-similarities.jsonl"
absolute=$(cd "$exam" && pwd)
sed -E -e "s#^in: .*#in: $absolute/edits.jsonl#" -e "s#^out: .*#out: $absolute/captioned.jsonl#" -e "s#^store: .*#store: $PWD/$out/answers#" \
	-e "s#\.\./\.\./backbones#$PWD/backbones#g" -e "s#^prompts: #&$PWD/examples/miniature/#" examples/miniature/captions.yaml >"$report/new"
cmp -s "$report/new" "$report/exam-captions.yaml" || cp "$report/new" "$report/exam-captions.yaml"
rm "$report/new"
made "$exam/captioned.jsonl" "captions by a small model, to compare" "$exam/edits.jsonl" "$report/exam-captions.yaml" backbones/tiny-captions/* -- \
	written "$report/exam-captions.yaml"
made "$exam/written-similarities.jsonl" "CLIP-D with these" "$exam/captioned.jsonl" $clip/* -- \
	"$bin/label" similarities --clip $clip --cache "$out/labels/cache" --in "$exam/captioned.jsonl" --out "$exam/written-similarities.jsonl"
"$lab/demo" report --captions --trained --data "$out/data" --labels "$out/labels/table.parquet" --exam "$exam" --scorer "$scorer" --times "$out/times.tsv" \
	--out "$report" --short=$short
