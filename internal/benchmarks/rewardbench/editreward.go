// Package rewardbench holds the benchmarks that were made for reward models: EditReward-Bench in its two layouts
// (TIGER-Lab's rankings, EditScore's pairs) and EditReward-Compass.
package rewardbench

import (
	_ "embed"
	"fmt"
	"strings"

	"assay/internal/benchmarks/protocol"
)

// publishedCSV holds the numbers that papers print: see protocol.Benchmark.
//
//go:embed published.csv
var publishedCSV string

// EditRewardBench is EditReward-Bench, in the layouts of TIGER-Lab and of EditScore.
var EditRewardBench = &protocol.Benchmark{
	Name:  "editreward-bench",
	Title: "EditReward-Bench, both of this name: TIGER-Lab's rankings of 2, 3 and 4 edits, EditScore's pairs of 13 tasks",
	Needs: []string{
		"--ratings: Parquet, JSON lines or JSON in a folder, or such a file; the columns found decide which benchmark it is",
		"TIGER-Lab: id, dataset (2pair, 3pair, 4pair), ranking, comparison_type; instruction, source_image, candidate_1, " +
			"candidate_2",
		"EditScore: key (two), task_type, dimension; instruction, input_image, output_images (two, the first preferred)",
	},
	Published: "TIGER-Lab: the dataset EditReward-Bench; EditScore: the dataset EditReward-Bench",
	Predicts: `TIGER-Lab: {"id", "left", "right"} or {"id", "answer": "A>C"} per comparison, or {"id": group, "model": ` +
		`"A", "score"} per candidate; ` +
		`EditScore: {"id": key, "score"}, optionally with "dimension", or {"key": [two], "score": [two]}`,
	Rules: []string{
		"k2 (TIGER-Lab): accuracy of three classes, a difference of at most eps being a tie; eps maximises it, or --epsilon",
		"k3, k4 (TIGER-Lab): share of groups whose comparisons are all right, that is the whole ranking; equal scores are " +
			"wrong",
		"overall (TIGER-Lab): right samples of all, those of k2 and groups of k3 and k4 counting one each",
		"k2, k3, k4, overall as run (TIGER-Lab): the strict ranking of EditReward's program (eval_bench.py). It uses the " +
			"margin for ties alone: a preference is right if the order is. Of equal scores the candidate with the later " +
			"letter comes first (NumPy's argsort, turned around). Samples need a score of each candidate",
		"pairwise overall as run (TIGER-Lab): the program's accuracy of all pairs, with one margin for all of them",
		"prompt_following, consistency, overall (EditScore): the first edit scores strictly higher; mean over tasks",
		"pictures (EditScore): scorers and judges see every edit resized to its source's size (bicubic), and no picture's " +
			"transparency (Pillow's convert('RGB')), as EditScore's evaluation.py shows them",
	},
	Flags:        []string{"images", "epsilon"},
	Load:         loadEditReward,
	PublishedCSV: publishedCSV,
}

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
	return nil, fmt.Errorf("%s is neither EditReward-Bench: TIGER-Lab's has the columns id, dataset, ranking and "+
		"comparison_type, EditScore's key, task_type and dimension",
		strings.Join(files, ", "))
}
