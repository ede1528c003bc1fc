#!/usr/bin/env bash
# Trains a recipe of ADIEE (README.md): the classifier, its scores as labels, the regression on them. A second call goes on where
# the first one stopped.
#
#   examples/adiee/run.sh full
#
#   ADIEE_BIN   folder of the commands, if other than bin
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
name=${1:?want the name of a recipe: $(ls -d examples/adiee/*/ | xargs -n 1 basename | tr '\n' ' ')}
from=examples/adiee/$name run=runs/adiee/$name bin=${ADIEE_BIN:-bin}
[ -d "$from" ] || { echo "error: there is no $from" >&2; exit 2; }
if [ -e "$from/classifier.yaml" ]; then
	"$bin/train" --config "$from/classifier.yaml"
fi
# table FILE: the training table of a configuration; scores lie beside it, since it names pictures relative to itself.
table() { sed -n 's/^  train: \([^ ]*\).*/\1/p' "$1"; }
if [ -e "$from/classifier.yaml" ] && [ -e "$from/regression.yaml" ] && [ ! -e "$from/$(table "$from/regression.yaml")" ]; then
	"$bin/score" batch --scorer "$run/classifier/scorer" --in "$from/$(table "$from/classifier.yaml")" \
		--out "$from/$(table "$from/regression.yaml")"
fi
if [ -e "$from/regression.yaml" ]; then
	"$bin/train" --config "$from/regression.yaml"
fi
