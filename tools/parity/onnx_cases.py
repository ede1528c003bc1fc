"""The onnx package's own node tests as tests of gradients: `train grad` of every case with floating-point inputs and outputs,
compared with central differences. A gradient is right or refused; each refusal is in onnx_refusals.txt with its reason.

    onnx_cases.py --work FOLDER [--only PATTERN] [--update]

A case runs with a node after each of its outputs, so that their types are not declared but must be inferred, and with its inputs
moved a little, away from kinks and ties. With ASSAY_LONG_SHARD=3/8, only the cases of that shard run (internal/long).
"""
import argparse
import fnmatch
import os
import sys
import warnings
import zlib
from pathlib import Path

import numpy
import onnx
from onnx import helper

import strangers
from differences import FLOATS, derivatives, forwards, is_float

OLDEST, NEWEST = 13, 25  # opsets that train grad supports
MOST = 80  # elements of an input that are moved one at a time; further directions move all elements
DIRECTIONS = 6
BUDGET = 4  # seconds for a case's forward passes; slow evaluators compute fewer derivatives, of four passes each
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def cases():
    """The node tests that have a model with floating-point inputs and outputs, by name."""
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

    found = {}
    for c in collect_testcases():
        if c.model is not None and any(map(floating, c.model.graph.input)) and any(map(floating, c.model.graph.output)):
            found[c.name.removeprefix("test_")] = c
    return found


def floating(v):
    return v.type.WhichOneof("value") == "tensor_type" and v.type.tensor_type.elem_type in FLOATS


def prepared(case):
    """The case's model in a supported opset, with a node after each floating-point output; None if there is no such opset."""
    m = onnx.ModelProto()
    m.CopyFrom(case.model)
    for o in m.opset_import:
        if o.domain in ("", "ai.onnx") and not OLDEST <= o.version <= NEWEST:
            o.version = min(max(o.version, OLDEST), NEWEST)
            try:
                onnx.checker.check_model(m, full_check=True)
            except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
                return None
    m.ir_version = min(m.ir_version, 11)
    if not any(o.domain in ("", "ai.onnx") for o in m.opset_import):
        m.opset_import.append(helper.make_opsetid("", NEWEST))
    outputs = list(m.graph.output)
    del m.graph.output[:]
    for v in outputs:
        if floating(v):
            m.graph.node.append(helper.make_node("Neg", [v.name], [v.name + "/after"]))
            v.name += "/after"
        m.graph.output.append(v)
    return m


def moved(rng, x):
    """A floating-point array, slightly perturbed."""
    wide = x.astype(numpy.float64)
    finite = numpy.where(numpy.isfinite(wide), wide, 0)
    return numpy.asarray(wide + 0.01 * rng.uniform(-1, 1, x.shape) * numpy.maximum(numpy.abs(finite), 0.1)).astype(x.dtype)


def check(name, case, non_differentiable, work):
    """The verdict on one case: ("right" | "refused" | "wrong" | "unchecked", why)."""
    rng = numpy.random.default_rng(zlib.crc32(name.encode()))
    m = prepared(case)
    if m is None:
        return "refused", "its opset is not supported"
    given, made = ([array(a) for a in arrays] for arrays in case.data_sets[0])
    if any(a is None for a in given):
        return "refused", "an input is a sequence, an optional or omitted"
    feeds = {v.name: a for v, a in zip(m.graph.input, given)}
    if random(m.graph, feeds):
        return "unchecked", "it draws random numbers"
    wants = [-a if floating(v) else a for v, a in zip(m.graph.output, made)]
    wrt = [k for k, a in feeds.items() if is_float(a) and k not in non_differentiable(case.model.graph)]
    if not wrt:
        return "refused", "all floating-point inputs are declared to carry no gradient"
    at = feeds | {k: moved(rng, feeds[k]) for k in wrt}
    cotangents = {v.name: numpy.where(numpy.isfinite(a.astype(numpy.float64)), rng.standard_normal(a.shape), 0).astype(a.dtype) for v, a in zip(m.graph.output, wants) if floating(v)}
    folder = work / name
    answer = strangers.train_grad(folder, m, at, cotangents, wrt)
    if isinstance(answer, strangers.Refusal):
        return ("wrong" if answer.crashed else "refused"), answer.reason
    cts = [cotangents[v.name].astype(numpy.float64) if v.name in cotangents else None for v in m.graph.output]
    why = ""
    for forward in forwards(m, feeds, wants):
        if isinstance(forward, str):
            return "unchecked", why or f"no forward to compare with: {forward}"
        with numpy.errstate(all="ignore"):
            if forward.wide and forward.rounds(at, cts, {k: rng.standard_normal(at[k].shape) for k in wrt}):
                continue
            said, why = compare(answer, forward, at, cts, wrt, rng)
        if said != "unchecked":
            return said, why


