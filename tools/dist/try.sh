#!/usr/bin/env bash
# Installs the wheel in dist/ with pip into a new environment, and scores with what it brings, away from the checkout.
set -euo pipefail
cd "$(dirname "$0")/../.."
wheel=$(echo "$PWD"/dist/*.whl)
archive=$(echo "$PWD"/dist/*.tar.gz)
(cd dist && sha256sum --quiet -c SHA256SUMS)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check "$wheel"
unset ASSAY_ONNXRUNTIME LD_LIBRARY_PATH CGO_LDFLAGS
export ASSAY_STORE=$work/store
environment/bin/assay version
environment/bin/assay demo
for help in "assay help" "assay train --help" "assay score --help" "score --help" "train --help" "label --help"; do
	environment/bin/$help >/dev/null || { echo "error: $help fails" >&2; exit 1; }
done
environment/bin/python -c 'import assay_reward; assay_reward.Client'
tar -xf "$archive"
demo=$(echo environment/lib/python3*/site-packages/assay_reward/demo)
pair() { "$1" score pair --scorer "$demo/tiny-scorer" --source "$demo/coffee.png" --edit "$demo/coffee_blur.png" --instruction "blur the picture"; }
a=$(pair environment/bin/assay) b=$(pair assay-*/bin/assay)
[ "$a" = "8.2052 (on 0 to 10)" ] && [ "$a" = "$b" ] || { echo "error: scores $a and $b, want 8.2052 (on 0 to 10)" >&2; exit 1; }
echo "tried: the wheel and the archive score $a"
