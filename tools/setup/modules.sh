#!/usr/bin/env bash
# Downloads the Go modules, so that later builds and tests need no network.
. "$(dirname "$0")/common.sh"
need go "golang-go, where that is Go 1.26 or newer"
sums=$(sha256sum <go.sum)
if done_already modules "$sums"; then exit 0; fi
say "downloading Go modules"
go mod download
finished "$sums"
