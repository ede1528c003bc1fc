cat >labels.jsonl <<'END'
{"source": "a.png", "edit": "b.png", "instruction": "blur the picture", "label": 1}
{"source": "a.png", "edit": "a.png", "instruction": "blur the picture", "label": 0}
END
cat >run.yaml <<'END'
backbone: testdata/oracle/llavanext/backbone
out: runs/first
data: {train: labels.jsonl}
steps: 1
batch_size: 2
END
