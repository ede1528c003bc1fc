#!/usr/bin/env bash
# Runs the examples of examples/cluster on a single-node Kubernetes, with the images of tools/container.sh:
#   tools/kubernetes/cluster.sh tools/kubernetes/try.sh [indexed] [serve] [mpi]
# The examples are only changed for what this machine lacks: GPUs, memory, and enough rows for 64 parts.
set -euo pipefail
examples=$PWD/examples/cluster
parts=${*:-indexed serve mpi}

# load IMAGE NAME: copies an image from buildah's store to containerd.
load() {
	buildah push -q "$1" "docker-archive:$WORK/image.tar:$2" # not compressed
	ctr -a "$WORK/containerd/sock" -n k8s.io images import "$WORK/image.tar" >/dev/null
	rm "$WORK/image.tar"
}
# claim NAME: makes a claim and its volume, in $WORK/NAME.
claim() {
	mkdir -p "$WORK/$1"
	kubectl apply -f - >/dev/null <<-END
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: $1}
		spec:
		  {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], storageClassName: "", hostPath: {path: $WORK/$1},
		   claimRef: {namespace: default, name: $1}}
		---
		apiVersion: v1
		kind: PersistentVolumeClaim
		metadata: {name: $1}
		spec:
		  {accessModes: [ReadWriteMany], storageClassName: "", volumeName: $1, resources: {requests: {storage: 1Gi}}}
	END
}
# small FILE: an example with requests that fit this node, on the CPU.
small() { sed -e 's/cpu: "[0-9]*"/cpu: 100m/' -e 's/memory: [0-9]*Gi/memory: 1Gi/' -e 's/--device=cuda:0.*/--device=cpu/' "$examples/$1"; }
# until SECONDS COMMAND...: waits for a command to succeed.
await() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || {
			echo "timed out waiting for: $*"
			kubectl get jobs,pods -o wide
			kubectl get events --field-selector=type=Warning --sort-by=.lastTimestamp | tail -n 8
			kubectl get nodes -o 'custom-columns=NODE:.metadata.name,TAINTS:.spec.taints[*].key' # a full disk, for example
			return 1
		}
		sleep 0.3
	done
}
finished() { kubectl get job "$1" -o jsonpath='{.status.conditions[*].type}' | grep -qE "${2:-Complete|Failed}"; }
scoring() { [ "$(find "$WORK/edits/scores.jsonl.shards" -name '*.progress*' -size +4 | wc -l)" -ge 3 ]; }
running() { [ "$(kubectl get pods -l "$1" --field-selector=status.phase=Running -o name | wc -l)" -ge "$2" ]; }
# kill9 POD: kills the container's first process, as if the machine were lost.
kill9() {
	local container
	container=$(kubectl get "$1" -o jsonpath='{.status.containerStatuses[0].containerID}')
	ctr -a "$WORK/containerd/sock" -n k8s.io tasks kill -s SIGKILL "${container#containerd://}"
}

