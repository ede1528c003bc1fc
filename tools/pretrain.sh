#!/usr/bin/env bash
# make pretrain: the small checkpoints in backbones/, anew. Takes hours; Ctrl-C saves, and the same command goes on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build/bin
go build -o build/bin/pretrain ./tools/pretrain
# What is measured of the results besides goes onto their cards with pretrain publish --notes FILE.

# checkpoint KIND FOLDER FLAG...: the number of threads is part of the recipe, since sums are cut by it.
checkpoint() {
	local kind=$1 out=$2 run=build/pretrain/$1
	shift 2
	printf '\n== %s\n' "$out"
	[ -e $run/scorer ] || build/bin/pretrain $kind --photos examples/photos --held tissue,rocket --seed 1 --out $run "$@"
	build/bin/pretrain publish $kind --run $run --out "$out"
}
checkpoint clip backbones/tiny-clip --steps 2400 --threads 1
checkpoint dino backbones/tiny-dino --steps 800 --threads 1
checkpoint backbone backbones/tiny --steps 8000 --threads 2
