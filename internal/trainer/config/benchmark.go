package config

// BenchmarkConfig names a benchmark of score bench, and the number of it that decides which scorer is best.
type BenchmarkConfig struct {
	Name    string `yaml:"name"`              // as in score bench
	Ratings string `yaml:"ratings"`           // its published data: a folder or a file
	Images  string `yaml:"images,omitempty"`  // folder with its pictures
	Votes   string `yaml:"votes,omitempty"`   // file with votes
	Targets string `yaml:"targets,omitempty"` // folder with the expected results
	Subset  string `yaml:"subset,omitempty"`  // part of the benchmark
	Target  string `yaml:"target,omitempty"`  // which human value
	Number  string `yaml:"number,omitempty"`  // its name; empty: the one that tables are sorted by
}

// checkBenchmark checks validate.benchmark, which is used with validate.by: benchmark.
func (c *Config) checkBenchmark(d checker) {
	b := c.Validate.Benchmark
	d.Want((b != nil) == (c.Validate.By == ByBenchmark), "validate.benchmark", "goes with validate.by: %s", ByBenchmark)
	if b == nil {
		return
	}
	d.Want(b.Name != "", "validate.benchmark.name", "want the name of a benchmark (score bench list prints them)")
	d.Want(b.Ratings != "", "validate.benchmark.ratings", "want the published data of the benchmark: a folder or a file")
	d.Want(c.Mode == "lora" || c.Mode == "full", "validate.by",
		"mode %s keeps no model that a benchmark could run: want mode lora or full", c.Mode)
}
