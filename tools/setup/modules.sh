#!/usr/bin/env bash
# Downloads the Go modules of all packages and tests, so that later builds and tests need no network. What only build
# tags want (the clouds' drivers are half of all) comes with `make cloud`. Where the sources are not there yet, as in the
# first layers of an image (examples/cluster/Containerfile), it is all that go.mod names.
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
