package main

import "assay/benchmarks/runner"

// What the tests of this package call by the name that it had here.
var similarities = runner.Similarities
