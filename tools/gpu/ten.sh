#!/usr/bin/env bash
# Ten minutes with a GPU: tools/gpu/ten.sh BIN FIXTURES OUT, arguments as for check.py, from the root of the repository. Rows
# are written into OUT as they are measured. It stops at the first wrong number.
#   1. lab/device, if it was built: placement, and parts of training compared with the CPU
#   2. train doctor: fused operators compared with the CPU's, then traces of training in each type and with each kind of kernels
#   3. speed and memory, plain and fused, compared with PyTorch; scoring
set -euo pipefail
bin=$1 fixtures=$2 out=$3 device=${DEVICE:-cuda:0}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv | tee "$out/device.csv"
part() {
	echo "=== $* ($SECONDS s)"
	python3 -B "$here/check.py" "$bin" "$fixtures" "$out" "$1"
	! grep -n FAILED "$out/report.md"
}
[ ! -x build/lab/device ] || timeout 120 build/lab/device --device "$device" --out "$out/profile.json" | tee "$out/profile.txt"
"$bin/train" doctor --device "$device" --out "$out/doctor.json" | tee "$out/doctor.txt"
part fused
part sizes
SCORERS='size-1*' part pairs
echo "=== done after $SECONDS s"
