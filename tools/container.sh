#!/usr/bin/env bash
# Builds both targets of examples/cluster/Containerfile from a clean checkout of HEAD, and runs score, label and train in
# the images: tools/container.sh (as root; Debian: buildah, runc; 6 GB of disk; not part of .ci/run).
#   CACHES=1            uses this machine's caches of Go and cargo (faster, but unlike a first build)
#   BASES=debootstrap   makes the two base images of the FROM lines from Debian's packages and this machine's Go,
#                       if no image registry can be reached (Debian: debootstrap)
# The images stay in buildah's store as localhost/assay and localhost/assay-mpi, for tools/kubernetes/try.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
export BUILDAH_RUNTIME=${BUILDAH_RUNTIME:-runc} # Debian's crun refuses machines with both cgroup versions
for needed in buildah git runc; do
	command -v $needed >/dev/null || { echo "SKIPPED: $needed is not installed (apt-get install buildah runc): no image was built"; exit 0; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# base IMAGE PACKAGES PATH OPTIONS...: makes a Debian 12 image with the name IMAGE and this machine's certificates.
base() {
	local image=$1 packages=$2 path=$3 made
	shift 3
	buildah inspect --type image "$image" >/dev/null 2>&1 && return
	echo "making $image from Debian's packages"
	rm -rf "$work/root"
	debootstrap --variant=minbase --include="ca-certificates,$packages" bookworm "$work/root" http://deb.debian.org/debian >"$work/log" || {
		tail -n 20 "$work/log"
		return 1
	}
	rm -f "$work/root"/var/cache/apt/archives/*.deb
	cat /usr/local/share/ca-certificates/*.crt >"$work/root/usr/local/share/ca-certificates/here.crt" 2>/dev/null || true
	chroot "$work/root" update-ca-certificates >/dev/null 2>&1
	[[ $image != *golang* ]] || cp -a "$(go env GOROOT)" "$work/root/usr/local/go"
	made=$(buildah from scratch)
	buildah add -q "$made" "$work/root" /
	buildah config --cmd bash --env PATH="$path" "$@" "$made"
	buildah commit -q "$made" "$image"
	buildah rm "$made" >/dev/null
}
if [ "${BASES:-}" = debootstrap ]; then
	path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	base docker.io/library/debian:bookworm-slim netbase $path
	base docker.io/library/golang:1.26-bookworm g++,gcc,git,libc6-dev,make,netbase,pkg-config "/go/bin:/usr/local/go/bin:$path" \
		--env GOPATH=/go --env GOTOOLCHAIN=local
fi

git clone -q . "$work/checkout"
caches=()
if [ -n "${CACHES:-}" ]; then
	mkdir "$work/goenv"
	echo "GOMODCACHE=$(go env GOMODCACHE)" >"$work/goenv/env" # Go's cache keys contain paths
	caches=(-v "$work/goenv:/root/.config/go" -v "$(go env GOMODCACHE):$(go env GOMODCACHE)" -v "$(go env GOCACHE):/root/.cache/go-build")
	caches+=(-v "${CARGO_HOME:-$HOME/.cargo}/registry:/root/.cargo/registry")
fi
for target in "" mpi; do
	name=assay${target:+-$target}
	buildah build -q --layers "${caches[@]}" -f "$work/checkout/examples/cluster/Containerfile" -t "localhost/$name" \
		${target:+--target $target} "$work/checkout" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
done
buildah images | grep -E '^localhost/assay(-mpi)? '

# inside IMAGE COMMAND...: runs a command in a container of that image, with the checkout mounted.
inside() {
	local made code=0
	made=$(buildah from --pull-never "localhost/$1")
	shift
	buildah run -v "$work/checkout:/src" --workingdir /src "$made" -- "$@" || code=$?
	buildah rm "$made" >/dev/null
	return $code
}
pictures=testdata/oracle/images
for image in assay assay-mpi; do
	echo "--- $image"
	inside $image score pair --scorer backbones/tiny-scorer --source $pictures/coffee.png --edit $pictures/coffee_blur.png \
		--instruction "blur the picture"
	inside $image label --config examples/label.yaml
	cat >"$work/checkout/build/scorer.yaml" <<-END
		out: run
		backbone: ../backbones/tiny
		steps: 4
		batch_size: 2
		threads: 1
		head: {hidden: [8]}
		data: {train: example-label/table.parquet, train_split: train, validation_split: validation}
	END
	inside $image train --config build/scorer.yaml
	rm -r "$work/checkout/build"
done
