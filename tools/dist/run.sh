#!/usr/bin/env bash
# make dist: everything that is released, in dist/, and a trial of the wheel in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/setup/zig.sh
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
rm -rf dist
tools/dist/program.sh build/dist/assay
python3 tools/dist/wheel.py --program build/dist/assay --out dist
tools/dist/try.sh
