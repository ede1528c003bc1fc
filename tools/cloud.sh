#!/usr/bin/env bash
# Tests object storage (build tag cloud) with an S3 server that others wrote, on this machine: tools/cloud.sh [packages]
#   Versity's S3 gateway, by Go's module proxy (compiled once, into build/cloud); or else
#   moto, a mock of Amazon's services in Python, where pip has installed it.
# Without either the tests of S3 are left out, and said.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_LDFLAGS="\"-L$PWD/build/lib\" ${CGO_LDFLAGS:-}"
gateway=build/cloud/server/versitygw
if [ ! -x "$gateway" ] && [ "${S3_SERVER:-}" != moto ]; then
	GOBIN=$PWD/build/cloud/server timeout 600 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 || true
fi
if [ -x "$gateway" ] && [ "${S3_SERVER:-}" != moto ]; then
	echo "S3 server: Versity's S3 gateway, $("$gateway" --version | head -1)"
	export ASSAY_TEST_S3="$PWD/$gateway --port 127.0.0.1:{port} --access tester --secret testersecret posix {folder}"
elif python3 -c 'import moto.server' 2>/dev/null; then
	echo "S3 server: moto $(python3 -c 'import moto; print(moto.__version__)'), which is a mock"
	export ASSAY_TEST_S3="python3 -m moto.server -H 127.0.0.1 -p {port}"
else
	echo "SKIPPED: no S3 server can be installed (github.com/versity/versitygw, or pip install 'moto[server]'): S3 was NOT tested"
fi
packages=${*:-./internal/remote ./shards ./scoring}
# shellcheck disable=SC2086 # several packages
go test -count=1 -tags cloud -run 'S3|Driver|Ranges|Faults' $packages
