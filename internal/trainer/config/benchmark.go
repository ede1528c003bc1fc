package config

// BenchmarkConfig names a benchmark, as score bench knows it, and the Number of it that says which scorer is best.
type BenchmarkConfig struct {
	Name    string `yaml:"name"`              // of score bench
	Ratings string `yaml:"ratings"`           // its published data: a folder or a file
	Images  string `yaml:"images,omitempty"`  // folder of its pictures
	Votes   string `yaml:"votes,omitempty"`   // file of votes
	Targets string `yaml:"targets,omitempty"` // folder of the wanted results
	Subset  string `yaml:"subset,omitempty"`  // part of it
	Target  string `yaml:"target,omitempty"`  // which human value
	Number  string `yaml:"number,omitempty"`  // by its name; empty: the one that tables are sorted by
}

// checkBenchmark looks at validate.benchmark, which goes with validate.by: benchmark.
func (c *Config) checkBenchmark(d checker) {
	b := c.Validate.Benchmark
	d.Want((b != nil) == (c.Validate.By == ByBenchmark), "validate.benchmark", "it goes with validate.by: %s", ByBenchmark)
	if b == nil {
		return
	}
	d.Want(b.Name != "", "validate.benchmark.name", "want the name of a benchmark: score bench list has them")
	d.Want(b.Ratings != "", "validate.benchmark.ratings", "want the published data of the benchmark: a folder or a file")
	d.Want(c.Mode == "lora" || c.Mode == "full", "validate.by",
		"mode %s keeps no model that a benchmark could ask: want mode lora or full", c.Mode)
}
