#!/usr/bin/env bash
# make parity: checks from the Python side what the commands write and serve, with PyTorch, transformers, PEFT, datasets and
# TensorBoard in build/venv, MLflow and wandb in build/trackers (1 GB); the page is tried in Chromium if there is one.
# Gradients are held to ONNX's own cases and to what PyTorch exports. ASSAY_TRAINERS=DIR, with checkouts of diffusers,
# ai-toolkit and musubi-tuner, has labels loaded by these projects' own code; with checkouts of Flow-Factory and others,
# edits are scored through their own clients (peers.py). make parity runs all of it; with arguments (--only NAME,...)
# this runs those of check.py alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup/python.sh
rm -rf build/parity
mkdir -p build/parity
if [ $# -gt 0 ]; then
	exec build/venv/bin/python tools/parity/check.py --work build/parity "$@"
fi
# Two at a time: each is one thread of Python, which mostly waits for one of a command.
export OMP_NUM_THREADS=1
build/venv/bin/python tools/parity/check.py --work build/parity &
check=$!
suites() {
	for suite in onnx_cases torch_exports; do
		build/venv/bin/python -W ignore "tools/parity/$suite.py" --work "build/parity/$suite"
	done
}
suites >build/parity/suites.log 2>&1 &
suites=$!
failed=0
wait $check || failed=1
wait $suites || failed=1
cat build/parity/suites.log
exit $failed
