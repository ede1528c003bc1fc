package benchmarks

import (
	"encoding/csv"
	"os"
	"slices"
	"testing"
)

// Published rows belong to benchmarks and numbers that exist, and those of AIM-Bench are the golden ones.
func TestPublished(t *testing.T) {
	for name, list := range published() {
		if _, err := Find(name); err != nil || len(list) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := must[*os.File](t)(os.Open(golden + "aimbench/table1.csv"))
	defer f.Close()
	rows := must[[][]string](t)(csv.NewReader(f).ReadAll())
	if n := len(aimBench.Reported()); n != len(rows)-1 {
		t.Errorf("%d methods, want %d", n, len(rows)-1)
	}
	adiee := map[string]float64{}
	for _, b := range []*Benchmark{imagenHub, genAIBench, auroraPoint, auroraPair} {
		i := slices.IndexFunc(b.Reported(), func(r Reported) bool { return r.Method == "ADIEE" })
		for _, v := range b.Reported()[i].Values {
			adiee[b.Name] = v
		}
	}
	for name, want := range map[string]float64{"imagenhub": 0.3450, "genaibench": 0.5996, "aurora-point": 0.4734,
		"aurora-pair": 0.5556} {
		near(t, name, adiee[name], want, 0)
	}
}
