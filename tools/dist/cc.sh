#!/usr/bin/env bash
# A C compiler and linker for MACHINE (default: this one) and glibc 2.28: zig's. It knows where the libraries lie, since
# Go's compiled packages name what CGO_LDFLAGS says: without a folder in them, each checkout takes those of another.
root=$(dirname "$0")/../..
machine=${MACHINE:-$(uname -m)}
libraries=(-L"$root/build/$machine/lib")
arguments=()
for a in "$@"; do
	case $a in
	--target=*) continue ;; # the same, as cargo calls it
	-lstdc++) a=-lunwind ;; # libtokenizers.a needs nothing of C++, which zig would compile: Rust wants the unwinder alone
	-c | -E | -S) libraries=() ;; # nothing is linked
	esac
	arguments+=("$a")
done
exec "$root/build/zig/ziglang/zig" cc -target "$machine-linux-gnu.2.28" "${arguments[@]}" "${libraries[@]}"
