package score

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"assay/internal/long"
	"assay/internal/packed"
	"assay/internal/testfile"
)

// layout is what tools/oracle/layouts.py expects of a benchmark.
type layout struct {
	Numbers map[string]float64
	Groups  map[string][][]string // by number: it is the mean of the means of these
	Data    []map[string]string   // of EditReward-Compass
}

// predicted returns the scores of predictions.jsonl, by id, or id and side.
func predicted(t *testing.T, dir string) map[string]float64 {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "predictions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(raw)) {
		var p struct {
			ID, Model string
			Score     float64
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		out[p.ID], out[p.ID+" "+p.Model] = p.Score, p.Score
	}
	return out
}

// ofScores returns the numbers computed from scores.
func (l *layout) ofScores(scores map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, groups := range l.Groups {
		for _, ids := range groups {
			for _, id := range ids {
				out[name] += scores[id] / float64(len(ids)*len(groups))
			}
		}
	}
	count := map[string]float64{}
	for i, pair := range l.Data {
		left, right := scores[fmt.Sprint(i, " left")], scores[fmt.Sprint(i, " right")]
		for _, name := range []string{"all", pair["dimension"]} {
			count[name]++
			if pair["label"] == "tie" && math.Abs(left-right) < 1e-5 || pair["label"] == "preference" && left > right {
				out[name]++
			}
		}
	}
	for name, n := range count {
		out[name] /= n
	}
	return out
}

// TestPublishedLayouts runs the benchmarks of editors' papers from their published layouts, including pictures in
// Parquet. It runs them with a scorer and with a VLM judge, whose numbers equal those of Python by the published
// rules.
func TestPublishedLayouts(t *testing.T) {
	long.Test(t)
	dir := packed.Unpack(t, "../../../internal/benchmarks/testdata/layouts.zip")
	var expect map[string]layout
	testfile.ReadJSON(t, filepath.Join(dir, "expect.json"), &expect)
	in := func(name string) string { return filepath.Join(dir, name) }
	stated := regexp.MustCompile(`\[s(\d+)\]`)
	url := answering(t, func(body string) string {
		if m := stated.FindStringSubmatch(body); m != nil {
			return `{"score": [` + m[1] + `, 10], "reasoning": "so"}`
		}
		return `{"score": [9, 9], "reasoning": "so"}` // the quality, whose question shows only the edit
	})
	where := map[string][]string{
		"gedit-bench":        {"--ratings", in("gedit/data"), "--editors", in("gedit/M")},
		"imgedit-bench":      {"--ratings", in("imgedit"), "--editors", in("imgedit/M")},
		"rise-bench":         {"--ratings", in("rise"), "--editors", in("rise/M")},
		"kris-bench":         {"--ratings", in("kris/KRIS_Bench"), "--editors", in("kris/M")},
		"editreward-compass": {"--ratings", in("compass/reward_eval.json")},
		"magicbrush":         {"--ratings", in("magicbrush/test"), "--editors", in("magicbrush/M")},
		"emu-edit":           {"--ratings", in("emu/data"), "--editors", in("emu/M")},
	}
	for _, name := range slices.Sorted(maps.Keys(expect)) {
		want, runs := expect[name], t.TempDir()
		args := append([]string{name, "--resamples", "20"}, where[name]...)
		v := benchJSON(t, append(args, "--out", filepath.Join(runs, "judged"), "--judge", "viescore", "--url", url, "--model",
			"m", "--store", filepath.Join(runs, "answers"))...)
		expectNumbers(t, numbersOf(v), want.Numbers, 1e-9)
		if missing := v["missing"].([]any); len(missing) > 0 && name != "magicbrush" && name != "kris-bench" {
			t.Errorf("%s: missing %v", name, missing)
		}
		v = benchJSON(t, append(args, "--out", filepath.Join(runs, "scored"), "--scorer",
			"../../../backbones/tiny-scorer")...)
		expectNumbers(t, numbersOf(v), want.ofScores(predicted(t, filepath.Join(runs, "scored"))), 1e-9)
	}
}

