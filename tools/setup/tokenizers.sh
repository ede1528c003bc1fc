#!/usr/bin/env bash
# Builds build/lib/libtokenizers.a from the Rust sources in the Go module github.com/daulet/tokenizers; go.sum has the
# module's hash, and its Cargo.lock the hashes of the crates. tokenizers.sh MACHINE: builds
# build/MACHINE/lib/libtokenizers.a with zig, for a release.
. "$(dirname "$0")/common.sh"
need go "golang-go, if that is Go 1.26 or newer"
version=$(go list -m -f '{{.Version}}' github.com/daulet/tokenizers)
lib=build/${1:+$1/}lib
if done_already "tokenizers${1:+-$1}" "$version"; then exit 0; fi
need cargo "cargo-web, Rust 1.73 or newer"
need gcc gcc
echo '#include <stdlib.h>' | gcc -E - >/dev/null 2>&1 || { echo "error: the C library's headers are missing: apt-get install libc6-dev" >&2; exit 1; }
say "building tokenizers $version (one to two minutes)"
again go mod download github.com/daulet/tokenizers
source=$(go list -m -f '{{.Dir}}' github.com/daulet/tokenizers)
work=build/tokenizers${1:+-$1} target=
if [ $# -gt 0 ]; then
	target=$1-unknown-linux-gnu
	if command -v rustup >/dev/null; then again rustup --quiet target add "$target"; fi
	export MACHINE=$1 "CC_${target//-/_}=$root/tools/dist/cc.sh" "AR_${target//-/_}=$root/tools/dist/ar.sh"
fi
rm -rf "$work"
cp -r "$source" "$work"
chmod -R u+w "$work"
# Without its feature esaxx_fast (used to train Unigram models only) the library needs no C++ compiler.
sed -i 's/^tokenizers = .*/tokenizers = { version = "0.20.2", default-features = false, features = ["onig", "progressbar"] }/' "$work/Cargo.toml"
sed -i '/^name = "esaxx-rs"$/,/^$/ { /^dependencies = \[$/,/^\]$/ d }' "$work/Cargo.lock"
# Panics contain source paths: strip the build folder, so that a release is reproducible.
export CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/cargo"
# Optimised for size, it compiles in two thirds of the time; tokenising a text takes milliseconds either way.
(cd "$work" && CARGO_NET_RETRY=10 CARGO_HTTP_TIMEOUT=120 CARGO_PROFILE_RELEASE_OPT_LEVEL=s cargo build --release --locked --quiet ${target:+--target "$target"}) ||
	{ echo "error: cargo could not build tokenizers: this needs the network and Rust 1.73 or newer; found $(cargo --version): apt-get install cargo-web" >&2; exit 1; }
# The module's Go part links libstdc++; gcc without g++ has the library, but not under the name that the linker needs.
if [ "$(gcc -print-file-name=libstdc++.so)" = libstdc++.so ]; then
	ln -sfn "$(gcc -print-file-name=libstdc++.so.6)" build/lib/libstdc++.so
fi
mkdir -p "$lib"
mv "$work/target/${target:+$target/}release/libtokenizers.a" "$lib/libtokenizers.a"
rm -rf "$work"
finished "$version"
