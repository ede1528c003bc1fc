#!/usr/bin/env bash
# Puts the licence and the notices of ONNX Runtime, which make dist passes on, into build/notices, out of its wheel.
. "$(dirname "$0")/../setup/common.sh"
version=1.31.1
if done_already notices "$version"; then exit 0; fi
fetch_wheel tools/setup/onnxruntime.txt --implementation cp --python-version 3.11 --abi cp311 --platform "manylinux_2_28_$(uname -m)"
unpack_wheel onnxruntime 'onnxruntime/LICENSE' build/notices
unpack_wheel onnxruntime 'onnxruntime/ThirdPartyNotices.txt' build/notices
rm -rf build/wheels/onnxruntime
finished "$version"
