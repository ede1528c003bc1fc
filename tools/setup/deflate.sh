#!/usr/bin/env bash
# Compiles build/lib/libdeflate.so.0 from the C sources in the crate libdeflate-sys. It decompresses the zlib streams of PNG
# and TIFF; without it or the system's libdeflate, Go's package takes twice the time.
# deflate.sh MACHINE: compiles for MACHINE, with zig for glibc 2.28, into build/MACHINE/lib.
. "$(dirname "$0")/common.sh"
version=1.26.1 sum=d7870e5fbd2766179a937c725fb11f4ca0ef025d982beb61bd3ce755425bd19c
lib=build/${1:+$1/}lib work=build/deflate${1:+-$1}
if done_already "deflate${1:+-$1}" "$version" && [ -e "$lib/libdeflate.so.0" ] && [ -e build/notices-libdeflate ]; then exit 0; fi
need cargo "cargo-web, Rust 1.73 or newer"
say "compiling libdeflate $version"
if [ $# -gt 0 ]; then
	compile=(build/zig/ziglang/zig cc -target "$1-linux-gnu.2.28" -Wl,--strip-all -g0)
else
	need gcc gcc
	compile=(gcc)
fi
rm -rf "$work"
mkdir -p "$work" "$lib"
printf '[package]\nname = "deflate"\nversion = "0.0.0"\n[lib]\npath = "none.rs"\n[dependencies]\nlibdeflate-sys = "=%s"\n[workspace]\n' $version >"$work/Cargo.toml"
: >"$work/none.rs"
again cargo vendor --quiet --manifest-path "$work/Cargo.toml" "$work/crates" >/dev/null
source=$work/crates/libdeflate-sys
grep -q "\"package\":\"$sum\"" "$source/.cargo-checksum.json" || { echo "error: libdeflate-sys $version does not have the expected checksum" >&2; exit 1; }
"${compile[@]}" -O3 -fPIC -fvisibility=hidden -shared -Wl,-soname,libdeflate.so.0 "-I$source/libdeflate" \
	"$source"/libdeflate/lib/{adler32,deflate_decompress,utils,zlib_decompress}.c "$source"/libdeflate/lib/*/cpu_features.c -o "$lib/libdeflate.so.0.new"
mv "$lib/libdeflate.so.0.new" "$lib/libdeflate.so.0"
mkdir -p build/notices-libdeflate
cp "$source/libdeflate/COPYING" build/notices-libdeflate/
rm -rf "$work"
finished "$version"
