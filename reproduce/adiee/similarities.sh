#!/usr/bin/env bash
# The similarities of ADIEE's Tables 1 and 2 on one benchmark: reproduce/adiee/similarities.sh CHAPTER BENCHMARK SIMILARITY... -- FLAG...
set -euo pipefail
chapter=$1 benchmark=$2
shift 2
kinds=()
while [ "$1" != -- ]; do
	kinds+=("$1")
	shift
done
shift
for kind in "${kinds[@]}"; do
	score bench "$benchmark" --baseline "$kind" --clip backbones/clip-vit-base-patch16 --dino backbones/dinov2-base \
		--out "runs/adiee/$chapter/$benchmark/$kind" "$@"
done
