#!/usr/bin/env bash
# Extracts the licences and notices of the libraries that make dist redistributes from their wheels into build/notices
# (ONNX Runtime) and build/notices-pillow (Pillow's libraries).
. "$(dirname "$0")/../setup/common.sh"
version=1.31.1-13.0.0
if done_already notices "$version"; then exit 0; fi
fetch_wheel tools/setup/onnxruntime.txt --implementation cp --python-version 3.11 --abi cp311 --platform "manylinux_2_28_$(uname -m)"
unpack_wheel onnxruntime 'onnxruntime/LICENSE' build/notices
unpack_wheel onnxruntime 'onnxruntime/ThirdPartyNotices.txt' build/notices
rm -rf build/wheels/onnxruntime
fetch_wheel tools/setup/pictures.txt --implementation cp --python-version 3.11 --abi cp311 --platform "manylinux_2_28_$(uname -m)"
unpack_wheel pictures 'pillow-*.dist-info/licenses/LICENSE' build/notices-pillow
rm -rf build/wheels/pictures
finished "$version"
