#!/usr/bin/env bash
# Compiles Assay's dependencies into Go's build cache. It runs in parallel with cargo, on the core that cargo leaves idle;
# packages that need libtokenizers.a are left to the build.
. "$(dirname "$0")/common.sh"
sums=$(sha256sum <go.sum)
if done_already packages "$sums"; then exit 0; fi
say "compiling the packages that Assay stands on"
go list -deps ./cmd/... | grep -v -e "^$(go list -m)/" -e '^github.com/daulet/tokenizers$' -e '^unsafe$' | xargs go build
finished "$sums"
