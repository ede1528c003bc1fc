#!/usr/bin/env bash
# Runs chapters of the reproduction book (README.md): the commands of a chapter's README, one after the other. Completed commands
# are skipped: a second call resumes where the first one stopped.
#
#   reproduce/run.sh adiee/table-1           with the data sets in data/ and the checkpoints in backbones/
#   reproduce/run.sh --small adiee/table-1   in the miniature world, in build/reproduce; writes the chapter's small.md
#   reproduce/run.sh --check adiee/table-1   a dry run in the miniature world, with a ready scorer instead of training
#   reproduce/run.sh --train adiee/full      only the commands that train, on existing labels (examples/adiee)
#   reproduce/run.sh --list                  the chapters
#
#   REPRODUCE_BIN            folder of train, score, label, miniature and reproduce, instead of building them
#   REPRODUCE_OUT            folder of --small and --check (build/reproduce, build/reproduce-check)
#   REPRODUCE_INSTRUCTIONS   instructions in the training data of --small (200; half as many chains); REPRODUCE_EXAM: in the exam (70)
#   URL, MODEL               server and model of the text judges
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# chapters: the folders whose README has commands.
chapters() { grep -lx '```sh' reproduce/*/README.md reproduce/*/*/README.md | sed 's#^reproduce/##; s#/README.md$##' | sort; }

# commands CHAPTER: the lines of the first block of its README that is marked with "sh"; a loop is one command.
commands() { awk '/^```sh$/ { on = 1; next } /^```$/ { if (on) exit } on' "reproduce/$1/README.md"; }

usage() {
	sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 2
}

mode=full only=''
case ${1:-} in
--small | --check) mode=${1#--}; shift ;;
--train) only='^(train|score batch) '; shift ;;
--list) chapters; exit ;;
esac
[ $# -gt 0 ] || usage
for name in "$@"; do
	[ -e "reproduce/$name/README.md" ] || { echo "error: no chapter $name: reproduce/run.sh --list lists them" >&2; exit 2; }
done

bin=${REPRODUCE_BIN:-}
if [ -z "$bin" ]; then
	bin=build/reproduce-bin
	mkdir -p $bin
	export CGO_LDFLAGS="${CGO_LDFLAGS:-"-L$root/build/lib"}"
	go build -o $bin/ ./cmd/...
	go -C lab build -o ../$bin/ ./miniature ./reproduce
fi
bin=$(cd "$bin" && pwd)
export PATH=$bin:$PATH ASSAY_ONNXRUNTIME=${ASSAY_ONNXRUNTIME:-$root/build/lib/libonnxruntime.so}
[ -e "$ASSAY_ONNXRUNTIME" ] || unset ASSAY_ONNXRUNTIME

# miniature: makes a folder with the layout of the repository, in which the book's commands run unchanged: data of the miniature
# world in the layouts of the data sets, small checkpoints under the names of the large ones, small configurations.
miniature() {
	local out=$1 instructions=$2 exam=$3 held=tissue,rocket
	mkdir -p "$out"
	out=$(cd "$out" && pwd)
	local made=$out/sets
	mkdir -p "$made" "$out/backbones" "$out/reproduce"
	set_of() { [ -e "$made/$1" ] || command miniature --photos examples/photos --out "$made/$1" "${@:2}"; }
	set_of train --held $held --seed 1 --instructions "$instructions" --chains $((instructions / 2))
	set_of edits --held $held --seed 2 --instructions "$instructions" --chains 0
	set_of exam --only $held --exam --seed 777 --instructions "$exam"
	reproduce stand-ins --train "$made/train" --edits "$made/edits" --exam "$made/exam" --out "$out/data"
	for b in tiny tiny-clip tiny-dino tiny-scorer; do ln -sfn "$root/backbones/$b" "$out/backbones/$b"; done
	for b in clip-vit-base-patch16 LongCLIP-L; do ln -sfn tiny-clip "$out/backbones/$b"; done
	ln -sfn tiny-dino "$out/backbones/dinov2-base"
	for b in llama3-llava-next-8b-hf Qwen2.5-VL-7B-Instruct; do ln -sfn tiny "$out/backbones/$b"; done
	ln -sfn "$root/testdata" "$out/testdata"
	# Everything except the configurations of runs, which have small versions.
	(cd reproduce && grep -rLE --include='*' '^(sources|mode):' . | grep -v '\.md$' | xargs cp --parents -p -t "$out/reproduce/")
	work=$out
}

case $mode in
full) work=$root ;;
small)
	miniature "${REPRODUCE_OUT:-build/reproduce}" "${REPRODUCE_INSTRUCTIONS:-200}" "${REPRODUCE_EXAM:-70}"
	reproduce small --root "$root" --out "$work"
	;;
