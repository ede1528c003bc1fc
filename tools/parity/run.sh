#!/usr/bin/env bash
# make parity: checks from the Python side what the commands write and serve, with PyTorch, transformers, PEFT, datasets and
# TensorBoard in build/venv; the page is tried in Chromium if there is one. Gradients are held to ONNX's own cases and to what
# PyTorch exports. make parity runs all of it; with arguments (--only NAME,...) this runs those of check.py alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup/python.sh
rm -rf build/parity
mkdir -p build/parity
build/venv/bin/python tools/parity/check.py --work build/parity "$@"
[ $# -eq 0 ] || exit 0
for suite in onnx_cases torch_exports; do
	build/venv/bin/python -W ignore "tools/parity/$suite.py" --work "build/parity/$suite"
done
