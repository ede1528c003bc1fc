"""Answers that follow a grammar: the allowed next tokens, by partial matches of a regular expression over bytes, and the answers
that transformers generates with them. Writes internal/generate/testdata/constrained.json and .safetensors.

    build/venv/bin/python tools/oracle/constrained.py
"""
import hashlib
import json
import random
from pathlib import Path

import regex
import torch
from safetensors.torch import save_file
from transformers import AutoModelForImageTextToText, AutoTokenizer, LogitsProcessorList
from transformers.generation import logits_process as lp
from transformers.convert_slow_tokenizer import bytes_to_unicode

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "internal" / "generate" / "testdata"
FAMILIES = ("llavanext", "qwen2_5_vl")
WS = rb"[ \n\t]{0,12}"
HEX = rb"[0-9a-fA-F]"
TRAIL = rb"[\x80-\xbf]"
CHAR = (rb'(?:[\x20\x21\x23-\x5b\x5d-\x7f]|[\xc2-\xdf]T|\xe0[\xa0-\xbf]T|[\xe1-\xec\xee\xef]TT|\xed[\x80-\x9f]T|'
        rb'\xf0[\x90-\xbf]TT|[\xf1-\xf3]TTT|\xf4[\x80-\x8f]TT|\\(?:["\\/bfnrt]|u(?:[0-9a-cA-CefEF]HHH|[dD][0-7]HH|'
        rb'[dD][89abAB]HH\\u[dD][c-fC-F]HH)))').replace(b"T", TRAIL).replace(b"H", HEX)
TEXT = rb'"' + CHAR + rb'*"'
TEN = rb"(?:10(?:\.0{1,6})?|[0-9](?:\.[0-9]{1,6})?)"
TWENTYFIVE = rb"(?:25(?:\.0{1,6})?|(?:1?[0-9]|2[0-4])(?:\.[0-9]{1,6})?)"
COUNT = rb"(?:[1-9]|[1-9][0-9]|100)"


def pair(number):
    return rb"\[W" + number + rb"W,W" + number + rb"W\]"


def thing(*members, more=rb""):
    return rb"\{W" + rb"W,W".join(members) + more + rb"W\}"


def key(name, value):
    return b'"' + name + b'"W:W' + value


NUMBER = {"type": "number", "minimum": 0, "maximum": 10}
LANGUAGES = {
    "viescore": (
        {"type": "object", "properties": {
            "score": {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}, "reasoning": {"type": "string"}},
            "required": ["score", "reasoning"], "additionalProperties": False}, False,
        rb"(?:" + thing(key(b"score", pair(TEN)), key(b"reasoning", TEXT)) + rb"|" +
        thing(key(b"reasoning", TEXT), key(b"score", pair(TEN))) + rb")"),
    "scores": (
        {"type": "object", "properties": {
            "score": {"type": "array", "items": NUMBER | {"maximum": 25}, "minItems": 2, "maxItems": 2}},
            "required": ["score"]}, False,
        thing(key(b"score", pair(TWENTYFIVE)))),
    "ordered": (
        {"$defs": {"kind": {"enum": ["a cat", "caf\u00e9", 1, None]}}, "type": "object", "properties": {
            "kind": {"$ref": "#/$defs/kind"}, "n": {"type": "integer", "minimum": 1, "maximum": 100},
            "sure": {"type": "boolean"}, "words": {"type": "array", "items": {"type": "string", "maxLength": 3}}},
            "required": ["kind", "words"]}, True,
        thing(key(b"kind", '(?:"a cat"|"caf\u00e9"|1|null)'.encode()),
              more=rb"(?:W,W" + key(b"n", COUNT) + rb")?(?:W,W" + key(b"sure", rb"(?:true|false)") + rb")?W,W" +
              key(b"words", rb'\[W(?:"C{0,3}"W(?:,W"C{0,3}"W)*)?\]'))),
    "either": (
        {"anyOf": [{"type": ["number", "null"], "minimum": 0, "maximum": 10}, {"const": "none"}]}, True,
        rb"(?:" + TEN + rb'|null|"none")'),
}


def spelled(tokenizer):
    """The bytes of each token, None for special ones, and whether a leading blank of a text is lost."""
    file = json.loads(tokenizer.backend_tokenizer.to_str())
    special = {a["id"] for a in file["added_tokens"] if a["special"]}
    added = {a["id"]: a["content"].encode() for a in file["added_tokens"]}
    level = {c: b for b, c in bytes_to_unicode().items()}
    out = [None] * len(tokenizer)
    for token, i in tokenizer.get_vocab().items():
        if i in special:
            continue
        if i in added:
            out[i] = added[i]
        elif file["decoder"]["type"] == "ByteLevel":
            out[i] = bytes(level[c] for c in token)
        elif len(token) == 6 and token.startswith("<0x"):
            out[i] = bytes([int(token[3:5], 16)])
        else:
            out[i] = token.replace("\u2581", " ").encode()
    return out, file["decoder"]["type"] != "ByteLevel"


