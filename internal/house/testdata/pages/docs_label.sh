sed 's|\.\./||; s|path: sessions|path: examples/sessions|' examples/label.yaml >label.yaml
cat >edits.jsonl <<'END'
{"source": "a.png", "target": "b.png", "edit": "b.png", "instruction": "blur the picture", "source_caption": "a cup", "target_caption": "a cup, blurry"}
{"source": "a.png", "edit": "b.png", "instruction": "make it grey"}
END
cat >captions.yaml <<'END'
in: edits.jsonl
out: captioned.jsonl
prompts: examples/miniature/captions-prompts.yaml
store: answers
model: {backbone: backbones/tiny, adapter: backbones/tiny-captions}
END
