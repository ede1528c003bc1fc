#!/usr/bin/env bash
# Downloads the Go modules of all packages and tests, so that later builds and tests need no network. Modules that only
# build tags need (the cloud drivers are half of all) are downloaded by `make cloud`. If there are no sources yet, as in
# the first layers of an image (examples/cluster/Containerfile), it downloads everything in go.mod.
. "$(dirname "$0")/common.sh"
need go "golang-go, where that is Go 1.26 or newer"
if [ ! -d cmd ]; then
	again go mod download
	exit
fi
sums=$(sha256sum <go.sum)
if done_already modules "$sums"; then exit 0; fi
say "downloading Go modules"
again go list -deps -test ./... >/dev/null
finished "$sums"
