"""Generation of transformers with a sliding window: writes internal/generate/testdata/sliding.json.

The checkpoint is the LLaVA-NeXT fixture with its language model declared as Mistral with a window, so that the last
tokens do not see the first ones. Greedy decoding with a repetition penalty, text only.
"""
import json
import pathlib
import tempfile

import torch
from transformers import AutoTokenizer, GenerationConfig, LlavaNextForConditionalGeneration

ROOT = pathlib.Path(__file__).resolve().parents[2]
BACKBONE = ROOT / "testdata/oracle/llavanext/backbone"
WINDOW, NEW, PENALTY = 20, 40, 1.3
QUESTION = "The second picture is an edit of the first one: make the sky purple, and blur all that lies in front of it."


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for file in BACKBONE.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        config = json.loads((folder / "config.json").read_text())
        text = config["text_config"]
        text.update(model_type="mistral", sliding_window=WINDOW)
        for key in ("attention_bias", "mlp_bias", "pretraining_tp"):
            text.pop(key, None)
        (folder / "config.json").write_text(json.dumps(config))
        model = LlavaNextForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        messages = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        generation = GenerationConfig.from_pretrained(folder)
        generation.update(max_new_tokens=NEW, do_sample=False, repetition_penalty=PENALTY, return_dict_in_generate=True,
                          output_logits=True, output_scores=True)
        with torch.no_grad():
            out = model.generate(ids, generation_config=generation)
        new = out.sequences[0, ids.shape[1]:]
        logits = torch.stack(out.logits)[:, 0]
        top = torch.stack(out.scores)[:, 0].topk(2, -1).values
        log_probs = logits.log_softmax(-1)[range(len(new)), new]
    result = {"text_config": text, "question": QUESTION, "repetition_penalty": PENALTY, "max_new_tokens": NEW,
              "input_ids": ids[0].tolist(), "new_ids": new.tolist(), "log_probs": [round(v, 6) for v in log_probs.tolist()],
              "smallest_margin": round(float((top[:, 0] - top[:, 1]).min()), 6)}
    out = ROOT / "internal/generate/testdata/sliding.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(result["smallest_margin"], len(result["input_ids"]), len(result["new_ids"]))


main()
