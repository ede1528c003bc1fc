#!/usr/bin/env bash
# Installs Triton into build/triton: it compiles the CUDA kernels of ops/triton, and interprets them on the CPU. It is not
# needed otherwise.
. "$(dirname "$0")/common.sh"
version=3.9.0
done_already triton "$version" && [ -e build/triton/triton ] && exit 0
need_pip
say "installing Triton $version"
rm -rf build/triton
again python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --target build/triton "triton==$version"
finished "$version"
