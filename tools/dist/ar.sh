#!/usr/bin/env bash
# zig's ar, for any machine.
exec "$(dirname "$0")/../../build/zig/ziglang/zig" ar "$@"
