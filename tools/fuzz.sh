#!/usr/bin/env bash
# Runs the fuzz targets: tools/fuzz.sh [--ci] [--only TARGET]
#   (no option)  each with Go's coverage-guided engine for half a minute, then without coverage for the number of inputs in
#                the list below (internal/fuzzing: ten to a hundred times as many per second); two at a time
#   --ci         five seconds each without coverage, from a fixed seed: failures are due to the change, not to chance
# Logs and interesting inputs go to build/fuzz. A failing input is written to testdata/fuzz of its package: fix the cause, and
# commit a small version as a regression seed.
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
./internal/store FuzzSegment 1000000
./data FuzzText 10000000
./data FuzzParquet 1000000
./data FuzzDecode 1000000
./data/readers FuzzArrow 1000000
./data/readers FuzzArchive 1000000
./internal/reward FuzzBodies 1000000
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

# one PACKAGE TARGET INPUTS: prints a line with the result. Interesting inputs are kept between runs.
one() {
	local name log cache
	name=$(basename "$1").$2
	log=build/fuzz/$name.log
	cache=$PWD/build/fuzz/cache/$name
	if [ "$mode" = ci ]; then
		FUZZ_BLIND=5s FUZZ_SEED=1 blind "$@" >"$log" 2>&1
	else
		go test "$1" -vet=off -run '^$' -fuzz "^$2\$" -fuzztime 30s -parallel 1 -fuzzminimizetime 100x \
			-test.fuzzcachedir="$cache" >"$log" 2>&1 && FUZZ_BLIND=$3 FUZZ_CORPUS=$cache blind "$@" >>"$log" 2>&1
	fi && grep -E 'elapsed:|none failed' "$log" | tail -1 | sed "s|^|$1 |" ||
		{ echo "$name: FAILED" && grep -v '^fuzz: elapsed' "$log" | tail -30 && return 1; }
}
blind() { go test "$1" -vet=off -v -count=1 -run "^$2\$" -timeout 0; }
export -f one blind
export mode
grep " ${only:-Fuzz}" <<<"$targets" | xargs -P 2 -L 1 bash -c 'one "$@"' one
