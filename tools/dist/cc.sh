#!/usr/bin/env bash
# A C compiler and linker for MACHINE (default: this one) and glibc 2.28: zig's.
machine=${MACHINE:-$(uname -m)}
arguments=()
for a in "$@"; do
	case $a in
	--target=*) continue ;; # the same, as cargo calls it
	-lstdc++) a=-lunwind ;; # libtokenizers.a needs nothing of C++, which zig would compile: Rust wants the unwinder alone
	esac
	arguments+=("$a")
done
exec "$(dirname "$0")/../../build/zig/ziglang/zig" cc -target "$machine-linux-gnu.2.28" "${arguments[@]}"
