# What a page may take for granted: a scorer called DIR, three pictures, tables of edits, a folder of candidates.
cp -r backbones/tiny-scorer DIR
mkdir -p runs/adiee outputs
ln -s ../../backbones/tiny-scorer runs/adiee/scorer
for place in . runs/adiee; do ln -s "$PWD/backbones/tiny" $place/tiny; done
cp testdata/oracle/images/coffee.png a.png
cp testdata/oracle/images/coffee_blur.png b.png
cp testdata/oracle/images/chelsea.png c.png
cp b.png c.png outputs
for edit in b c; do
	echo '{"id": "'$edit'", "source": "a.png", "edit": "'$edit'.png", "instruction": "blur the picture"}'
done >edits.jsonl
cp edits.jsonl candidates.jsonl
# Data sets are made in a short form.
build/lab/miniature() {
	local args=("$@") i short=
	for ((i = 1; i < $#; i++)); do
		[ "${args[i - 1]}" != --instructions ] || { args[i]=14 short=yes; }
	done
	[ "$1" = evaluate ] || [ "$1" = rate ] || [ "$short" ] || args+=(--instructions 14)
	command build/lab/miniature "${args[@]}"
}
