#!/usr/bin/env bash
# make bench: installs PyTorch, transformers and PEFT into build/venv and compares Assay with them.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup/python.sh
build/venv/bin/python lab/bench/bench.py --python build/venv/bin/python "$@"
if [ $# -eq 0 ]; then
  build/venv/bin/python lab/bench/pictures.py
  build/venv/bin/python lab/bench/generation.py
  build/venv/bin/python lab/bench/packed.py build/bench/one-billion build/bench/one-billion-4
  if hash mpirun mpicc pkg-config 2>/dev/null; then
    make mpi
    build/venv/bin/python lab/bench/ranks.py
  else
    echo "SKIPPED: MPI is not installed (libopenmpi-dev, openmpi-bin): training with 1 and 2 ranks was NOT measured"
  fi
fi
