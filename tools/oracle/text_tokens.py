"""Steps of scorers whose samples have different numbers of text tokens, with torch, for internal/trainer/pooled_test.go: the text loss
is the cross-entropy over all target tokens of the batch, as in torch and in transformers with num_items_in_batch.

    python text_tokens.py FOLDER_OF_SCORER_PY ../../testdata/oracle ../../internal/trainer/testdata/text_tokens.zip

In the zip a run's folder holds run.json (rows, templates, and for each step loss, text loss and gradient norm) and
final.safetensors (trained tensors after the steps). per_sample is the text loss of a step as a mean over samples of their means:
a test that cannot tell the two apart is worthless.
"""
import json
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
import yaml
from pack import pack
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers.loss.loss_utils import fixed_cross_entropy

sys.path.insert(0, sys.argv[1])
from scorer import FAMILIES, Preprocessor, Scorer, head_tensors, make_head, pair_images

torch.set_num_threads(1)
fixtures, out = Path(sys.argv[2]), Path(tempfile.mkdtemp())
STEPS, SEED = 3, 7
OPTIMIZER = dict(lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01)
SHORT, LONG = "It is [SCORE].", "After a close look at both pictures the edit gets the score [SCORE], and no more than that."
ROWS = [  # source, edit, instruction, label; edits with the same source and instruction are a group
    ("coffee", "coffee_blur", "blur it", 0.9),
    ("coffee", "coffee", "blur it", 0.1),
    ("rocket", "rocket_grey", "Take every colour out of the picture, but leave all of its shapes, the tower and the smoke as they are.", 0.6),
    ("chelsea", "chelsea_mirror", "Mirror the cat, left to right, please!", 0.25),
    ("hubble", "hubble_bright_small", "brighter", 1.0),
]
RUNS = {
    "qwen3_vl_full": dict(family="qwen3_vl", scorer="scorer", mode="full", text_loss="all", answers=[SHORT]),
    "llavanext_lora": dict(family="llavanext", scorer="scorer_sequence", mode="lora", text_loss="all", answers=[SHORT]),
    "qwen2_5_vl_answers": dict(family="qwen2_5_vl", scorer="scorer", mode="lora", text_loss="answer", answers=[SHORT, LONG, " [SCORE]"]),
}


def mix(seed, purpose, *numbers):
    """Same as internal/trainer/dataset/order.go: the draw of a template is a function of seed, purpose, epoch and row."""
    mask = (1 << 64) - 1

    def finalise(z):
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31
    h = finalise(seed + 0x9E3779B97F4A7C15 * purpose & mask)
    for n in numbers:
        h = finalise(h + 0x9E3779B97F4A7C15 + n & mask)
    return h


def drawn(run, epoch, row):
    return run["answers"][mix(SEED, 4, epoch, row) * len(run["answers"]) >> 64]


def load(run):
    folder = fixtures / run["family"] / run["scorer"]
    if run["mode"] == "lora":
        scorer, pre, meta = Scorer.load(run["family"], folder)
        scorer.text_loss = run["text_loss"]
        return scorer, pre, meta, scorer.trainable()
    meta = yaml.safe_load((folder / "scorer.yaml").read_text())
    backbone = (folder / meta["backbone"]).resolve()
    base = FAMILIES[run["family"]][0].from_pretrained(backbone, dtype=torch.float32, attn_implementation="eager")
    named = dict(base.named_parameters())
    t = load_file(folder / "head.safetensors")
    head = make_head(base.config.text_config.hidden_size, meta["head"]["hidden"])
    with torch.no_grad():
        for name, p in head_tensors(head).items():
            p.copy_(t[name])
    shim = SimpleNamespace(base_model=SimpleNamespace(model=base))
    scorer = Scorer(shim, head, t["score_token.embedding"], t["score_token.lm_head"], None, run["text_loss"])
    pre = Preprocessor(run["family"], backbone, meta["score_token"], base.config.text_config.vocab_size)
    own = {**head_tensors(head), "score_token.embedding": scorer.embedding_row, "score_token.lm_head": scorer.lm_head_row}
    return scorer, pre, meta, {**named, **own}


def forward(scorer, pre, meta, row, answer):
    """Logits and ids of the row's target tokens, and its score loss."""
    source, edit, instruction, label = row
    picture = lambda name: fixtures / "images" / f"{name}.png"
    images = pair_images(meta["pair"], picture(source), picture(edit), meta.get("pair_size"))
    inputs, facts = pre(images, meta["question"].replace("[INSTRUCTION]", instruction), answer, meta["pair"])
    o = scorer(inputs, facts["answer_start"], facts["score_index"])
    first = scorer.first_predicted(facts["answer_start"])
    return o["text_logits"], inputs["input_ids"][0, first:], (o["score01"] - label).abs()


for name, run in RUNS.items():
    torch.manual_seed(3)
    scorer, pre, meta, trained = load(run)
    params = list({id(p): p for p in trained.values()}.values())
    for p in params:
        p.requires_grad_(True)
    optimizer = torch.optim.AdamW(params, foreach=False, **OPTIMIZER)
    trace = []
    for step in range(STEPS):  # a step is an epoch
        optimizer.zero_grad()
        parts = [forward(scorer, pre, meta, row, drawn(run, step, i)) for i, row in enumerate(ROWS)]
        text = cross_entropy(torch.cat([x for x, _, _ in parts]), torch.cat([ids for _, ids, _ in parts]))
        # the sum over micro-batches in transformers' Trainer
        accumulated = sum(fixed_cross_entropy(x, ids, num_items_in_batch=sum(len(i) for _, i, _ in parts)) for x, ids, _ in parts)
        assert abs(text.item() - accumulated.item()) < 1e-5
        score = sum(s for _, _, s in parts) / len(parts)
        loss = text + 10 * score
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params, 1.0)
        trace.append({"loss": loss.item(), "text": text.item(), "score": score.item(), "grad_norm": norm.item(),
                      "per_sample": sum(cross_entropy(x, ids).item() for x, ids, _ in parts) / len(parts),
                      "targets": [len(ids) for _, ids, _ in parts]})
        optimizer.step()
    folder = out / name
    folder.mkdir()
    rows = [{"source": s, "edit": e, "instruction": i, "label": l} for s, e, i, l in ROWS]
    (folder / "run.json").write_text(json.dumps({**run, "seed": SEED, "rows": rows, "steps": trace, "optimizer": OPTIMIZER}, indent=1) + "\n")
    small = {n: p for n, p in trained.items() if p.numel() <= 200 or ".layers.1.mlp.down_proj." in n}
    save_file({n: p.detach().contiguous().clone() for n, p in small.items()}, folder / "final.safetensors")
    print(name, trace[0], trace[-1], len(small), sum(p.numel() for p in small.values()))
pack(out, sys.argv[3])
shutil.rmtree(out)
