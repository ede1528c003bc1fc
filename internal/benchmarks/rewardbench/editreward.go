// Package rewardbench holds the benchmarks that were made for reward models: EditReward-Bench in its two layouts
// (TIGER-Lab's rankings, EditScore's pairs) and EditReward-Compass.
package rewardbench

import (
	_ "embed"
	"fmt"
	"strings"

	"assay/internal/benchmarks/protocol"
)

var (
	//go:embed benchmarks.txt
	benchmarksText string
	//go:embed published.csv
	publishedCSV string
)

// family holds the descriptions and published numbers of these benchmarks.
var family = protocol.Family{Benchmarks: benchmarksText, Published: publishedCSV}

// EditRewardBench is EditReward-Bench, in the layouts of TIGER-Lab and of EditScore.
var EditRewardBench = family.Benchmark("editreward-bench", loadEditReward)

func loadEditReward(o protocol.Options) (protocol.Set, error) {
	files, err := protocol.LocateAll(o.Data, "*.parquet", "*.jsonl", "*.json")
	if err != nil {
		return nil, err
	}
	o.NoteFiles(files...)
	s, err := protocol.OpenSamples(files)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Has("key") && s.Has("dimension") && s.Has("task_type"):
		return loadEditScore(s, o)
	case s.Has("ranking") && s.Has("comparison_type") && s.Has("dataset"):
		return loadTiger(s, o)
	}
	return nil, fmt.Errorf("%s is neither EditReward-Bench layout: TIGER-Lab's has the columns id, dataset, ranking and "+
		"comparison_type, EditScore's key, task_type and dimension",
		strings.Join(files, ", "))
}
