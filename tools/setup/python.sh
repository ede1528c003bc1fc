#!/usr/bin/env bash
# Installs the Python side that bench and parity compare with into build/venv. Nothing here is needed to build, test or run.
set -euo pipefail
cd "$(dirname "$0")/../.."
want=$(cat tools/setup/requirements.txt)
[ -e build/venv/installed ] && [ "$(cat build/venv/installed)" = "$want" ] && exit 0
command -v python3 >/dev/null || { echo "error: python3 is missing (Debian: python3 python3-venv)" >&2; exit 1; }
echo "installing PyTorch, transformers, PEFT and ONNX into build/venv"
python3 -m venv build/venv || { echo "error: python3 cannot make virtual environments (Debian: python3-venv)" >&2; exit 1; }
build/venv/bin/pip install --quiet --disable-pip-version-check -r tools/setup/requirements.txt
printf '%s\n' "$want" >build/venv/installed
