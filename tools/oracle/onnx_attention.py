"""Writes the onnx package's own Attention cases in which rows see no key, or only a window: one model per case with the inputs as
initializers, and the outputs of its reference evaluator as initializers named want/OUTPUT.

    onnx_attention.py FOLDER && pack.py FOLDER onnx/grad/testdata/attention.zip
"""
import sys
import warnings
from pathlib import Path

import onnx
from onnx import numpy_helper

CASES = """attention_23_boolmask_fullymasked_row_nan_robustness attention_23_fullymasked_qk_matmul_output_mode3_zero
    attention_causal_boolmask_nan_robustness attention_4d_gqa_causal_nonpad_decode attention_4d_causal_nonpad_continued_prefill
    attention_4d_causal_nonpad_negative_offset_structural_empty attention_4d_causal_nonpad_attn_mask_composition
    attention_4d_diff_heads_mask4d_padded_kv attention_local_window attention_bidirectional_window
    attention_local_window_with_past attention_local_window_ext_cache_rank3_head_mask attention_3d_local_window
    attention_4d_gqa_softcap attention_4d_diff_heads_with_past_and_present_mask4d""".split()

warnings.simplefilter("ignore")
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for case in collect_testcases():
    name = case.name.removeprefix("test_")
    if name not in CASES:
        continue
    model, (inputs, outputs) = case.model, case.data_sets[0]
    model.ir_version = 11
    for v, a in zip(model.graph.input, inputs):
        model.graph.initializer.append(numpy_helper.from_array(a, v.name))
    for v, a in zip(model.graph.output, outputs):
        model.graph.initializer.append(numpy_helper.from_array(a, "want/" + v.name))
    onnx.save(model, folder / f"{name}.onnx")
    print(name, (folder / f"{name}.onnx").stat().st_size)
