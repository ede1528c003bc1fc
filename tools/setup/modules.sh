#!/usr/bin/env bash
# Downloads the Go modules of all packages and tests, so that later builds and tests need no network. What only build
# tags want (the clouds' drivers are half of all) comes with `make cloud`.
. "$(dirname "$0")/common.sh"
need go "golang-go, where that is Go 1.26 or newer"
sums=$(sha256sum <go.sum)
if done_already modules "$sums"; then exit 0; fi
say "downloading Go modules"
go list -deps -test ./... >/dev/null
finished "$sums"
