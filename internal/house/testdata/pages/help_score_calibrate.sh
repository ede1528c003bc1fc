build/lab/miniature --photos examples/photos --out exam --exam --only rocket --instructions 28
paste -d ' ' <(sed 's/}$/,/' exam/edits.jsonl) <(sed -E 's/.*"degree": ?([0-9.]+).*/"label": \1}/' exam/truth.jsonl) >exam/labels.jsonl
