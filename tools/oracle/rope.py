"""Rotary frequencies from transformers for text_configs in both spellings: model/testdata/rope.json."""
import json
from pathlib import Path

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLTextConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLRotaryEmbedding

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "max_position_embeddings": 4096}
QWEN = {"model_type": "qwen2_5_vl_text", "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 4096}
YARN = {"factor": 4.0, "original_max_position_embeddings": 1024}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 256}
CASES = [
    LLAMA,
    {**LLAMA, "rope_theta": 500000.0, "rope_scaling": None},
    {**LLAMA, "rope_theta": 100.0, "rope_scaling": {"type": "linear", "factor": 2.5, "attention_factor": 0.5}},
    {**LLAMA, "rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 4}},
    {**LLAMA, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e6, "factor": 1.7}},
    {**LLAMA, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, **LLAMA3}},
    {**LLAMA, "rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn", **YARN}},
    {**LLAMA, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, **YARN, "truncate": False, "beta_fast": 16, "beta_slow": 2}},
    {**LLAMA, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, **YARN, "factor": None, "mscale": 0.7, "mscale_all_dim": 1.2}},
    {**LLAMA, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 2.0, "attention_factor": 0.8}},
    {**LLAMA, "rope_parameters": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.4, "factor": 2.0}},
    {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5}},
    {**LLAMA, "head_dim": 24, "rope_theta": 1e4},
    {**QWEN, "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}},
    {**QWEN, "rope_theta": 1e5, "rope_scaling": {"type": "default", "rope_type": "default", "mrope_section": [4, 6, 6]}},
    {**QWEN, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, **YARN, "mrope_section": [4, 6, 6]}},
]


def main():
    out = []
    for c in CASES:
        fields = {k: v for k, v in json.loads(json.dumps(c)).items() if k != "model_type"}
        config, rotary = (LlamaConfig, LlamaRotaryEmbedding) if c["model_type"] == "llama" else (Qwen2_5_VLTextConfig, Qwen2_5_VLRotaryEmbedding)
        r = rotary(config(**fields))
        out.append({"config": c, "attention": float(r.attention_scaling), "inv_freq": [float(x) for x in r.inv_freq]})
    path = Path(__file__).resolve().parents[2] / "model/testdata/rope.json"
    path.write_text("[\n" + ",\n".join(json.dumps(x) for x in out) + "\n]\n")


if __name__ == "__main__":
    main()
