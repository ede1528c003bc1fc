#!/bin/sh
# Tests an installed assay by itself, outside of the checkout: smoke.sh PROGRAM. It uses the demonstration files that are
# installed with it. It needs only a POSIX shell, without a compiler, Go, Python or network.
set -eu
assay=$1
unset ASSAY_ONNXRUNTIME LD_LIBRARY_PATH CGO_LDFLAGS || true
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"
export ASSAY_STORE="$work/store"
fail() { echo "error: $*" >&2; exit 1; }

"$assay" version
"$assay" demo >demo
sed -n 1,4p demo
grep -q '^ 8.2052 ' demo || fail "the demonstration's first score is not 8.2052"
grep -q '<img src="data:image/png' assay-demo.html || fail "the demonstration wrote no page"
folder=$(sed -n 's/^  assay score pair --scorer \(.*\)\/tiny-scorer .*/\1/p' demo)
"$assay" train doctor --device cpu >doctor || { cat doctor; fail "train doctor"; }
grep -q "fused kernels: .* the same" doctor || { cat doctor; fail "no fused operators"; }

pair() { # FLAGS...
	"$assay" score pair --scorer "$folder/tiny-scorer" --source "$folder/coffee.png" --edit "$folder/coffee_blur.png" \
		--instruction "blur the picture" "$@"
}
[ "$(pair)" = "8.2052 (on 0 to 10)" ] || fail "score pair prints $(pair)"
for i in 1 2 3 4 5 6 7 8; do
	for edit in coffee rocket; do
		[ $edit = coffee ] && output=coffee_blur || output=rocket_grey
		echo "{\"source\":\"$folder/$edit.png\",\"edit\":\"$folder/$output.png\",\"instruction\":\"blur the picture\",\"label\":0.$i,\"group\":\"$edit$i\"}"
	done
done >edits.jsonl
"$assay" score batch --scorer "$folder/tiny-scorer" --in edits.jsonl --out scores.jsonl 2>/dev/null
[ "$(wc -l <scores.jsonl)" = 16 ] || fail "score batch wrote $(wc -l <scores.jsonl) rows, want 16"
cat >run.yaml <<YAML
backbone: $folder/tiny
out: run
data: {train: edits.jsonl, validation: 0.25}
pair: frames
lora: {r: 4, alpha: 8, targets: [q_proj, v_proj]}
epochs: 1
YAML
"$assay" train --config run.yaml --dry-run >plan 2>&1 || { cat plan; fail "train --dry-run"; }
for help in "help" "label --help" "train --help" "score serve --help" "fetch --help" "cache --help"; do
	# shellcheck disable=SC2086 # several words
	"$assay" $help >/dev/null || fail "assay $help"
done
for name in train score label; do
	"$(dirname "$assay")/$name" --help | grep -q "^  $name " || fail "$name as a separate program"
done

"$assay" score serve --scorer "$folder/tiny-scorer" --addr 127.0.0.1:0 >served 2>log &
server=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	address=$(sed -n 's/.*\(http:\/\/127.0.0.1:[0-9]*\).*/\1/p' served | head -n 1)
	[ -z "$address" ] || break
	kill -0 "$server" 2>/dev/null || { cat log; fail "score serve ended"; }
	sleep 0.5
done
[ -n "$address" ] || fail "score serve prints no address"
if command -v python3 >/dev/null; then
	python3 - "$address" "$folder" <<-'PYTHON'
		import base64, json, sys, urllib.request
		address, folder = sys.argv[1:]
		picture = lambda name: base64.b64encode(open(f"{folder}/{name}", "rb").read()).decode()
		body = {"instruction": "blur the picture", "source": picture("coffee.png"), "edits": [picture("coffee_blur.png")]}
		open_ = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
		ask = urllib.request.Request(f"{address}/v1/score", json.dumps(body).encode(), {"Content-Type": "application/json"})
		answer = json.load(open_(ask, timeout=60))
		text = json.dumps(answer)
		assert "8.205" in text, text
		assert b"<html" in open_(address, timeout=60).read()
	PYTHON
fi
echo "tested: $assay"
