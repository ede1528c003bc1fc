#!/usr/bin/env bash
# Installs what `transformers serve` wants besides build/venv into build/serving. It stays out of build/venv, where
# torchvision would change how transformers prepares pictures.
set -euo pipefail
cd "$(dirname "$0")/../.."
want=$(cat tools/setup/serving.txt)
[ -e build/serving/installed ] && [ "$(cat build/serving/installed)" = "$want" ] && exit 0
echo "installing what transformers serve wants into build/serving"
python=build/venv/bin/python
"$python" -m venv build/serving
"$python" -c 'import site; print(site.getsitepackages()[0])' >"$(build/serving/bin/python -c 'import site; print(site.getsitepackages()[0])')/base.pth"
build/serving/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps "$(grep torchvision tools/setup/serving.txt)"
build/serving/bin/pip install --quiet --disable-pip-version-check --no-cache-dir $(grep -v torchvision tools/setup/serving.txt)
printf '%s\n' "$want" >build/serving/installed
