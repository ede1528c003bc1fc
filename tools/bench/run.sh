#!/usr/bin/env bash
# make bench: installs PyTorch, transformers and PEFT into build/venv and measures beside them.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup/python.sh
mkdir -p build/bin
go build -o build/bin/bench ./tools/bench
go build -o build/bin/bench-encoders ./tools/bench/encoders
go build -o build/bin/bench-pictures ./tools/bench/pictures
build/venv/bin/python tools/bench/bench.py --python build/venv/bin/python "$@"
[ $# -gt 0 ] || build/venv/bin/python tools/bench/pictures.py
