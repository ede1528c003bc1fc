#!/usr/bin/env bash
# make dist: everything that is released, in dist/, and a trial of it (tools/dist/try.sh). tools/dist/run.sh FOLDER makes
# it in that folder, and tries nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-dist}
tools/setup/zig.sh
tools/dist/notices.sh
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
rm -rf "$out" build/dist/share
tools/dist/program.sh build/dist/assay
go run ./tools/dist/pages build/dist/share
python3 tools/dist/pack.py --program build/dist/assay --pages build/dist/share --out "$out"
[ $# -gt 0 ] || tools/dist/try.sh
