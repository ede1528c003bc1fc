#!/usr/bin/env bash
# Builds Kubernetes' programs and etcd from their modules on the Go proxy into build/kubernetes/bin, and Kubeflow's MPI
# operator and Prometheus' adapter (half an hour on two busy cores, 3 GB of modules and caches): tools/kubernetes/build.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
version=1.34.4
operator=v0.6.0
mkdir -p build/kubernetes/{bin,src}
cd build/kubernetes/src
export GOFLAGS=-mod=mod CGO_ENABLED=0
if [ "$(cat ../version 2>/dev/null)" != $version ]; then
	# Kubernetes' own go.mod takes its libraries from its tree, which the module does not contain: use their modules instead.
	info=$(cd / && go mod download -json k8s.io/kubernetes@v$version)
	tree=$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$info")
	{
		printf 'module kubernetes.test\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' $version
		awk -v v="v0.${version#1.}" '$2 == "v0.0.0" { print "\t" $1 " => " $1 " " v }' "$tree/go.mod"
		printf ')\n'
	} >go.mod
	commands=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet)
	{
		printf '//go:build tools\n\npackage kubernetes\n\nimport (\n'
		printf '\t_ "k8s.io/kubernetes/cmd/%s"\n' "${commands[@]}"
		printf '\t_ "go.etcd.io/etcd/server/v3"\n' # Debian's 3.4 is too old: lists wait for what it does not tell
		printf ')\n'
	} >tools.go
	go mod tidy
	stamp="-X k8s.io/component-base/version.gitVersion=v$version"
	for c in "${commands[@]}"; do go build -ldflags "-s -w $stamp" -o ../bin/ "k8s.io/kubernetes/cmd/$c"; done
	go build -ldflags '-s -w' -o ../bin/etcd go.etcd.io/etcd/server/v3
	# The pause image, which holds a pod's namespaces: only this program.
	gcc -Os -static -DVERSION=test -o ../bin/pause "$tree/build/pause/linux/pause.c"
	echo $version >../version
fi
# other MODULE VERSION COMMAND NAME: builds a program of a module with its own go.mod.
other() {
	[ ! -x "../bin/$4" ] || return 0
	local info
	info=$(cd / && go mod download -json "$1@$2")
	cp -rT --no-preserve=mode "$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$info")" "../$4"
	go -C "../$4" build -ldflags '-s -w' -o "../bin/$4" "./cmd/$3"
}
other github.com/kubeflow/mpi-operator $operator mpi-operator operator
other sigs.k8s.io/prometheus-adapter v0.12.0 adapter adapter
go -C ../../../lab build -mod=readonly -o ../build/kubernetes/bin/load ./load
echo "built: build/kubernetes/bin (Kubernetes $version, MPI operator $operator)"
