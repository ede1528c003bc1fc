echo '{"source": "a.png", "edit": "b.png", "instruction": "blur the picture", "label": 1}' >labels.jsonl
cat >run.yaml <<'END'
backbone: testdata/oracle/llavanext/backbone
out: runs/first
data: {train: labels.jsonl}
steps: 1
END
train --config run.yaml
