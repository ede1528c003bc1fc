#!/usr/bin/env bash
# make pretrain: remakes the small checkpoints in backbones/. Takes hours; Ctrl-C saves, and the same command resumes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# Further measurements of the results go onto their cards with pretrain publish --notes FILE.

# checkpoint KIND FOLDER FLAG...: the number of threads is part of the recipe, since it determines how sums are split.
checkpoint() {
	local kind=$1 out=$2 run=build/pretrain/$1
	shift 2
	printf '\n== %s\n' "$out"
	[ -e $run/scorer ] || build/lab/pretrain $kind --photos examples/photos --held tissue,rocket --seed 1 --out $run "$@"
	build/lab/pretrain publish $kind --run $run --out "$out"
}
checkpoint clip backbones/tiny-clip --steps 2400 --threads 1
checkpoint dino backbones/tiny-dino --steps 800 --threads 1
checkpoint backbone backbones/tiny --steps 8000 --threads 2

# The caption model: the miniature world's own captions as conversations, and an adapter trained on them.
printf '\n== backbones/tiny-captions\n'
captions=build/pretrain/captions
[ -e $captions/data ] || build/lab/miniature --photos examples/photos --held tissue,rocket --seed 11 --instructions 4000 --chains 0 \
	--out $captions/data
printf 'in: data/edits.jsonl\nout: none.jsonl\nprompts: %s\nmodel: {backbone: %s}\n' "$PWD/examples/miniature/captions-prompts.yaml" \
	"$PWD/backbones/tiny" >$captions/examples.yaml
[ -e $captions/conversations.jsonl ] || bin/label captions --config $captions/examples.yaml --examples $captions/conversations.jsonl
bin/train --config examples/miniature/caption-model.yaml
mkdir -p backbones/tiny-captions
cp $captions/run/adapter/* backbones/tiny-captions/
sed -i 's#"base_model_name_or_path": *"[^"]*"#"base_model_name_or_path": "../tiny"#' backbones/tiny-captions/adapter_config.json
