#!/usr/bin/env bash
# Tests object storage (build tag cloud) with third-party servers on this machine: tools/cloud.sh [packages]
#   S3      Versity's S3 gateway, from Go's module proxy (compiled once, into build/cloud); or else
#           moto, a mock of Amazon's services in Python, if pip has installed it.
# CLOUDS=all adds slower ones, which are not part of .ci/run:
#   gs      fake-gcs-server, from Go's module proxy (compiled once)
#   azblob  Azurite, Microsoft's own, from npm
# Without a server, its tests are skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_LDFLAGS="\"-L$PWD/build/lib\" ${CGO_LDFLAGS:-}"
servers=${CLOUD_SERVERS:-$PWD/build/cloud/server}

# server NAME MODULE: compiles a server unless it exists; without optimisation, which takes longer than it saves here.
server() {
	[ -x "$servers/$1" ] || GOBIN=$servers timeout 900 go install -gcflags='github.com/...=-N -l' -ldflags='-s -w' "$2" || true
	[ -x "$servers/$1" ]
}

if [ "${S3_SERVER:-}" != moto ] && server versitygw github.com/versity/versitygw/cmd/versitygw@v1.8.0; then
	echo "S3 server: Versity's S3 gateway, $("$servers/versitygw" --version | head -1)"
	export ASSAY_TEST_S3="$servers/versitygw --port 127.0.0.1:{port} --access tester --secret testersecret posix {folder}"
elif python3 -c 'import moto.server' 2>/dev/null; then
	echo "S3 server: moto $(python3 -c 'import moto; print(moto.__version__)'), which is a mock"
	export ASSAY_TEST_S3="python3 -m moto.server -H 127.0.0.1 -p {port}"
else
	echo "SKIPPED: no S3 server can be installed (github.com/versity/versitygw, or pip install 'moto[server]'): S3 was NOT tested"
fi
if [ "${CLOUDS:-}" = all ]; then
	if server fake-gcs-server github.com/fsouza/fake-gcs-server@v1.56.1; then
		echo "gs server: fake-gcs-server v1.56.1"
		export ASSAY_TEST_GS="$servers/fake-gcs-server -scheme http -host 127.0.0.1 -port {port} -public-host 127.0.0.1:{port} -backend memory -log-level error"
	else
		echo "SKIPPED: fake-gcs-server cannot be installed: gs:// was NOT tested"
	fi
	azurite=$servers/azurite/node_modules/.bin/azurite-blob
	[ -x "$azurite" ] || npm install --no-fund --no-audit --prefix "$servers/azurite" azurite@3.35.0 >/dev/null 2>&1 || true
	if [ -x "$azurite" ]; then
		echo "azblob server: Azurite $("$azurite" --version)"
		export AZURITE_ACCOUNTS="tester:dGVzdGVyc2VjcmV0" # only for this server
		export ASSAY_TEST_AZURE="$azurite --silent --blobHost 127.0.0.1 --blobPort {port} --location {folder} --skipApiVersionCheck"
	else
		echo "SKIPPED: Azurite cannot be installed (npm install azurite): azblob:// was NOT tested"
	fi
fi
packages=${*:-./internal/remote ./internal/shards ./internal/scoring ./internal/cli/score ./internal/cli/train}
# shellcheck disable=SC2086 # several packages
go test -count=1 -vet=off -ldflags='-s -w' -tags cloud -run 'S3|Driver|Ranges|Faults|GS|Azure' $packages
