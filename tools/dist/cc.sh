#!/usr/bin/env bash
# A C compiler and linker for MACHINE (default: this one) and glibc 2.28: zig's. It adds the library folder itself, because
# Go's compiled packages contain CGO_LDFLAGS: without a folder in them, all checkouts can share the packages.
root=$(dirname "$0")/../..
machine=${MACHINE:-$(uname -m)}
libraries=(-L"$root/build/$machine/lib")
arguments=()
for a in "$@"; do
	case $a in
	--target=*) continue ;; # the same target under cargo's name
	-lstdc++) a=-lunwind ;; # libtokenizers.a needs only the unwinder for Rust, not C++, which zig would compile
	-c | -E | -S) libraries=() ;; # no linking
	esac
	arguments+=("$a")
done
exec "$root/build/zig/ziglang/zig" cc -target "$machine-linux-gnu.2.28" "${arguments[@]}" "${libraries[@]}"
