build/lab/miniature --photos examples/photos --out build/demo/exam --exam
