#!/usr/bin/env bash
# What a GPU is needed for, in calls of about ten minutes: tools/gpu/ten.sh BIN FIXTURES OUT [1|2|3|4], arguments as for
# check.py, from the root of the repository. Rows are written into OUT as they are measured. It stops at the first wrong
# number. For a machine without a network see bundle.py.
#   1. train doctor: fused operators compared with the CPU's; speed and memory of 1.1 B beside PyTorch with Liger
#   2. all ways of training and scores of all families compared with the CPU; judges; a server that sleeps and wakes
#   3. fused and plain: losses; 6.5 B: speed and memory; scoring; rewards of answers
#   4. plain float32, recomputation, packed weights; generation
set -euo pipefail
bin=$1 fixtures=$2 out=$3 device=${DEVICE:-cuda:0}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,clocks.max.sm --format=csv | tee "$out/device.csv"
part() {
	echo "=== $* ($SECONDS s)"
	python3 -B "$here/check.py" "$bin" "$fixtures" "$out" "$1"
	! grep -n FAILED "$out/report.md"
}
case ${4:-1} in
1)
	[ ! -x build/lab/device ] || timeout 120 build/lab/device --device "$device" --out "$out/profile.json" | tee "$out/profile.txt"
	"$bin/train" doctor --device "$device" --out "$out/doctor.json" | tee "$out/doctor.txt"
	for name in ours peers; do part $name; done
	;;
2) for name in scores gradients ways judges serving stop; do part $name; done ;;
3) for name in fused seven; do part $name; done && SCORERS='size-6*' part pairs && part answers ;;
4) for name in sizes generation; do part $name; done ;;
esac
echo "=== done after $SECONDS s"
