#!/usr/bin/env bash
# make parity: checks from the Python side what the commands write and serve, with PyTorch, transformers, PEFT, datasets and
# TensorBoard in build/venv; the page is tried in Chromium if there is one.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup/python.sh
rm -rf build/parity
mkdir -p build/parity
exec build/venv/bin/python tools/parity/check.py --work build/parity "$@"
