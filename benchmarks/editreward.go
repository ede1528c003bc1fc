package benchmarks

import (
	"fmt"
	"strings"
)

var editRewardBench = &Benchmark{
	Name:  "editreward-bench",
	Title: "EditReward-Bench, both of this name: TIGER-Lab's rankings of 2, 3 and 4 edits, EditScore's pairs of 13 tasks",
	Needs: []string{
		"--ratings: Parquet, JSON lines or JSON in a folder, or such a file; the columns found decide which benchmark it is",
		"TIGER-Lab: id, dataset (2pair, 3pair, 4pair), ranking, comparison_type; instruction, source_image, candidate_1, candidate_2",
		"EditScore: key (two), task_type, dimension; instruction, input_image, output_images (two, the first preferred)",
	},
	Published: "TIGER-Lab: the dataset EditReward-Bench; EditScore: the dataset EditReward-Bench",
	Predicts: `TIGER-Lab: {"id", "left", "right"} or {"id", "answer": "A>C"} per comparison, or {"id": group, "model": "A", "score"} per candidate; ` +
		`EditScore: {"id": key, "score"}, optionally with "dimension", or {"key": [two], "score": [two]}`,
	Rules: []string{
		"k2 (TIGER-Lab): accuracy of three classes, a difference of at most eps being a tie; eps maximises it, or --epsilon",
		"k3, k4 (TIGER-Lab): share of groups whose comparisons are all right, that is the whole ranking; equal scores are wrong",
		"overall (TIGER-Lab): right samples of all, those of k2 and groups of k3 and k4 counting one each",
		"prompt_following, consistency, overall (EditScore): the first edit scores strictly higher; mean over tasks",
	},
	Flags: []string{"images", "epsilon"},
	Load:  loadEditReward,
	Reported: []Reported{
		{"random", "EditReward", map[string]float64{"k2": 0.2581, "k3": 0.1133, "k4": 0.0135, "overall": 0.1384}},
		{"GPT-4o", "EditReward", map[string]float64{"k2": 0.4569, "k3": 0.2733, "k4": 0.0731, "overall": 0.2831}},
		{"GPT-5", "EditReward", map[string]float64{"k2": 0.5753, "k3": 0.3851, "k4": 0.1284, "overall": 0.3781}},
		{"Gemini-2.5-Flash", "EditReward", map[string]float64{"k2": 0.5861, "k3": 0.3986, "k4": 0.1216, "overall": 0.3802}},
		{"Qwen2.5-VL-7B", "EditReward", map[string]float64{"k2": 0.5269, "k3": 0.2467, "k4": 0.0338, "overall": 0.2975}},
		{"MiMo-VL-7B-SFT-2508", "EditReward", map[string]float64{"k2": 0.4946, "k3": 0.3041, "k4": 0.0946, "overall": 0.3119}},
		{"EditReward (Qwen2.5-VL-7B)", "EditReward", map[string]float64{"k2": 0.5699, "k3": 0.3600, "k4": 0.1081, "overall": 0.3678}},
		{"EditReward (MiMo-VL-7B)", "EditReward", map[string]float64{"k2": 0.5645, "k3": 0.4267, "k4": 0.1149, "overall": 0.3842}},
	},
}

func loadEditReward(o Options) (Set, error) {
	files, err := locateAll(o.Data, "*.parquet", "*.jsonl", "*.json")
	if err != nil {
		return nil, err
	}
	s, err := openSamples(files)
	if err != nil {
		return nil, err
	}
	switch {
	case s.has("key") && s.has("dimension") && s.has("task_type"):
		return loadEditScore(s, o)
	case s.has("ranking") && s.has("comparison_type") && s.has("dataset"):
		return loadTiger(s, o)
	}
	return nil, fmt.Errorf("%s is neither EditReward-Bench: TIGER-Lab's has the columns id, dataset, ranking and comparison_type, EditScore's key, task_type and dimension",
		strings.Join(files, ", "))
}
