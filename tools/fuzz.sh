#!/usr/bin/env bash
# Runs the fuzz targets: tools/fuzz.sh [--ci] [--only TARGET]
#   (no option)  each for as many executions as the list below says; hours
#   --ci         each for half a minute, two at a time
# Logs and what was found interesting go to build/fuzz. An input that fails is written to testdata/fuzz of its package: mend
# the cause and commit it, small, as a regression seed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_LDFLAGS="\"-L$PWD/build/lib\""
targets="
./onnx FuzzDecodeModel 10000000
./checkpoints FuzzHeader 10000000
./internal/strictyaml FuzzDecode 10000000
./lora FuzzConfig 10000000
./model FuzzParseText 10000000
./model/text FuzzTokenizerFile 10000000
./model/text FuzzTemplate 10000000
./internal/journal FuzzOpen 10000000
./data FuzzText 10000000
./data FuzzParquet 1000000
./data FuzzDecode 1000000
./data/readers FuzzArrow 1000000
./data/readers FuzzArchive 1000000
./reward FuzzBodies 1000000
"
mode=full only=
while [ $# -gt 0 ]; do
	case $1 in
	--ci) mode=ci ;;
	--only) only=$2 && shift ;;
	*) echo "usage: tools/fuzz.sh [--ci] [--only TARGET]" >&2 && exit 2 ;;
	esac
	shift
done
mkdir -p build/fuzz

# one PACKAGE TARGET EXECUTIONS: prints one line with the result. What is interesting is kept from run to run.
one() {
	local name log time=$3x
	name=$(basename "$1").$2
	log=build/fuzz/$name.log
	[ "$mode" = ci ] && time=30s
	if go test "$1" -vet=off -run '^$' -fuzz "^$2\$" -fuzztime "$time" -parallel 1 -fuzzminimizetime 100x \
		-test.fuzzcachedir="$PWD/build/fuzz/cache/$name" >"$log" 2>&1; then
		echo "$name: $(grep -o 'elapsed: .*' "$log" | tail -1)"
	else
		echo "$name: FAILED" && grep -v '^fuzz: elapsed' "$log" | tail -30 && return 1
	fi
}
export -f one
export mode
grep " ${only:-Fuzz}" <<<"$targets" | xargs -P 2 -L 1 bash -c 'one "$@"' one
