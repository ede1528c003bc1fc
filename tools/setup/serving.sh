#!/usr/bin/env bash
# Installs the packages that `transformers serve` needs in addition to build/venv into build/serving. They are not in
# build/venv, where torchvision would change how transformers prepares pictures.
set -euo pipefail
cd "$(dirname "$0")/../.."
want=$(cat tools/setup/serving.txt)
[ -e build/serving/installed ] && [ "$(cat build/serving/installed)" = "$want" ] && exit 0
echo "installing the packages for transformers serve into build/serving"
python=build/venv/bin/python
"$python" -m venv build/serving
site=$(cd build/serving && echo lib/python*/site-packages)
echo "../../../../venv/$site" >"build/serving/$site/base.pth" # relative, as checkouts are moved
build/serving/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps "$(grep torchvision tools/setup/serving.txt)"
build/serving/bin/pip install --quiet --disable-pip-version-check --no-cache-dir $(grep -v torchvision tools/setup/serving.txt)
printf '%s\n' "$want" >build/serving/installed