class Rule:
    """The allowed tokens after some bytes."""

    def __init__(self, pattern, tokens, trims):
        pattern = pattern.replace(b"C{", CHAR + b"{").replace(b"W", WS)
        self.pattern = regex.compile((b" ?" if trims else b"") + b"(?:" + pattern + b")")
        self.tokens, self.known = tokens, {}

    def allowed(self, text):
        if text not in self.known:
            first = {b for b in range(256) if self.pattern.fullmatch(text + bytes([b]), partial=True)}
            self.known[text] = [i for i, t in enumerate(self.tokens) if t and t[0] in first and
                                (len(t) == 1 or self.pattern.fullmatch(text + t, partial=True))]
        return self.known[text]

    def ended(self, text):
        return self.pattern.fullmatch(text) is not None


def walk(rule, draw, most=48):
    """A random walk through the grammar: the tokens, a digest of the allowed tokens at each step, and where it was complete."""
    text, steps = b"", []
    while len(steps) < most:
        ids = rule.allowed(text)
        step = {"allowed": hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest(), "count": len(ids),
                "ended": rule.ended(text)}
        steps.append(step)
        if not ids:
            break
        blank = [i for i in ids if rule.tokens[i].strip()]
        step["id"] = draw.choice(sorted(blank or ids, key=lambda i: -len(rule.tokens[i]))[:1 + len(ids) // draw.choice((1, 2, 8))])
        text += rule.tokens[step["id"]]
    return steps


def answer(family, rule, tokenizer, model, most):
    """Greedy generation of transformers after a prompt, restricted to allowed tokens."""
    text = tokenizer.apply_chat_template([{"role": "user", "content": [{"type": "text", "text": "How good is it?"}]}],
                                         tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]

    def allowed(_, sequence):
        said = b"".join(rule.tokens[i] or b"" for i in sequence[ids.shape[1]:].tolist())
        return rule.allowed(said) + (ends if rule.ended(said) else [])

    new = model.generate(ids, max_new_tokens=most, do_sample=False, prefix_allowed_tokens_fn=allowed)[0, ids.shape[1]:].tolist()
    assert new[-1] in ends, (family, new)
    return {"ids": new, "text": tokenizer.decode(new, skip_special_tokens=True)}


def distributions(rule, steps, ends, vocab, name, tensors):
    """The distributions to sample from at some steps of a walk."""
    generator = torch.Generator().manual_seed(7)
    text, ids, out = b"", [5, 9], []
    for n, step in enumerate(steps):
        if n % 5 == 2:
            logits = 6 * torch.randn(1, vocab, generator=generator)
            allowed = rule.allowed(text) + (ends if rule.ended(text) else [])
            now = LogitsProcessorList([
                lp.RepetitionPenaltyLogitsProcessor(1.3), lp.PrefixConstrainedLogitsProcessor(lambda _, __: allowed, 1),
                lp.TemperatureLogitsWarper(0.7), lp.TopKLogitsWarper(40), lp.TopPLogitsWarper(0.9)])
            z = now(torch.tensor([ids]), logits.clone())
            tensors[f"{name}.{n}.logits"], tensors[f"{name}.{n}.probs"] = logits[0].clone(), z.softmax(-1)[0].contiguous()
            out.append(n)
        if "id" in step:
            text += rule.tokens[step["id"]]
            ids.append(step["id"])
    return out


def main():
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    cases, tensors = [], {}
    for family in FAMILIES:
        folder = ROOT / "testdata" / "oracle" / family / "backbone"
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
        tokens, trims = spelled(tokenizer)
        vocab = model.get_output_embeddings().weight.shape[0]
        ends = model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        for name, (schema, ordered, pattern) in LANGUAGES.items():
            rule = Rule(pattern, tokens[:vocab], trims)
            draw = random.Random(f"{family} {name}")
            case = {"family": family, "name": name, "schema": schema, "ordered": ordered,
                    "walks": [walk(rule, draw) for _ in range(6)]}
            if name in ("scores", "either"):
                case["answer"] = answer(family, rule, tokenizer, model, 220)
            if family == "qwen2_5_vl" and name in ("viescore", "scores"):
                case["sampled"] = distributions(rule, case["walks"][0][:12], ends, vocab, name, tensors)
            cases.append(case)
            print(family, name, [len(w) for w in case["walks"]], case.get("answer"), flush=True)
    (OUT / "constrained.json").write_text(json.dumps({"cases": cases}, ensure_ascii=False, separators=(",", ":")) + "\n")
    save_file(tensors, OUT / "constrained.safetensors")


if __name__ == "__main__":
    main()