def array(a):
    """A value of a case as an array; None if it is not one."""
    if isinstance(a, onnx.TensorProto):
        a = onnx.numpy_helper.to_array(a)
    return numpy.asarray(a) if isinstance(a, (numpy.ndarray, numpy.generic)) else None


def random(graph, feeds):
    training = any(n.op_type == "Dropout" and len(n.input) > 2 and feeds.get(n.input[2], False) for n in graph.node)
    return training or any(n.op_type in RANDOM for n in graph.node)


def compare(answer, forward, at, cts, wrt, rng):
    pairs = []
    for k in wrt:
        got = answer[k].astype(numpy.float64)
        if got.shape != at[k].shape:
            return "wrong", f"the gradient of {k} has shape {got.shape}, want {at[k].shape}"
        if got.size == 0:
            continue
        most = MOST if "Runtime" in forward.name else MOST // 4
        most = min(most, max(2, int(BUDGET / len(wrt) / (4 * forward.seconds + 1e-9))))
        picked = numpy.arange(got.size) if got.size <= most else rng.choice(got.size, most, replace=False)
        along = [numpy.eye(1, got.size, i).reshape(got.shape) for i in picked]
        along += [rng.standard_normal(got.shape) for _ in range(min(DIRECTIONS, most))]
        pairs += [(k, (got * d).sum(), numpy.abs(got * d).sum(), want) for d, want in
                  zip(along, derivatives(forward, at, cts, [{k: d} for d in along]))]
    return verdict(pairs, forward, min(at[k].dtype.itemsize for k in wrt))


def verdict(pairs, forward, itemsize):
    if not pairs:
        return "right", "no elements"
    seen = [p for p in pairs if numpy.isfinite(p[3])]
    if len(seen) < len(pairs) / 2:
        return "unchecked", "no derivative at most points"
    tolerance = 2e-2 if itemsize < 4 else 1e-3 if forward.wide else 3e-2
    largest = max(abs(want) for *_, want in seen)
    worst, said = 0, ""
    for k, got, mass, want in seen:
        off = abs(got - want) / (tolerance * (abs(want) + 0.1 * largest + 0.1 * mass + 1e-2))
        if not off <= worst:
            worst, said = off, f"the gradient of {k} is {got:.6g}, differences of {forward.name} are {want:.6g} ({off:.2g} times the tolerance)"
    return ("wrong", said) if not worst <= 1 else ("right", forward.name)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--work", required=True, type=Path)
    p.add_argument("--only", default="*", help="names of cases, with * and ?")
    p.add_argument("--update", action="store_true", help="rewrite the list of refusals")
    a = p.parse_args()
    shard, shards = map(int, os.environ.get("ASSAY_LONG_SHARD", "0/1").split("/"))
    found = {n: c for n, c in cases().items() if fnmatch.fnmatch(n, a.only) and zlib.crc32(n.encode()) % shards == shard}
    non_differentiable = strangers.non_differentiable_inputs()
    report = strangers.run_all({n: (check, n, c, non_differentiable, a.work) for n, c in found.items()})
    sys.exit(strangers.judge(report, Path(__file__).with_name("onnx_refusals.txt"), a.update, whole=a.only == "*" and shards == 1))


if __name__ == "__main__":
    main()
