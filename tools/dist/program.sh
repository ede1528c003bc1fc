#!/usr/bin/env bash
# tools/dist/program.sh OUT [MACHINE [PACKAGE]]: builds the program assay, which combines train, score and label, or that of
# another package, for x86_64 or aarch64 (default: this machine) and glibc 2.28. The build is reproducible: debug
# information of zig's own C files, which contains the folder of its cache, is stripped.
# PROGRAM_CACHE is a folder to use instead of Go's cache.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1
export MACHINE=${2:-$(uname -m)}
case $MACHINE in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) echo "error: no releases for $MACHINE" >&2; exit 2 ;;
esac
mkdir -p "$(dirname "$out")"
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || commit=$commit-changed
GOCACHE=${PROGRAM_CACHE:-$(go env GOCACHE)} GOARCH=$architecture CC="$PWD/tools/dist/cc.sh" CGO_ENABLED=1 CGO_LDFLAGS= \
	go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -extldflags=-Wl,--strip-all -X $(go list -m)/internal/version.commit=$commit" -o "$out" "${3:-./cmd/assay}"
