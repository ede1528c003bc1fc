#!/usr/bin/env bash
# make bench: installs PyTorch, transformers and PEFT into build/venv and measures beside them.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup/python.sh
go build -o build/bin/bench ./tools/bench
exec build/venv/bin/python tools/bench/bench.py --python build/venv/bin/python "$@"
