build/lab/miniature --photos examples/photos --out data/exam --exam
