#!/usr/bin/env bash
# make parity: checks from Python what the commands write and serve, with PyTorch, transformers, PEFT, datasets and
# TensorBoard in build/venv, MLflow and wandb in build/trackers (1 GB); the page is tested in Chromium if it is installed.
# Gradients are compared with ONNX's own test cases and with PyTorch's exports. ASSAY_TRAINERS=DIR, with checkouts of
# diffusers, ai-toolkit and musubi-tuner, loads labels with these projects' own code; with checkouts of Flow-Factory and
# others, edits are scored through their own clients (peers.py). make parity runs everything; with arguments (--only
# NAME,...) this only runs those checks of check.py.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup/python.sh
rm -rf build/parity
mkdir -p build/parity
if [ $# -gt 0 ]; then
	exec build/venv/bin/python tools/parity/check.py --work build/parity "$@"
fi
# Two at a time: each is one Python thread, which mostly waits for a command.
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
wait $suites || failed=1
cat build/parity/suites.log
wait $check || failed=1 # last, as CI shows the end of a log
exit $failed
