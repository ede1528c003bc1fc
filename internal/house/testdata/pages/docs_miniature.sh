# An editor's outputs for the tasks of an exam.
build/lab/miniature --photos examples/photos --out exam --exam --seed 2 --only tissue,rocket
sed 's#"pictures/#"exam/pictures/#g' exam/edits.jsonl >outputs.jsonl
