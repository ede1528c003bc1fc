#!/usr/bin/env bash
# tools/dist/program.sh OUT: builds the program assay, which is train, score and label in one, with zig's C compiler
# against glibc 2.28. The same commit and tools give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1
zig=$PWD/build/zig/ziglang/zig
target=$(uname -m)-linux-gnu.2.28
# libtokenizers.a needs nothing of C++, though its Go part names the library, which zig would compile: Rust wants the
# unwinder alone.
mkdir -p build/dist
cat >build/dist/cc <<-SCRIPT
	#!/bin/bash
	exec "$zig" cc -target $target "\${@/%-lstdc++/-lunwind}"
SCRIPT
chmod +x build/dist/cc
mkdir -p "$(dirname "$out")"
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || commit=$commit-changed
CC="$PWD/build/dist/cc" CGO_ENABLED=1 CGO_LDFLAGS="-L$PWD/build/lib" \
	go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X $(go list -m)/internal/version.commit=$commit" -o "$out" ./cmd/assay
