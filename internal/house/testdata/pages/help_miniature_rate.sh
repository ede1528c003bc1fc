build/lab/miniature --photos examples/photos --out exam --exam --only rocket --instructions 14
