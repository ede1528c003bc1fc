#!/usr/bin/env bash
# make demo: data from photographs, a small backbone, training, scoring of photographs never trained on, a report.
# DEMO=short (make demo DEMO=short) does the same with little data and few steps.
set -euo pipefail
cd "$(dirname "$0")/.."
form=${1:-full}
out=build/demo
config=examples/demo.yaml
crops=100
say() { printf '\n== %s\n' "$*"; }

if [ "$form" = short ]; then
	out=build/demo-short
	crops=12
	mkdir -p "$out"
	config=$out/demo.yaml
	sed -e 's#\.\./build/demo/#./#g' -e 's/^steps: .*/steps: 60/' examples/demo.yaml >"$config"
fi
mkdir -p build/bin
go build -o build/bin/demo ./tools/demo

say "edits of the photographs in examples/photos, with known degrees of success"
[ -e "$out/data/held.jsonl" ] || build/bin/demo make --out "$out/data" --crops "$crops"
say "a fresh small LLaVA-NeXT checkpoint (train init)"
[ -e "$out/backbone" ] || bin/train init --out "$out/backbone" --sizes examples/init/demo.yaml --text "$out/data/texts.txt" --seed 1
say "training (train --config $config)"
bin/train --config "$config"
say "scoring photographs never trained on (score batch)"
bin/score batch --scorer "$out/run/scorer" --in "$out/data/held.jsonl" --out "$out/data/held-scores.jsonl"
say "result"
build/bin/demo report --scores "$out/data/held-scores.jsonl" | tee "$out/report.txt"
cat <<END

data         $out/data (train.jsonl, held.jsonl, pictures/)
backbone     $out/backbone
scorer       $out/run/scorer
metrics      $out/run/metrics.jsonl; TensorBoard: tensorboard --logdir $out/run
scores       $out/data/held-scores.jsonl
one pair     bin/score pair --scorer $out/run/scorer --source A.png --edit B.png --instruction "make it brighter"
again        rm -r $out
END
