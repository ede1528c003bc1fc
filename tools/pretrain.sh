#!/usr/bin/env bash
# make pretrain: the small checkpoints in backbones/, anew. Takes hours; Ctrl-C saves, and the same command goes on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build/bin
go build -o build/bin/pretrain ./tools/pretrain
for kind in clip dino backbone; do
	printf '\n== %s\n' $kind
	[ -e build/pretrain/$kind/scorer ] || build/bin/pretrain $kind --photos examples/photos --held tissue,rocket --seed 1 --out build/pretrain/$kind
	out=backbones/tiny-$kind
	[ $kind != backbone ] || out=backbones/tiny
	build/bin/pretrain publish $kind --run build/pretrain/$kind --out $out
done