// TestKRISSeveralSources: the judge of KRIS-Bench sees all sources of a sample, frames in order with the edit in its
// position, and their numbers and scores count.
func TestKRISSeveralSources(t *testing.T) {
	dir := packed.Unpack(t, "../../../internal/benchmarks/testdata/layouts.zip")
	out := t.TempDir()
	text := ""
	for _, p := range strings.Fields("consist instruction_following view_instruction_following dual_evaluation quality " +
		"consist_multi instruction_multi consist_temporal instruction_temporal") {
		text += "prompt_" + p + ` = "prompt_` + p + map[bool]string{true: " {instruct}"}[p != "quality"] +
			map[bool]string{true: " {explanation}"}[p == "dual_evaluation"] + "\"\n"
	}
	put(t, out, "Bagel/eval/gen/kris/prompts.py", []byte(text))
	shown := regexp.MustCompile(`"((?:Frame \d|Reference Image \d|Predicted Image|This is the [a-z ]+)[^"]*):"`)
	prompt := regexp.MustCompile(`prompt_(\w+)( \w\S*_\S* \d)?`)
	var lock sync.Mutex
	asked := map[string]bool{}
	url := answering(t, func(body string) string {
		var captions []string
		for _, m := range shown.FindAllStringSubmatch(body, -1) {
			captions = append(captions, m[1])
		}
		if n := strings.Count(body, "image_url\":{"); n != len(captions) {
			t.Errorf("%d pictures, %d captions: %v", n, len(captions), captions)
		}
		m := prompt.FindStringSubmatch(body)
		lock.Lock()
		asked[m[1]+m[2]+": "+strings.Join(captions, ", ")] = true
		lock.Unlock()
		switch {
		case strings.HasPrefix(m[1], "consist"):
			return `{"consistency_score": 5, "reasoning": "so"}`
		case m[1] == "quality":
			return `{"quality_score": 3, "reasoning": "so"}`
		case m[1] == "dual_evaluation":
			return `{"instruction_score": 4, "knowledge_score": 2, "reasoning": "so"}`
		}
		return `{"instruction_score": 4, "reasoning": "so"}`
	})
	in := func(name string) string { return filepath.Join(dir, "kris", name) }
	args := []string{"kris-bench", "--ratings", in("KRIS_Bench"), "--editors", in("M"), "--judge", "kris/several",
		"--prompts", filepath.Join(out, "Bagel"),
		"--url", url, "--model", "m", "--store", filepath.Join(out, "answers"), "--out",
		filepath.Join(out, "run"), "--resamples", "20"}
	v := benchJSON(t, args...)
	if missing := v["missing"].([]any); len(missing) > 0 {
		t.Errorf("missing %v", missing)
	}
	if v["scorer"] != "KRIS, several sources (KRIS-Bench's questions) by m, prompts of Bagel" {
		t.Errorf("the judge is called %v", v["scorer"])
	}
	expectNumbers(t, numbersOf(v), map[string]float64{"VC: temporal prediction": 100, "IF: temporal prediction": 75,
		"kris: temporal prediction": 75, "VQ: instruction decomposition": 50, "KP: overall": 25}, 1e-9)
	for _, want := range []string{
		"consist_multi multi-element_composition 1: Reference Image 1, Reference Image 2, Predicted Image",
		"instruction_multi multi-element_composition 2: Reference Image 1, Reference Image 2, Reference Image 3, " +
			"Predicted Image",
		"consist_temporal temporal_prediction 1: Frame 1 (Generated), Frame 2 (Reference), Frame 3 (Reference), " +
			"Frame 4 (Reference)",
		"instruction_temporal temporal_prediction 2: Frame 1 (Reference), Frame 2 (Reference), Frame 3 (Generated), " +
			"Frame 4 (Reference)",
		"quality: This is the image to evaluate", "quality: This is the edited image",
	} {
		if !asked[want] {
			t.Errorf("not asked: %s (but %v)", want, asked)
		}
	}
}
