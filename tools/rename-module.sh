#!/usr/bin/env bash
# Gives the module its final path: tools/rename-module.sh example.org/you/assay. Rewrites go.mod and every import, including lab and examples/library.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: $0 PATH" >&2; exit 2; }
old=$(go list -m) new=$1
go mod edit -module "$new"
go -C lab mod edit -module "$new/lab" -dropreplace "$old" -droprequire "$old" -require "$new@v0.0.0" -replace "$new=.."
git ls-files -z '*.go' | xargs -0 sed -i -E "s#^((import )?[[:space:]]*([A-Za-z0-9_.]+ )?)\"${old//./\\.}(/[^\"]*)?\"([[:space:]]*//.*)?\$#\1\"$new\4\"\5#"
go -C examples/library mod edit -dropreplace "$old" -droprequire "$old" -require "$new@v0.0.0" -replace "$new=../.."
echo "the module is now $new"