indexed() {
	local pictures=testdata/oracle/images i
	claim edits
	cp -r backbones/tiny "$WORK/edits/tiny"
	cp -r backbones/tiny-scorer "$WORK/edits/scorer"
	cp $pictures/coffee.png $pictures/coffee_blur.png "$WORK/edits/"
	for i in $(seq "${ROWS:-12000}"); do
		echo "{\"source\": \"coffee.png\", \"edit\": \"coffee_blur.png\", \"instruction\": \"turn $((i / 4))\"}"
	done >"$WORK/edits/edits.jsonl"
	few=(-e 's/: 64 /: 6 /' -e 's/maxFailedIndexes: 8/maxFailedIndexes: 6/' -e 's,auto/64,auto/6,' -e 's/\.parquet/.jsonl/')
	small score-job.yaml | sed "${few[@]}" | kubectl apply --validate=strict -f -
	await 120 running job-name=assay-score 3
	mapfile -t pods < <(kubectl get pods -l job-name=assay-score --field-selector=status.phase=Running -o name)
	echo "one is deleted as it starts, one evicted and one killed as they score: ${pods[*]:0:3}"
	kubectl delete --wait=false "${pods[0]}"
	await 300 scoring
	kill9 "${pods[2]}"
	kubectl create --raw "/api/v1/namespaces/default/pods/${pods[1]#pod/}/eviction" -f - >/dev/null \
		<<<"{\"apiVersion\": \"policy/v1\", \"kind\": \"Eviction\", \"metadata\": {\"name\": \"${pods[1]#pod/}\", \"namespace\": \"default\"}}"
	await 600 finished assay-score
	kubectl get pods -l job-name=assay-score -o 'custom-columns=POD:.metadata.name,PHASE:.status.phase,EXIT:.status.containerStatuses[0].state.terminated.exitCode'
	kubectl get job assay-score -o jsonpath='{.status}' && echo
	finished assay-score Complete
	small score-merge.yaml | sed "${few[@]}" | kubectl apply --validate=strict -f -
	# The result of a single process: the merging job with neither --merge nor --shard.
	small score-merge.yaml | sed "${few[@]}" -e '/--merge/d' -e 's/score-merge/score-whole/' -e 's/scores/whole/' | kubectl apply -f -
	await 600 finished assay-score-merge
	await 600 finished assay-score-whole
	kubectl logs job/assay-score-merge
	cmp "$WORK/edits/whole.jsonl" "$WORK/edits/scores.jsonl"
	echo "the indexed job has the result of a single process: $(wc -l <"$WORK/edits/scores.jsonl") rows"
	# A GPU requested from an image without CUDA; a missing scorer and a missing table.
	wrong cuda -e 's/--device=cpu/--device=cuda:0/'
	wrong scorer -e 's,--scorer=/edits/scorer,--scorer=/edits/gone,'
	wrong table -e 's,--in=/edits/edits,--in=/edits/gone,'
	kubectl delete job --all >/dev/null
}

# wrong NAME EDITS...: a misconfigured indexed job fails at once, each index after one pod, with exit code 2.
wrong() {
	local name=assay-wrong-$1 codes
	shift
	small score-job.yaml | sed "${few[@]}" -e "s/assay-score/$name/" "$@" | kubectl apply -f -
	await 120 finished "$name" Failed
	kubectl logs "job/$name" 2>&1 | grep error:
	codes=$(kubectl get pods -l "job-name=$name" -o 'jsonpath={.items[*].status.containerStatuses[0].state.terminated.exitCode}')
	echo "$name: the pods' exit codes are $codes"
	[ "$codes" = "2 2 2 2 2 2" ]
}

serve() {
	local address token=a-token-of-this-run
	claim scorers
	cp -r backbones/tiny "$WORK/scorers/tiny"
	cp -r backbones/tiny-scorer "$WORK/scorers/adiee"
	kubectl create secret generic assay-token --from-literal=token=$token
	small serve.yaml | kubectl apply --validate=strict -f -
	kubectl rollout status deployment/assay-serve --timeout=5m
	address=$(kubectl get service assay-serve -o jsonpath='{.spec.clusterIP}')
	# Eight callers of the service while every pod is replaced, twice.
	ASSAY_TOKEN=$token build/kubernetes/bin/load -url "http://$address:8100" -source testdata/oracle/images/coffee.png \
		-edit testdata/oracle/images/coffee_blur.png -while bash -c 'for i in 1 2; do kubectl rollout restart deployment/assay-serve
			kubectl rollout status deployment/assay-serve --timeout=10m; done'
	echo "every pod was replaced twice, and no request was lost"
	kubectl get events --field-selector=reason=Unhealthy -o custom-columns=MESSAGE:.message
	if command -v prometheus >/dev/null && [ -x build/kubernetes/bin/adapter ]; then
		scale "http://$address:8100" $token
	else
		echo "SKIPPED: prometheus or its adapter is missing: the autoscaler was NOT tested"
	fi
	kubectl delete -f "$examples/serve.yaml" >/dev/null
}

