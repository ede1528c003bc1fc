#!/usr/bin/env bash
# Installs the Python side that bench and parity compare with into build/venv. Nothing here is needed to build, test or run.
set -euo pipefail
cd "$(dirname "$0")/../.."
# requirements.txt holds what `pip freeze` says of torch, transformers, peft, datasets, tensorboard, onnx, onnxruntime,
# onnxscript and accelerate, less triton: a gigabyte that PyTorch wants on a GPU only.
want=$(cat tools/setup/requirements.txt)
[ -e build/venv/installed ] && [ "$(cat build/venv/installed)" = "$want" ] && exit 0
command -v python3 >/dev/null || { echo "error: python3 is missing (Debian: python3 python3-venv)" >&2; exit 1; }
free=$(df -Pm . | awk 'NR == 2 { print $4 }')
if [ "$free" -lt 7000 ]; then
	echo "error: the Python side takes 7 GB of disk, and $free MB are free here: make room, or do without bench and parity" >&2
	exit 1
fi
echo "installing PyTorch, transformers, PEFT and ONNX into build/venv"
python3 -m venv build/venv || { echo "error: python3 cannot make virtual environments (Debian: python3-venv)" >&2; exit 1; }
install() { build/venv/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps "$@"; }
# PyTorch and CUDA's libraries one by one: pip holds every wheel of a call on disk until its end, three gigabytes of them.
large='^(torch|nvidia-|cuda-)'
grep -E "$large" tools/setup/requirements.txt | while read -r wheel; do install "$wheel" </dev/null; done
grep -vE "$large" tools/setup/requirements.txt >build/venv/small.txt
install -r build/venv/small.txt
printf '%s\n' "$want" >build/venv/installed
