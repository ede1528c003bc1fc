#!/usr/bin/env bash
# Trains a recipe of ADIEE on its labels (README.md): the classifier, its scores as labels, and the regression on them, as far as the
# recipe has them. It runs the commands of the recipe's chapter of the reproduction book. A second call resumes.
#
#   examples/adiee/train.sh full            results are in runs/adiee/full
#   examples/adiee/train.sh full --small    labels and training in the miniature world, and the chapter's small.md
#
#   REPRODUCE_BIN   folder of train and score, to skip building them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
name=${1:-}
if [ -z "$name" ] || [ ! -e "reproduce/adiee/$name/README.md" ]; then
	echo "error: no recipe \"$name\"; there are: $(ls -d reproduce/adiee/*/regression.yaml reproduce/adiee/*/classifier.yaml |
		xargs -n 1 dirname | xargs -n 1 basename | sort -u | tr '\n' ' ')" >&2
	exit 2
fi
case ${2:-} in
'') exec reproduce/run.sh --train "adiee/$name" ;;
--small) exec reproduce/run.sh --small "adiee/$name" ;;
*) echo "error: $2: want --small, or nothing" >&2; exit 2 ;;
esac
