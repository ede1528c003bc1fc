#!/usr/bin/env bash
# Extracts libjpeg-turbo and libwebp from Pillow's wheel into build/lib (Python itself is not used at run time).
# pictures.sh MACHINE: extracts the libraries for MACHINE into build/MACHINE/lib.
. "$(dirname "$0")/common.sh"
version=13.0.0
machine=${1:-$(uname -m)} lib=build/${1:+$1/}lib name=pictures${1:+-$1}
if done_already "$name" "$version"; then exit 0; fi
say "downloading Pillow $version, for libjpeg-turbo and libwebp"
fetch_wheel tools/setup/pictures.txt --implementation cp --python-version 3.11 --abi cp311 --platform "manylinux_2_28_$machine"
rm -f "$lib"/lib{jpeg,webp,sharpyuv}-*.so.*
for library in jpeg webp sharpyuv; do
	unpack_wheel pictures "pillow.libs/lib$library-*.so.*" "$lib"
done
rm -rf build/wheels/pictures
finished "$version"
