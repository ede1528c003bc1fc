#!/usr/bin/env bash
# Tests dist/ on this system, outside of the checkout: the wheel in a new environment, the archive, and the files of the
# package. tools/dist/roots.sh does the same in clean systems.
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=$PWD/dist smoke=$PWD/tools/dist/smoke.sh machine=$(uname -m)
(cd dist && sha256sum --quiet -c SHA256SUMS)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check --find-links "$dist" "$dist"/assay_reward-*_"$machine".whl
environment/bin/python -c 'import assay_reward; assay_reward.Client'
"$smoke" "$work/environment/bin/assay"
tar -xf "$dist"/assay-*-"$machine".tar.gz
"$smoke" "$(echo "$work"/assay-*/bin/assay)"
if command -v dpkg-deb >/dev/null; then
	dpkg-deb -x "$dist"/assay_*_"$(dpkg --print-architecture)".deb package
	"$smoke" "$work/package/usr/bin/assay"
fi
