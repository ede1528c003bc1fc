"""Gradients of an ONNX model by central differences of a third-party forward pass, in double precision if possible.

The loss is sum(output * cotangent) over the floating-point outputs. If the function has a kink or a jump within the step,
the derivative is NaN.
"""
import os
import time

import numpy
import onnx

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when onnxruntime is loaded
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOATS = {T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE}
TYPED = {"to", "dtype"}  # attributes that name an element type


def double_tensor(t):
    if t.data_type not in FLOATS:
        return t
    return numpy_helper.from_array(numpy_helper.to_array(t).astype(numpy.float64), t.name)


def double_graph(g):
    for v in (*g.input, *g.output, *g.value_info):
        if v.type.tensor_type.elem_type in FLOATS:
            v.type.tensor_type.elem_type = T.DOUBLE
    for t in g.initializer:
        t.CopyFrom(double_tensor(t))
    for n in g.node:
        for a in n.attribute:
            if a.name in TYPED and a.i in FLOATS:
                a.i = T.DOUBLE
            elif a.type == a.TENSOR:
                a.t.CopyFrom(double_tensor(a.t))
            elif a.type == a.GRAPH:
                double_graph(a.g)
            elif n.op_type == "Constant" and a.name in ("value_float", "value_floats"):
                values = numpy.array(a.f if a.name == "value_float" else list(a.floats), numpy.float64)
                a.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(values)))
        if n.op_type == "ConstantOfShape" and not n.attribute:  # float zero by default
            n.attribute.append(helper.make_attribute("value", numpy_helper.from_array(numpy.zeros(1))))


def double(model):
    """The same model with all floating-point values in double precision."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    double_graph(m.graph)
    return m


class Runtime:
    """ONNX Runtime, one thread."""

    def __init__(self, model):
        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads = 1
        o.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])

    def __call__(self, feeds):
        return self.session.run(None, feeds)


class Reference:
    """The onnx package's own evaluator, in Python."""

    def __init__(self, model):
        self.evaluator = ReferenceEvaluator(model)

    def __call__(self, feeds):
        return self.evaluator.run(None, feeds)


class Forward:
    """One evaluator of one model. `wide`: it computes in double precision throughout, so that a tiny step and a small one
    see the same slope."""

    def __init__(self, make, model, wide, name):
        self.wide, self.name, self.seconds = wide, name, 0.0  # seconds of one run
        self.run = make(double(model) if wide else model)

    def outputs(self, feeds):
        if self.wide:
            feeds = {k: v.astype(numpy.float64) if is_float(v) else v for k, v in feeds.items()}
        return self.run(feeds)

    def rounds(self, feeds, cotangents, direction):
        """Whether a value between inputs and outputs is rounded to single precision."""
        here, tiny, small = (loss(self, feeds, cotangents, direction, s) for s in (0, 1e-8, 1e-5))
        slope = (small - here) / 1e-5
        return not abs((tiny - here) / 1e-8 - slope) <= 1e-2 * (1 + abs(slope) + 1e-6 * abs(here))


def forwards(model, at, want):
    """The evaluators that output `want` for the feeds `at`, best first; then the reasons why the others do not."""
    failed = []
    for make, wide, name in ((Runtime, True, "ONNX Runtime in double"), (Reference, True, "onnx.reference in double"),
                             (Runtime, False, "ONNX Runtime in single"), (Reference, False, "onnx.reference in single")):
        try:
            with numpy.errstate(all="ignore"):
                forward = Forward(make, model, wide, name)
                begin = time.process_time()
                got = forward.outputs(at)
                forward.seconds = time.process_time() - begin
        except Exception as e:  # noqa: BLE001 the next evaluator may support what this one lacks
            failed.append(f"{name}: {type(e).__name__}")
            continue
        if all(agrees(g, w) for g, w in zip(got, want, strict=True)):
            yield forward
        else:
            failed.append(f"{name}: different outputs")
    yield "; ".join(failed)


def is_float(a):
    return isinstance(a, numpy.ndarray) and (a.dtype.kind == "f" or a.dtype.name == "bfloat16")


def agrees(got, want):
    if not isinstance(want, numpy.ndarray):
        return True
    if got is None or got.shape != want.shape:
        return False
    if not is_float(want):
        return got.dtype.kind not in "biu" or want.dtype.kind not in "biu" or bool((got == want).all())
    loose = 1e-3 if want.dtype.itemsize > 2 else 2e-2
    return bool(numpy.allclose(got.astype(numpy.float64), want.astype(numpy.float64), rtol=loose, atol=loose, equal_nan=True))


def loss(forward, feeds, cotangents, direction, step):
    moved = dict(feeds)
    for k, d in direction.items():
        x = numpy.asarray(feeds[k].astype(numpy.float64) + step * d)
        moved[k] = x if forward.wide else x.astype(feeds[k].dtype)
    ys = forward.outputs(moved)
    if any(c is not None and y.shape != c.shape for y, c in zip(ys, cotangents)):
        return numpy.nan  # the shape of an output depends on values
    return sum(weighed(y, c).sum() for y, c in zip(ys, cotangents) if c is not None)


def weighed(y, c):
    """The loss per element; elements without weight may be infinite."""
    return numpy.where(c == 0, 0, y.astype(numpy.float64)) * c


def derivatives(forward, feeds, cotangents, along):
    """The derivative of the loss along each of `along`: dictionaries from inputs to directions. NaN where there is none."""
    h, sure = (1e-5, 1e-4) if forward.wide else (4e-3, 2e-2)
    here = loss(forward, feeds, cotangents, {}, 0)
    if not numpy.isfinite(here):
        return numpy.full(len(along), numpy.nan)
    size = sum(numpy.abs(weighed(y, c)).sum() for y, c in zip(forward.outputs(feeds), cotangents) if c is not None)
    out = []
    for direction in along:
        near, far = ([loss(forward, feeds, cotangents, direction, s * k * h) for s in (1, -1)] for k in (1, 2))
        middle = (near[0] - near[1]) / (2 * h)
        noise = (1e-15 if forward.wide else 1e-7) * size / h
        scale = sure * (1 + abs(middle)) + noise
        steady = abs((far[0] - far[1]) / (4 * h) - middle) <= scale
        # How much the slopes of the two sides differ: h y'' if the function is smooth, independent of h at a kink.
        bend, wider = (abs(s[0] + s[1] - 2 * here) / (k * h) for k, s in ((1, near), (2, far)))
        smooth = bend <= scale or 1.5 < wider / bend < 2.5
        out.append(middle if steady and smooth else numpy.nan)
    return numpy.array(out)
