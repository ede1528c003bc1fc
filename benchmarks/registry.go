package benchmarks

import (
	"fmt"
	"strings"
)

// All lists the benchmarks in the order of `score bench list`.
func All() []*Benchmark {
	return []*Benchmark{imagenHub, genAIBench, auroraPoint, auroraPair, editRewardBench,
		editRewardCompass, aimBench, fedBench, mvei,
		gEditBench, imgEditBench, riseBench, krisBench, magicBrush,
		emuEdit}
}

// Find returns the benchmark of a name.
func Find(name string) (*Benchmark, error) {
	var names []string
	for _, b := range All() {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return nil, fmt.Errorf("there is no benchmark %q: choose one of %s", name, strings.Join(names, ", "))
}