# scale ADDRESS TOKEN: runs Prometheus and its adapter on the node, configured as in serve.yaml, and enough callers that
# edits wait: the autoscaler adds pods.
scale() {
	local config=$WORK/autoscaling
	mkdir -p "$config"
	printf %s "$2" >"$config/token"
	kubectl get configmap assay-autoscaling -o jsonpath='{.data.prometheus\.yaml}' |
		sed -e "s,/etc/prometheus/secrets/assay-token/token,$config/token," \
			-e 's/kubernetes_sd_configs/file_sd_configs/' -e "s,- role: pod,- files: [$config/pods.json]," \
			-e '1i global: {scrape_interval: 5s}' >"$config/prometheus.yaml"
	while sleep 2; do # Debian's Prometheus has no Kubernetes discovery: set the same labels
		kubectl get pods -o json | python3 -c 'import json, sys
p = "__meta_kubernetes_"
print(json.dumps([{"targets": ["%s:%d" % (i["status"]["podIP"], port["containerPort"])], "labels": {
    p + "namespace": "default", p + "pod_name": i["metadata"]["name"], p + "pod_label_app": i["metadata"].get("labels", {}).get("app", ""),
    p + "pod_container_port_name": port["name"]}}
    for i in json.load(sys.stdin)["items"] if "podIP" in i["status"] for c in i["spec"]["containers"] for port in c.get("ports", [])]))' \
			>"$config/new.json" && mv "$config/new.json" "$config/pods.json"
	done &
	kubectl get configmap assay-autoscaling -o jsonpath='{.data.adapter\.yaml}' >"$config/adapter.yaml"
	prometheus --config.file="$config/prometheus.yaml" --storage.tsdb.path="$config/data" --web.listen-address=127.0.0.1:9090 \
		>"$WORK/log/prometheus" 2>&1 &
	build/kubernetes/bin/adapter --config="$config/adapter.yaml" --prometheus-url=http://127.0.0.1:9090 --secure-port=6444 \
		--cert-dir="$config" --lister-kubeconfig="$KUBECONFIG" --authentication-kubeconfig="$KUBECONFIG" \
		--authorization-kubeconfig="$KUBECONFIG" --metrics-relist-interval=15s >"$WORK/log/adapter" 2>&1 &
	kubectl apply -f - <<-END
		apiVersion: v1
		kind: Service
		metadata: {name: adapter}
		spec: {ports: [{port: 443, targetPort: 6444}]}
		---
		apiVersion: v1
		kind: Endpoints
		metadata: {name: adapter}
		subsets: [{addresses: [{ip: 192.168.77.2}], ports: [{port: 6444}]}]
		---
		apiVersion: apiregistration.k8s.io/v1
		kind: APIService
		metadata: {name: v1beta1.custom.metrics.k8s.io}
		spec:
		  {group: custom.metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true,
		   service: {name: adapter, namespace: default}}
	END
	await 120 measured '^[0-9]'
	# One second instead of five: edits wait that long even on two CPUs. Five pods are enough for the test.
	kubectl patch hpa assay-serve --type=json -p '[{"op": "replace", "path": "/spec/maxReplicas", "value": 5},
		{"op": "replace", "path": "/spec/metrics/0/pods/target/averageValue", "value": "1"}]'
	kubectl get hpa assay-serve
	export -f await running
	ASSAY_TOKEN=$2 build/kubernetes/bin/load -url "$1" -source testdata/oracle/images/coffee.png -callers "${CALLERS:-300}" \
		-edit testdata/oracle/images/coffee_blur.png -while bash -c 'await 300 running app=assay-serve 3'
	kubectl get hpa assay-serve
	kubectl get events --field-selector=reason=SuccessfulRescale -o custom-columns=MESSAGE:.message
	echo "the autoscaler added pods: $(kubectl get pods -l app=assay-serve -o name | wc -l) now"
}
measured() { kubectl get hpa assay-serve -o jsonpath='{.status.currentMetrics[0].pods.current.averageValue}' | grep -q "$1"; }

