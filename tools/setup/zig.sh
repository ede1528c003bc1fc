#!/usr/bin/env bash
# Extracts zig, whose C compiler can target old C libraries, from its Python wheel into build/zig. Only make dist needs it.
. "$(dirname "$0")/common.sh"
version=0.17.1
if done_already zig "$version"; then exit 0; fi
say "downloading zig $version"
fetch_wheel tools/setup/zig.txt --platform "manylinux2010_$(uname -m)"
rm -rf build/zig
python3 -m zipfile -e build/wheels/zig/*.whl build/zig
chmod +x build/zig/ziglang/zig
rm -rf build/wheels/zig
finished "$version"
