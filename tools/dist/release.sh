#!/usr/bin/env bash
# Makes the files of a release, and pushes nothing:
#   tools/dist/release.sh --prepare VERSION   updates the version in the sources, and its heading in CHANGELOG.md
#   tools/dist/release.sh VERSION             checks that commit, makes dist/ twice, compares, and prints how to tag it
set -euo pipefail
cd "$(dirname "$0")/../.."
prepare=
if [ "${1:-}" = --prepare ]; then
	prepare=1
	shift
fi
version=${1:-}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "usage: $0 [--prepare] VERSION, such as 0.2.0" >&2; exit 2; }
go=internal/version/version.go python=clients/python/pyproject.toml
fail() { echo "error: $*" >&2; exit 1; }

[ -z "$(git status --porcelain)" ] || fail "the tree has uncommitted changes: see git status"
if [ -n "$prepare" ]; then
	grep -q "^## Unreleased$" CHANGELOG.md || fail "CHANGELOG.md has no section Unreleased"
	sed -i "s/^const Version = .*/const Version = \"$version\"/" $go
	sed -i "s/^version = .*/version = \"$version\"/" $python
	sed -i "s/^## Unreleased$/## $version/" CHANGELOG.md
	git diff --stat
	echo "review this and commit it: git commit -am 'Release $version'"
	exit
fi

grep -qx "const Version = \"$version\"" $go || fail "the version in $go is not $version: run $0 --prepare $version"
grep -qx "version = \"$version\"" $python || fail "the version in $python is not $version: run $0 --prepare $version"
first=$(grep -m 1 '^## ' CHANGELOG.md)
[ "$first" = "## $version" ] || fail "the first section of CHANGELOG.md is '$first', want '## $version'"
if git rev-parse -q --verify "refs/tags/v$version" >/dev/null; then fail "the tag v$version exists already"; fi

make dist
# Again, with an empty Go cache. The result must be identical byte for byte.
again=build/dist/again
trap 'rm -rf build/dist/cache $again' EXIT
PROGRAM_CACHE=$PWD/build/dist/cache tools/dist/run.sh $again
cmp dist/SHA256SUMS $again/SHA256SUMS || fail "two builds differ"
said=$(ASSAY_ONNXRUNTIME="build/$(uname -m)/lib" "build/dist/$(uname -m)/assay" version | sed -n 1p)
[[ $said = "assay $version, commit $(git rev-parse HEAD), "* ]] || fail "the program prints '$said'"
echo
echo "two builds are identical: dist/SHA256SUMS"
echo "the tag:    git tag -a v$version -m 'Assay $version'"
echo "the notes:"
echo
awk -v heading="## $version" '$0 == heading { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md
