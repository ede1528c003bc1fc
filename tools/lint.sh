#!/usr/bin/env bash
# Looks for mistakes beyond go vet: tools/lint.sh [--update]
#   staticcheck  bugs, and declarations that nobody uses
#   misspell     common misspellings in code and documentation
#   gocyclo      functions with more than 20 branches; those that have them already are in tools/lint/gocyclo.txt
#   deadcode     functions that no command, no program of lab/ and no test reaches; those that are meant for others are in tools/lint/deadcode.txt
# --update writes both lists anew. They may only shrink: read the difference before it is committed.
# docs/decisions/lint.md says why these and not golangci-lint.
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

# allowed LIST WHAT: fails on lines of the input that the list does not have, and says which of the list are no longer needed.
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
# Both modules in a workspace of their own, for what looks at the whole program.
printf 'go %s\n\nuse (\n\t%q\n\t%q\n)\n' "$(go list -m -f '{{.GoVersion}}')" "$PWD" "$PWD/lab" >build/go.work
git ls-files '*.go' '*.md' '*.sh' '*.py' | xargs build/bin/misspell -error -i tahn,fullset,benchamrk || failed=1
allowed tools/lint/gocyclo.txt "more than 20 branches: split it where that helps" \
	< <(build/bin/gocyclo -over 20 -ignore '_test\.go$|\.pb\.go$' . | sed -E 's|^[0-9]+ [^ ]+ (.*) ([^ ]+)/[^/]+$|\2 \1|')
allowed tools/lint/deadcode.txt "reached by no command and no test: remove it, or test it" \
	< <(GOWORK=$PWD/build/go.work build/bin/deadcode -test -f '{{range .Funcs}}{{println $.Path .Name}}{{end}}' ./... ./lab/... | grep .)
exit "$failed"
