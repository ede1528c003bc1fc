"""The rate of plain float32 products on this machine, for the shares in docs/decisions/speed.md.

The products are rows x 1024 by 1024 x 2816 and by 1024 x 1024, as in the model of that page. PyTorch computes them, and
ONNX Runtime with weights that it packs and with weights that it cannot pack.

    build/venv/bin/python lab/bench/products.py
"""

import os
import time

import numpy
import torch
from onnx import TensorProto, helper, numpy_helper

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reads it when it is loaded
import onnxruntime

ROWS, WIDTH, SECONDS = 1112, 1024, 3.0


def rate(flop, run):
    """The best rate of all runs within SECONDS, GFLOP/s."""
    run()
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return flop / best / 1e9


def session(weight, packed):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, WIDTH])]
    if not packed:
        inputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, list(weight.shape)))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, weight.shape[1]])],
        [numpy_helper.from_array(weight, "w")] if packed else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count()
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def main():
    torch.set_num_threads(os.cpu_count())
    generator = numpy.random.default_rng(1)
    x = generator.standard_normal((ROWS, WIDTH), dtype=numpy.float32)
    for columns in (2816, 1024):
        weight = generator.standard_normal((WIDTH, columns), dtype=numpy.float32)
        flop = 2 * ROWS * WIDTH * columns
        a, b = torch.from_numpy(x), torch.from_numpy(weight.T.copy())
        packed, plain = session(weight, True), session(weight, False)
        print(
            f"{ROWS} x {WIDTH} x {columns}:"
            f" PyTorch {rate(flop, lambda: torch.nn.functional.linear(a, b)):.0f} GFLOP/s,"
            f" ONNX Runtime {rate(flop, lambda: packed.run(None, {'x': x})):.0f} packed,"
            f" {rate(flop, lambda: plain.run(None, {'x': x, 'w': weight})):.0f} as they lie",
            flush=True,
        )


if __name__ == "__main__":
    main()
