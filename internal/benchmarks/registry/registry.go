// Package registry lists all benchmarks. It is the only package that imports every family of them.
package registry

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/benchmarks/adiee"
	"assay/internal/benchmarks/aimbench"
	"assay/internal/benchmarks/editors"
	"assay/internal/benchmarks/fedbench"
	"assay/internal/benchmarks/mvei"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/rewardbench"
)

// All lists the benchmarks in the order of `score bench list`.
func All() []*protocol.Benchmark {
	return []*protocol.Benchmark{adiee.ImagenHub, adiee.GenAIBench, adiee.AuroraPoint, adiee.AuroraPair,
		rewardbench.EditRewardBench,
		rewardbench.EditRewardCompass, aimbench.Benchmark, fedbench.Benchmark, mvei.Benchmark,
		editors.GEditBench, editors.ImgEditBench, editors.RISEBench, editors.KRISBench, editors.MagicBrush,
		editors.EmuEdit}
}

// Find returns the benchmark with a name.
func Find(name string) (*protocol.Benchmark, error) {
	var names []string
	for _, b := range All() {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return nil, fmt.Errorf("there is no benchmark %q: choose one of %s", name, strings.Join(names, ", "))
}

// LowerIsBetter reports whether less of a number is better in any benchmark.
func LowerIsBetter(number string) bool {
	return slices.ContainsFunc(All(), func(b *protocol.Benchmark) bool { return b.Direction(number) < 0 })
}
