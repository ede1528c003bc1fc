# Tables of edits, and a checkpoint in a folder of the name that the page has from the Hub.
csv() { # csv FOLDER: the table of an exam of the miniature world
	echo source,edit,instruction,label,group
	paste -d ' ' $1/edits.jsonl $1/truth.jsonl |
		sed -E 's|.*"photo":"([^"]*)","source":"([^"]*)","edit":"([^"]*)",.*"instruction":"([^"]*)".*"degree":([0-9.]+).*|'$1'/\2,'$1'/\3,"\4",\5,\1|'
}
build/lab/miniature --photos examples/photos --out seen --exam --only rocket --instructions 14
build/lab/miniature --photos examples/photos --out held --exam --only tissue --instructions 14
csv seen >labels.csv
csv held >held.csv
mkdir Qwen
ln -s "$PWD/testdata/oracle/qwen2_5_vl/backbone" Qwen/Qwen2.5-VL-3B-Instruct