# trains CONFIG: trains with one process, in a separate pod.
trains() {
	kubectl run "$1" --image=registry.example.org/assay:1 --restart=Never --overrides="{\"spec\": {\"containers\": [{\"name\": \"$1\",
		\"image\": \"registry.example.org/assay:1\", \"command\": [\"train\", \"--config=/run/assay/$1.yaml\"],
		\"volumeMounts\": [{\"name\": \"run\", \"mountPath\": \"/run/assay\"}]}],
		\"volumes\": [{\"name\": \"run\", \"persistentVolumeClaim\": {\"claimName\": \"run\"}}]}}"
	await 600 ended "$1"
	kubectl logs "$1" | tail -n 3
}
ended() { kubectl get pod "$1" -o jsonpath='{.status.phase}' | grep -qE 'Succeeded|Failed'; }
mpi() {
	local run pictures=testdata/oracle/images i launcher file
	load localhost/assay-mpi registry.example.org/assay-mpi:1
	claim run
	cp -r backbones/tiny "$WORK/run/backbone"
	cp $pictures/coffee.png $pictures/coffee_blur.png "$WORK/run/"
	for i in $(seq 240); do
		echo "{\"id\": \"$i\", \"group\": \"$((i / 4))\", \"source\": \"coffee.png\", \"edit\": \"coffee_blur.png\"," \
			"\"instruction\": \"turn $((i / 4))\", \"label\": $((i % 2))}"
	done >"$WORK/run/edits.jsonl"
	for run in alone scorer; do
		cat >"$WORK/run/$run.yaml" <<-END
			out: $run
			backbone: backbone
			steps: ${STEPS:-500}
			batch_size: 4
			micro_batch: 2
			threads: 1
			head: {hidden: [8]}
			data: {train: edits.jsonl, validation: 0.1}
			checkpoint: {steps: 10}
		END
	done
	kubectl apply --server-side -f build/kubernetes/operator/manifests/base/kubeflow.org_mpijobs.yaml
	await 60 kubectl get mpijobs
	kubectl apply --dry-run=server --validate=strict -f "$examples/train-mpijob.yaml"
	build/kubernetes/bin/operator -kubeConfig "$KUBECONFIG" -lock-namespace default >"$WORK/log/operator" 2>&1 &
	trains alone
	# Two workers with one rank each, instead of eight GPUs each.
	small train-mpijob.yaml | sed -e 's/slotsPerWorker: 8/slotsPerWorker: 1/' -e 's/"16"/"2"/' -e 's/gpu: "8"/gpu: "1"/' -e 's/"60"/"10"/' |
		kubectl apply --validate=strict -f -
	await 300 test -d "$WORK/run/scorer/checkpoints/step-10"
	launcher=$(kubectl get pods -l training.kubeflow.org/job-role=launcher --field-selector=status.phase=Running -o name)
	echo "deleting $launcher during training"
	kubectl delete "$launcher"
	await 600 mpifinished
	kubectl get pods -l training.kubeflow.org/job-name=assay-train
	grep -h '"msg":"start"' "$WORK/run/scorer/ranks/rank-0001.log"
	for file in adapter_model.safetensors head.safetensors; do cmp "$WORK/run/alone/scorer/$file" "$WORK/run/scorer/scorer/$file"; done
	echo "two ranks have the result of a single process"
}
mpifinished() { kubectl get mpijob assay-train -o jsonpath='{.status.conditions[?(@.status=="True")].type}' | grep -qE 'Succeeded|Failed'; }


made=$(buildah from scratch)
buildah add -q "$made" build/kubernetes/bin/pause /pause
buildah config --entrypoint '["/pause"]' "$made"
buildah commit -q "$made" localhost/pause:1 >/dev/null
buildah rm "$made" >/dev/null
load localhost/pause:1 localhost/pause:1
load localhost/assay registry.example.org/assay:1
for file in "$examples"/score*.yaml "$examples/serve.yaml"; do kubectl apply --dry-run=server --validate=strict -f "$file"; done
for part in $parts; do
	echo "=== $part"
	$part
done
echo "all tests passed: $parts"