check)
	out=${REPRODUCE_OUT:-build/reproduce-check}
	[ ! -e "$out/sets" ] || rm -rf "$out/runs" "$out/data" # from an earlier dry run
	miniature "$out" 14 4
	(cd reproduce && grep -rlE --include='*.yaml' '^(sources|mode):' . | xargs cp --parents -p -t "$work/reproduce/")
	mkdir -p "$work/examples"
	cp examples/label-adiee.yaml "$work/examples/"
	for f in reproduce/adiee/*/{classifier,regression}.yaml; do # the results that training would write
		out=$work/runs/${f#reproduce/}
		mkdir -p "${out%.yaml}"
		ln -sfn "$root/backbones/tiny-scorer" "${out%.yaml}/scorer"
		ln -sfn "$root/backbones/tiny" "${out%.yaml}/tiny" # its backbone: ../tiny
	done
	mkdir -p "$work/runs/adiee/table-5/text"
	ln -sfn "$root/backbones/tiny-captions" "$work/runs/adiee/table-5/text/adapter"
	mkdir -p "$work/runs/mvei/adaptation/"{lora,full,grpo}
	ln -sfn "$root/backbones/tiny-captions" "$work/runs/mvei/adaptation/lora/adapter"
	ln -sfn "$root/backbones/tiny-captions" "$work/runs/mvei/adaptation/grpo/adapter"
	ln -sfn "$root/backbones/tiny" "$work/runs/mvei/adaptation/full/backbone"
	;;
esac

# dry: turns a command of a chapter into one without training; labelling and scoring still run. The server at URL replaces a model that
# was trained as a text judge; without one such commands are skipped.
dry() {
	if [ -n "${URL:-}" ]; then
		sed -E -e 's/^(train --config [^ ]+)$/\1 --dry-run/' -e 's/--backbone [^ ]+ --adapter [^ ]+/--url $URL --model $MODEL/'
	else
		sed -E -e 's/^(train --config [^ ]+)$/\1 --dry-run/' -e 's/^.*( --adapter |\$URL).*$/echo "skipped: it needs a server (URL, MODEL)"/'
	fi
}

# spoken: the small version of a command of a chapter. If no server is set, the small backbone answers instead; only the grammar of the
# question makes its answers readable.
spoken() {
	if [ $mode = small ] && [ -z "${URL:-}" ]; then
		sed 's#--url \$URL --model \$MODEL#--backbone backbones/tiny --constrained#'
	else
		cat
	fi
}

# shorter: the small backbone has 1,024 text positions, enough for six examples before a question.
shorter() {
	if [ $mode = full ]; then cat; else sed -E 's/(--few-shot [^ ]+)/\1 --few-shot-examples 6/'; fi
}

# words: makes a stand-in for a model that follows instructions. The small backbone never said the judge's words, and no adapter
# reaches the untrained rows of its output layer: it learns them by full fine-tuning, from answers that do not depend on the truth.
words() {
	local at=runs/mvei/adaptation/words table=data/MVEI-train/words
	(
		cd "$work"
		[ -d $at/backbone ] || {
			score bench mvei --ratings data/MVEI-train --judge esj --examples $table-all.jsonl
			awk '{ w = (NR % 4 == 1 || NR % 4 == 2) ? "Correct" : "Incorrect"
				sub(/"content":"(Correct|Incorrect)"}]}$/, "\"content\":\"" w "\"}]}"); print }' $table-all.jsonl >$table.jsonl
			sed 's#Qwen2.5-VL-7B-Instruct#tiny#; s#adaptation/full$#adaptation/words#; s#conversations.jsonl#words.jsonl#
				s/lr: .*/lr: 0.001/; s/^epochs: .*/epochs: 3/' reproduce/mvei/adaptation/full.yaml >$at.yaml
			train --config $at.yaml
		}
		ln -sfn ../$at/backbone backbones/Qwen2.5-VL-7B-Instruct
	) </dev/null
}

# results CHAPTER: writes the reports of its commands to small.md next to its README.
results() {
	local at=$work/runs/$1/reports to=reproduce/$1/small.md f
	[ -d "$at" ] || return 0
	{
		cat <<-END
			# $1 in the miniature world

			Written by \`reproduce/run.sh --small $1\`: ${REPRODUCE_INSTRUCTIONS:-200} instructions and half as many chains to train on, an exam of
			${REPRODUCE_EXAM:-70} instructions on other photographs in the benchmarks' layouts, one seed. These are not the benchmarks: compare within the
			table only.

		END
		if compgen -G "$at/*/results.json" >/dev/null; then
			reproduce results --runs "$at" --out "$at/results.md" >&2
		fi
		for f in "$at"/*.md "$at"/*.txt; do
			[ -e "$f" ] || continue
			case $f in
			*.md) cat "$f" ;;
			*) printf '```\n%s\n```\n' "$(<"$f")" ;;
			esac
			echo
		done
	} >"$to.new"
	mv "$to.new" "$to"
}

finished=$work/runs/commands.done # for all chapters: commands that several share run once
mkdir -p "$work/runs"
touch "$finished"
for name in "$@"; do
	echo "== $name"
	mkdir -p "$work/runs/$name/reports"
	if [ $mode = small ]; then
		ln -sfn tiny "$work/backbones/Qwen2.5-VL-7B-Instruct"
		[ "$name" != mvei/adaptation ] || words
	fi
	while IFS= read -r line; do
		[ -n "$line" ] && [ "${line:0:1}" != '#' ] && [[ $line =~ $only ]] || continue
		if grep -qxF -- "$line" "$finished"; then
			echo "already done: $line"
			continue
		fi
		echo "\$ $line"
		if [ $mode = check ]; then
			few=imagenhub # recipes only differ in training: one of them runs on all benchmarks
			[ "$name" != adiee/full ] || few=
			(cd "$work" && BENCHMARKS=$few bash -euo pipefail -c "$(dry <<<"$line" | shorter)" </dev/null)
		else
			(cd "$work" && bash -euo pipefail -c "$(spoken <<<"$line" | shorter)" </dev/null)
		fi
		echo "$line" >>"$finished"
	done < <(commands "$name")
	if [ $mode = small ]; then
		results "$name"
	fi
done
