#!/usr/bin/env bash
# Tests dist/ in clean chroots, which have Python with pip and venv, but no compiler and no Go: pip installs the wheel, the
# archive is unpacked, the package is installed, and each of them scores, serves and plans a training.
#   tools/dist/roots.sh [SUITE...]   as root; default: bullseye (Debian 11). jammy is Ubuntu 22.04.
# It needs debootstrap, and makes the chroots in build/roots. KEEP=1 keeps them for the next call. UNSIGNED=1 accepts a
# suite whose signing key is missing (Debian does not have Ubuntu's). If a test is impossible, it is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() { echo "SKIPPED: $*: nothing was tested in clean chroots"; exit 0; }

[ "$(id -u)" = 0 ] || skip "not root"
if ! hash debootstrap 2>/dev/null; then
	{ apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap; } >/dev/null 2>&1 || true
	hash -r
	hash debootstrap 2>/dev/null || skip "debootstrap cannot be installed"
fi
unshare --mount true 2>/dev/null || skip "mounts in a separate namespace are not permitted"
[ -e dist/SHA256SUMS ] || { echo "error: dist/ is empty: run make dist first" >&2; exit 1; }

# Settings of pip and the network on this machine: variables and files outside of the repository.
settings=()
while IFS= read -r -d '' variable; do
	case ${variable%%=*} in
	PIP_FIND_LINKS) ;; # a folder on this machine
	PIP_* | *_proxy | *_PROXY | SSL_CERT_FILE | REQUESTS_CA_BUNDLE) settings+=("$variable") ;;
	esac
done < <(env -0)

# inside ROOT COMMAND...: runs a command in a chroot, with /proc and /dev mounted until it ends.
inside() {
	local root=$1
	shift
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$root" \
		/usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "${settings[@]}" "$@"
}

# make_root SUITE: build/roots/SUITE.
make_root() {
	local suite=$1 root=build/roots/$1 components=main options=()
	[ ! -e "$root.ready" ] || return 0
	case $suite in
	focal | jammy | noble) components=main,universe ;;
	esac
	[ -z "${UNSIGNED:-}" ] || options=(--no-check-gpg)
	rm -rf "$root"
	mkdir -p build/roots
	debootstrap --variant=minbase --components=$components --include=ca-certificates,netbase,python3,python3-pip,python3-venv \
		"${options[@]}" "$suite" "$root" >"$root.log" 2>&1 || { tail -n 3 "$root.log"; return 1; }
	rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
	touch "$root.ready"
}

# try_in SUITE: tests everything in dist/ in its chroot.
try_in() {
	local root=build/roots/$1 started
	rm -rf "$root/trial"
	mkdir "$root/trial"
	cp dist/assay_reward*_"$(uname -m)".whl dist/assay-*-"$(uname -m)".tar.gz dist/assay_*_"$(dpkg --print-architecture)".deb tools/dist/smoke.sh "$root/trial/"
	cp -L /etc/resolv.conf "$root/etc/resolv.conf"
	cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
	[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
	inside "$root" sh -c '! command -v cc gcc g++ go cargo' || { echo "error: the chroot is not clean" >&2; return 1; }
	inside "$root" sh -c '. /etc/os-release; echo "in $PRETTY_NAME, $(python3 --version), $(ldd --version | head -n 1)"'
	started=$SECONDS
	inside "$root" sh -euc 'python3 -m venv /trial/environment
		/trial/environment/bin/pip install --quiet --disable-pip-version-check --find-links /trial /trial/assay_reward-*.whl
		cd /trial && environment/bin/assay demo | head -n 1'
	echo "pip install and a first score: $((SECONDS - started)) s (target: 60)"
	inside "$root" /trial/smoke.sh /trial/environment/bin/assay
	inside "$root" sh -euc 'tar -xf /trial/assay-*.tar.gz -C /trial; /trial/smoke.sh /trial/assay-*/bin/assay'
	inside "$root" sh -euc 'dpkg -i /trial/assay_*.deb >/dev/null; cd /; /trial/smoke.sh /usr/bin/assay; dpkg --purge assay >/dev/null
		[ ! -e /usr/lib/assay ] && [ ! -e /usr/bin/assay ] || { echo "error: the package leaves files behind" >&2; exit 1; }'
	rm -rf "$root/trial"
}

suites=("$@")
[ $# -gt 0 ] || suites=(bullseye)
for suite in "${suites[@]}"; do
	started=$SECONDS
	make_root "$suite" || { echo "SKIPPED: cannot make a chroot of $suite here: it was NOT tested"; continue; }
	echo "chroot of $suite: $((SECONDS - started)) s"
	try_in "$suite"
	[ -n "${KEEP:-}" ] || rm -rf "build/roots/$suite" "build/roots/$suite.ready" "build/roots/$suite.log"
done
