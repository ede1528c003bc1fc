#!/usr/bin/env bash
# Linters in addition to go vet: tools/lint.sh [--update]
#   staticcheck  bugs, and unused declarations
#   misspell     common misspellings in code and documentation
#   gocyclo      functions with more than 20 branches; existing ones are in tools/lint/gocyclo.txt
#   deadcode     functions that no command, no program of lab/ and no test reaches; those meant for others are in tools/lint/deadcode.txt
# --update rewrites both lists. They may only shrink: review the difference before committing it.
# docs/decisions/lint.md explains why these and not golangci-lint.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOBIN=$PWD/build/bin CGO_LDFLAGS="\"-L$PWD/build/lib\""
update=${1:-}
failed=0

# tool NAME PACKAGE VERSION: installs the tool at that version once.
tool() {
	[ "$(cat "build/bin/$1.version" 2>/dev/null)" = "$3" ] && [ -x "build/bin/$1" ] && return
	mkdir -p build/bin
	go install "$2@$3"
	echo "$3" >"build/bin/$1.version"
}

# allowed LIST WHAT: fails on input lines that are not in the list, and notes list entries that are no longer needed.
allowed() {
	local found new
	found=$(LC_ALL=C sort -u)
	if [ "$update" = --update ]; then
		printf '%s\n' "$found" >"$1"
	fi
	new=$(LC_ALL=C comm -23 <(printf '%s\n' "$found") "$1")
	if [ -n "$new" ]; then
		echo "$2:" && sed 's/^/  /' <<<"$new"
		failed=1
	fi
	LC_ALL=C comm -13 <(printf '%s\n' "$found") "$1" | sed "s|^|note: no longer needed in $1: |"
}

tool staticcheck honnef.co/go/tools/cmd/staticcheck v0.8.2
tool misspell github.com/golangci/misspell/cmd/misspell v0.7.0
tool gocyclo github.com/fzipp/gocyclo/cmd/gocyclo v0.6.0
tool deadcode golang.org/x/tools/cmd/deadcode v0.51.0

build/bin/staticcheck ./... || failed=1
(cd lab && go vet ./... && ../build/bin/staticcheck ./...) || failed=1
# Both modules in a separate workspace, for whole-program analysis.
printf 'go %s\n\nuse (\n\t%q\n\t%q\n)\n' "$(go list -m -f '{{.GoVersion}}')" "$PWD" "$PWD/lab" >build/go.work
git ls-files '*.go' '*.md' '*.sh' '*.py' | xargs build/bin/misspell -error -i tahn,fullset,benchamrk || failed=1
allowed tools/lint/gocyclo.txt "more than 20 branches: split it if that helps" \
	< <(build/bin/gocyclo -over 20 -ignore '_test\.go$|\.pb\.go$' . | sed -E 's|^[0-9]+ [^ ]+ (.*) ([^ ]+)/[^/]+$|\2 \1|')
allowed tools/lint/deadcode.txt "not reached by any command or test: remove it, or test it" \
	< <(GOWORK=$PWD/build/go.work build/bin/deadcode -test -f '{{range .Funcs}}{{println $.Path .Name}}{{end}}' ./... ./lab/... | grep .)
exit "$failed"
