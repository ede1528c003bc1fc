module assay/lab

go 1.26.0
