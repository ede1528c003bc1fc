#!/usr/bin/env bash
# A single-node Kubernetes as processes, for the duration of one command:
#   tools/kubernetes/cluster.sh COMMAND...       # with kubectl and KUBECONFIG for that cluster; $WORK is its folder
# It needs root, Debian's containerd, runc, containernetworking-plugins, iptables, conntrack, dnsmasq-base, any kubectl,
# and the programs of tools/kubernetes/build.sh. Everything runs in separate namespaces (mounts, network, processes) and
# disappears with them: the machine is not changed, and pods cannot reach other networks.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ "${1:-}" != --inside ]; then
	export WORK=${WORK:-$(mktemp -d)}
	code=0
	unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private "$0" --inside "$@" || code=$?
	find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null || true
	exit $code
fi
shift
bin=$root/build/kubernetes/bin
export PATH=$bin:$PATH
mount --make-rshared /
mkdir -p "$WORK"/{pki,log,cni,containerd,kubelet}
cd "$WORK"
ip=192.168.77.2
ip link set lo up
ip link add node0 type bridge
ip addr add $ip/24 dev node0
ip link set node0 up
ip route add default via 192.168.77.1
sysctl -qw net.ipv4.ip_forward=1

start() { # NAME COMMAND...: in the background, into log/NAME
	local name=$1
	shift
	"$@" >"log/$name" 2>&1 &
}

# Credentials: one authority, one certificate of the API server, one token with all rights.
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -keyout pki/ca.key -out pki/ca.crt 2>/dev/null
openssl req -newkey rsa:2048 -nodes -subj /CN=kube-apiserver -keyout pki/api.key -out pki/api.csr 2>/dev/null
openssl x509 -req -in pki/api.csr -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 2 -out pki/api.crt \
	-extfile <(echo "subjectAltName=IP:127.0.0.1,IP:$ip,IP:10.96.0.1,DNS:kubernetes.default.svc") 2>/dev/null
openssl req -newkey rsa:2048 -nodes -subj /CN=front -keyout pki/front.key -out pki/front.csr 2>/dev/null
openssl x509 -req -in pki/front.csr -CA pki/ca.crt -CAkey pki/ca.key -days 2 -out pki/front.crt 2>/dev/null
openssl genrsa -out pki/accounts.key 2048 2>/dev/null
token=$(openssl rand -hex 16)
echo "$token,admin,admin,system:masters" >pki/tokens.csv
export KUBECONFIG=$WORK/kubeconfig
cat >"$KUBECONFIG" <<END
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:6443", certificate-authority: $WORK/pki/ca.crt}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
END

start etcd etcd --data-dir etcd --unsafe-no-fsync
start apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address=$ip --token-auth-file=pki/tokens.csv \
	--tls-cert-file=pki/api.crt --tls-private-key-file=pki/api.key --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16 \
	--service-account-issuer=https://kubernetes.default.svc --service-account-key-file=pki/accounts.key \
	--service-account-signing-key-file=pki/accounts.key --kubelet-preferred-address-types=InternalIP \
	--requestheader-client-ca-file=pki/ca.crt --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
	--requestheader-extra-headers-prefix=X-Remote-Extra- --proxy-client-cert-file=pki/front.crt --proxy-client-key-file=pki/front.key
for _ in $(seq 120); do kubectl get --raw /readyz >/dev/null 2>&1 && break; sleep 1; done
kubectl get --raw /readyz >/dev/null || { tail -n 20 log/apiserver; exit 1; }
start controllers kube-controller-manager --kubeconfig="$KUBECONFIG" --leader-elect=false --root-ca-file=pki/ca.crt \
	--service-account-private-key-file=pki/accounts.key
start scheduler kube-scheduler --kubeconfig="$KUBECONFIG" --leader-elect=false

# The node: containers from containerd and runc, addresses from a bridge, services from kube-proxy.
cat >containerd/config.toml <<END
version = 2
root = "$WORK/containerd/root"
state = "$WORK/containerd/state"
[grpc]
  address = "$WORK/containerd/sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true # root in a container or on a small machine may not lower it
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "$WORK/cni"
END
cat >cni/pods.conflist <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": true,
  "hairpinMode": true, "ipam": {"type": "host-local", "subnet": "10.244.0.0/24", "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "$WORK/cni/taken"}}]}
END
cat >kubelet/config.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: 0.0.0.0
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://$WORK/containerd/sock
failSwapOn: false
clusterDNS: [$ip]
clusterDomain: cluster.local
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: 1%, imagefs.available: 1%, memory.available: 100Mi}
END
start containerd containerd --config containerd/config.toml
for _ in $(seq 60); do ctr -a "$WORK/containerd/sock" version >/dev/null 2>&1 && break; sleep 1; done
start kubelet kubelet --kubeconfig="$KUBECONFIG" --config=kubelet/config.yaml --root-dir="$WORK/kubelet" --hostname-override=node --node-ip=$ip
start proxy kube-proxy --kubeconfig="$KUBECONFIG" --hostname-override=node --proxy-mode=iptables --cluster-cidr=10.244.0.0/24 \
	--conntrack-max-per-core=0 --conntrack-min=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
# Names of pods with hostname and subdomain, as in a cluster's DNS.
touch hosts
start dns dnsmasq --no-daemon --no-resolv --no-hosts --listen-address=$ip --bind-interfaces --addn-hosts="$WORK/hosts"
(
	while sleep 1; do
		kubectl get pods -A -o jsonpath='{range .items[?(@.spec.subdomain)]}{.status.podIP} {.spec.hostname}.{.spec.subdomain}.{.metadata.namespace}.svc{"\n"}{end}' |
			awk 'NF == 2 && $1 ~ /^[0-9]/ { print $0, $2 ".cluster.local" }' >hosts.new || continue
		cmp -s hosts hosts.new || { cp hosts.new hosts; kill -HUP "$(pgrep -x dnsmasq)"; }
	done 2>/dev/null
) &
for _ in $(seq 120); do kubectl get nodes 2>/dev/null | grep -q ' Ready' && break; sleep 1; done
kubectl get nodes | grep -q ' Ready' || { tail -n 20 log/kubelet; exit 1; }
# Fake GPUs, which exist only for the scheduler.
kubectl patch node node --subresource=status --type=json \
	-p '[{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "32"}]' >/dev/null
kubectl get nodes -o 'custom-columns=NODE:.metadata.name,KUBELET:.status.nodeInfo.kubeletVersion,RUNTIME:.status.nodeInfo.containerRuntimeVersion'
cd "$root"
"$@"
