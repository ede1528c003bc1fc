"""llama.cpp's side of bench generate: tokens per second of prompts and answers, one and eight at a time.

    generate_llama.py DIR PROMPT_TOKENS NEW_TOKENS [--type F32|Q4_0]

Writes the language model of a Qwen2.5-VL checkpoint (in Qwen2's architecture) as GGUF next to it, with an artificial
vocabulary, and runs token ids: the work for a token does not depend on which one it is. `make bench` does not install
its dependencies: pip install llama-cpp-python gguf.
"""

import argparse
import ctypes
import json
import os
import time
from pathlib import Path

import gguf
import llama_cpp as L
import numpy as np
from safetensors import safe_open

SHORT, MANY = 16, 8
LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}


def tensors(folder):
    """(name in GGUF, array) of the language model."""
    for file in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(file, "np") as f:
            for key in f.keys():
                name = key.removeprefix("model.").removeprefix("language_model.")
                if name.startswith("visual"):
                    continue
                if name.startswith("layers."):
                    _, i, rest = name.split(".", 2)
                    for ours, theirs in LAYER.items():
                        if rest.startswith(ours):
                            yield f"blk.{i}.{theirs}{rest[len(ours) :]}", f.get_tensor(key)
                            break
                    else:
                        raise SystemExit(f"{key}: unknown tensor")
                else:
                    yield (
                        {
                            "embed_tokens.weight": "token_embd.weight",
                            "norm.weight": "output_norm.weight",
                            "lm_head.weight": "output.weight",
                        }[name],
                        f.get_tensor(key),
                    )


def write(folder, out, kind):
    c = json.loads((Path(folder) / "config.json").read_text())
    t = c.get("text_config", c)
    w = gguf.GGUFWriter(out, "qwen2")
    w.add_block_count(t["num_hidden_layers"])
    w.add_context_length(4096)
    w.add_embedding_length(t["hidden_size"])
    w.add_feed_forward_length(t["intermediate_size"])
    w.add_head_count(t["num_attention_heads"])
    w.add_head_count_kv(t["num_key_value_heads"])
    w.add_layer_norm_rms_eps(t["rms_norm_eps"])
    w.add_rope_freq_base(float(t.get("rope_theta") or t["rope_parameters"]["rope_theta"]))
    w.add_vocab_size(t["vocab_size"])
    w.add_tokenizer_model("gpt2")  # without a vocabulary it crashes
    w.add_token_list([f"t{i}" for i in range(t["vocab_size"])])
    w.add_token_types([1] * t["vocab_size"])
    w.add_token_merges(["t 0"])
    for name, x in tensors(folder):
        x = x.astype(np.float32)
        if kind != "F32" and x.ndim == 2 and not name.startswith("token_embd"):
            to = gguf.GGMLQuantizationType[kind]
            w.add_tensor(name, gguf.quants.quantize(x, to), raw_dtype=to)
        else:
            w.add_tensor(name, x)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("prompt", type=int)
    p.add_argument("new", type=int)
    p.add_argument("--type", default="Q4_0")
    p.add_argument(
        "--plain",
        action="store_true",
        help="do not repack weights; this also turns off AMX, which some virtual machines forbid",
    )
    a = p.parse_args()
    path = f"{a.folder.rstrip('/')}-{a.type}.gguf"
    if not os.path.exists(path):
        write(a.folder, path, a.type)
    quiet = None if os.environ.get("LLAMA_LOG") else L.llama_log_callback(lambda *_: None)
    if quiet:
        L.llama_log_set(quiet, ctypes.c_void_p(0))
    ctypes.CDLL(None).syscall(158, 0x1023, 18)  # arch_prctl: permission to use AMX, if the CPU has it
    L.llama_backend_init()
    load = L.llama_model_default_params()
    load.use_extra_bufts = not a.plain
    model = L.llama_model_load_from_file(path.encode(), load)
    o = L.llama_context_default_params()
    o.n_ctx, o.n_batch, o.n_ubatch, o.n_seq_max, o.n_threads, o.n_threads_batch = (
        4096,
        4096,
        512,
        MANY,
        os.cpu_count(),
        os.cpu_count(),
    )
    context = L.llama_init_from_model(model, o)
    memory = L.llama_get_memory(context)

    def decode(sequences, first, count):
        """Runs count tokens of each sequence, starting at position first; returns the last logits."""
        batch = L.llama_batch_init(sequences * count, 0, 1)
        for s in range(sequences):
            for k in range(count):
                i = s * count + k
                batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = (
                    1 + (i % 1000),
                    first + k,
                    1,
                    s,
                    k == count - 1,
                )
        batch.n_tokens = sequences * count
        assert L.llama_decode(context, batch) == 0
        L.llama_synchronize(context)
        L.llama_batch_free(batch)

    results = {}
    for round in range(3):
        for n in (1, MANY):
            L.llama_memory_clear(memory, True)
            t = time.perf_counter()
            decode(n, 0, a.prompt)
            prefill = n * a.prompt / (time.perf_counter() - t)
            L.llama_memory_clear(memory, True)
            decode(n, 0, SHORT)
            t = time.perf_counter()
            for i in range(a.new):
                decode(n, SHORT + i, 1)
            made = n * a.new / (time.perf_counter() - t)
            if round:
                for name, rate in ((f"prefill_{n}", prefill), (f"decode_{n}", made)):
                    results[name] = max(results.get(name, 0), rate)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
