"""Writes internal/kernels/cuda.txt: the kernels that ONNX Runtime's CUDA provider registers, read from the registry
of the pinned release itself. It needs no GPU and no CUDA: the provider is loaded with the stub libraries of
tools/gpu/stub.py, and lists its kernels.

    python -m pip download --no-deps onnxruntime-gpu==1.31.1 && unzip -q -d release onnxruntime_gpu-*.whl
    python tools/oracle/cuda_kernels.py release internal/kernels/cuda.txt internal/kernels/testdata/placed.txt

The second file lists where sessions of that release place the nodes of ONNX's own tests: the table is tested against it.
Needs Linux, gcc and binutils (nm). The interpreter's Python version must be the release's.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../gpu"))
import stub  # noqa: E402

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when onnxruntime is loaded

OPEN = 2**31 - 1         # the last version of an open-ended kernel
OLDEST, NEWEST = 13, 25  # opsets


def places(schema, constraint):
    """The inputs and outputs of a kernel's type constraint: by type parameter, or by their own name."""
    def of(kind, args):
        return [f"{kind}{k}" for k, a in enumerate(args) if a.typeStr == constraint]

    def named(kind, args):
        return [f"{kind}{k}" for k, a in enumerate(args) if a.name == constraint]
    return (of("i", schema.inputs) + of("o", schema.outputs)) or (named("i", schema.inputs) + named("o", schema.outputs))


def merge(rows):
    """Merges kernels that differ only in the types of one constraint."""
    rows = [{k: frozenset(v) for k, v in r.items()} for r in rows]
    changed = True
    while changed:
        changed = False
        for i in range(len(rows)):
            for j in range(len(rows) - 1, i, -1):
                if rows[i].keys() != rows[j].keys():
                    continue
                differ = [k for k in rows[i] if rows[i][k] != rows[j][k]]
                if len(differ) <= 1:
                    for k in differ:
                        rows[i][k] = rows[i][k] | rows[j][k]
                    del rows[j]
                    changed = True
    return rows


def table():
    """The lines of the table, sorted."""
    import onnxruntime.capi.onnxruntime_pybind11_state as state
    schemas = {}
    for s in state.get_all_operator_schema():
        schemas.setdefault((s.domain, s.name), []).append(s)
    kernels, without = {}, set()
    for (domain, op), versions in schemas.items():
        for s in versions:
            newer = [t.since_version for t in versions if t.since_version > s.since_version]
            if domain in ("", "com.microsoft") and not (domain == "" and newer and min(newer) <= OLDEST):
                without.add((domain, op, s.since_version))
    for k in state.get_all_opkernel_def():
        first, last = k.version_range
        for s in schemas.get((k.domain, k.op_name), []):
            since = s.since_version
            # An open-ended kernel only supports the version that it was written for.
            if k.provider != "CUDAExecutionProvider" or (k.domain, k.op_name, since) not in without or \
                    since != first and (last == OPEN or not first <= since <= last):
                continue
            row = {}
            for constraint, types in k.type_constraints.items():
                at = places(s, constraint)
                if not at:
                    sys.exit(f"{k.domain} {k.op_name} {k.version_range}: what is {constraint}?")
                row[",".join(at)] = [re.sub(r"tensor\((\w+)\)", r"\1", t) for t in types]
            kernels.setdefault((k.domain, k.op_name, since, first, last), []).append(row)
    for domain, op, since in without - {k[:3] for k in kernels}:
        yield f"{domain or 'ai.onnx'} {op} {since} none"
    for (domain, op, since, first, last), rows in sorted(kernels.items()):
        written = f"{first}+" if last == OPEN else f"{first}-{last}"
        for row in sorted(" ".join(f"{k}={','.join(sorted(v))}" for k, v in sorted(r.items())) for r in merge(rows)):
            yield f"{domain or 'ai.onnx'} {op} {since} {written} {row}".rstrip()


def placed(model):
    """Where a session places the only node of a model: CUDA, CPU, or None if the log does not tell."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 0  # node placement is only logged
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with tempfile.TemporaryFile("w+") as log:
        shown = os.dup(1), os.dup(2)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            onnxruntime.InferenceSession(model, options, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
        except Exception:
            pass  # maybe after node placement, when it allocates device memory
        finally:
            for to, old in enumerate(shown, 1):
                os.dup2(old, to)
                os.close(old)
        log.seek(0)
        where = re.search(r"All nodes placed on \[(CPU|CUDA)\w+\]. Number of nodes: 1\b", log.read())
    return where and where[1]  # of several nodes: the operator was a function, and the session expanded it


def placements():
    """Lines with the placement of the nodes of ONNX's own tests: operator, types of inputs and outputs, opsets."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases
    seen = set()
    for case in collect_testcases(None):
        m = case.model
        if m is None or len(m.graph.node) != 1 or m.graph.initializer or any(a.HasField("g") for a in m.graph.node[0].attribute):
            continue
        node, types = m.graph.node[0], {}
        for v in list(m.graph.input) + list(m.graph.output):
            kind = v.type.tensor_type.elem_type if v.type.HasField("tensor_type") else 0
            types[v.name] = onnx.TensorProto.DataType.Name(kind).lower() if kind else None
        names = [[types.get(n) if n else "-" for n in part] for part in (node.input, node.output)]
        if node.domain or None in names[0] + names[1]:
            continue
        line = f"{node.op_type} {','.join(names[0]) or '-'} {','.join(names[1])}"
        if line in seen:
            continue
        seen.add(line)
        spans = []  # of opsets with the same placement
        for opset in range(OLDEST, NEWEST + 1):
            del m.opset_import[:]
            m.opset_import.add(version=opset)
            m.ir_version = 10
            where = placed(m.SerializeToString())
            if where and spans and spans[-1][1:] == [opset - 1, where]:
                spans[-1][1] = opset
            elif where:
                spans.append([opset, opset, where])
        for first, last, where in spans:
            yield f"{line} {first}-{last} {where}"



def main():
    release, to = os.path.abspath(sys.argv[1]), sys.argv[2]
    if "LISTING" not in os.environ:  # LD_LIBRARY_PATH is only read when a process starts
        with tempfile.TemporaryDirectory() as folder:
            stub.build(folder, *(f"{release}/onnxruntime/capi/libonnxruntime_providers_{p}.so" for p in ("cuda", "tensorrt")))
            env = dict(os.environ, LISTING="1", LD_LIBRARY_PATH=folder, PYTHONPATH=release, STUB_LOG=os.devnull)
            sys.exit(subprocess.run([sys.executable, __file__, release] + sys.argv[2:], env=env).returncode)
    import onnxruntime
    lines = [f"# Kernels of ONNX Runtime {onnxruntime.__version__}'s CUDA provider, by tools/oracle/cuda_kernels.py: domain, operator,",
             "# version of the operator, versions that the kernel is registered for or none, types of inputs (i0, i1...) and outputs."]
    with open(to, "w") as f:
        f.write("\n".join(lines + sorted(table(), key=lambda line: (line.split()[:2], int(line.split()[2]), line))) + "\n")
    with open(sys.argv[3], "w") as f:
        f.write("\n".join(sorted(placements())) + "\n")


main()
