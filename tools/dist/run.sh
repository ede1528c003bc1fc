#!/usr/bin/env bash
# make dist: builds everything that is released into dist/, and tests it (tools/dist/try.sh). tools/dist/run.sh FOLDER builds
# into that folder, without the test. MACHINES="x86_64 aarch64" builds for both, if cargo has their targets.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-dist}
# Separate libraries, in build/MACHINE/lib: make setup compiles with this system's gcc for its own glibc.
set_up() { tools/setup/onnxruntime.sh "$1" && tools/setup/pictures.sh "$1" && tools/setup/deflate.sh "$1" && tools/setup/tokenizers.sh "$1" && tools/setup/ops.sh "$1"; }
tools/setup/modules.sh
tools/setup/zig.sh
tools/setup/kernels.sh
tools/dist/notices.sh
set_up "$(uname -m)"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
rm -rf "$out" build/dist/share
tools/dist/program.sh build/dist/pages "$(uname -m)" ./tools/dist/pages
build/dist/pages build/dist/share
for machine in ${MACHINES:-$(uname -m)}; do
	set_up "$machine"
	tools/dist/program.sh "build/dist/$machine/assay" "$machine"
	python3 tools/dist/pack.py --program "build/dist/$machine/assay" --machine "$machine" --pages build/dist/share --out "$out"
done
(cd "$out" && LC_ALL=C sha256sum -- assay* >SHA256SUMS)
[ $# -gt 0 ] || tools/dist/try.sh
