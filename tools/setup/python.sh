#!/usr/bin/env bash
# Installs the Python packages that bench and parity compare with into build/venv. They are not needed to build, test or run.
set -euo pipefail
cd "$(dirname "$0")/../.."
# requirements.txt is the output of `pip freeze` for torch, transformers, peft, datasets, tensorboard, onnx, onnxruntime,
# onnxscript and accelerate, without triton: a gigabyte that PyTorch only needs on a GPU.
want=$(cat tools/setup/requirements.txt)
[ -e build/venv/installed ] && [ "$(cat build/venv/installed)" = "$want" ] && exit 0
command -v python3 >/dev/null || { echo "error: python3 is missing (Debian: python3 python3-venv)" >&2; exit 1; }
free=$(df -Pm . | awk 'NR == 2 { print $4 }')
if [ "$free" -lt 7000 ]; then
	echo "error: the Python packages take 7 GB of disk, but only $free MB are free: make room, or skip bench and parity" >&2
	exit 1
fi
echo "installing PyTorch, transformers, PEFT and ONNX into build/venv"
python3 -m venv build/venv || { echo "error: python3 cannot make virtual environments (Debian: python3-venv)" >&2; exit 1; }
install() { build/venv/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps "$@"; }
# PyTorch and CUDA's libraries one by one: pip keeps all wheels of a call, three gigabytes, on disk until its end.
large='^(torch|nvidia-|cuda-)'
grep -E "$large" tools/setup/requirements.txt | while read -r wheel; do install "$wheel" </dev/null; done
grep -vE "$large" tools/setup/requirements.txt >build/venv/small.txt
install -r build/venv/small.txt
printf '%s\n' "$want" >build/venv/installed
