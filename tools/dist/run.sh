#!/usr/bin/env bash
# make dist: everything that is released, in dist/, and a trial of the wheel in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup/zig.sh
tools/dist/notices.sh
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
rm -rf dist build/dist/share
tools/dist/program.sh build/dist/assay
go run ./tools/dist/pages build/dist/share
python3 tools/dist/pack.py --program build/dist/assay --pages build/dist/share --out dist
tools/dist/try.sh
