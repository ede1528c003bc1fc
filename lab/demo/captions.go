package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay/internal/stats"
	"assay/lab/internal/miniature"
)

// Files in the exam's folder for captions that a model wrote.
const (
	captionedFile = "captioned.jsonl"            // edits.jsonl with the model's captions
	writtenFile   = "written-similarities.jsonl" // CLIP-D and CLIP-T with these
)

// CaptionQuality compares captions that a model wrote with the captions of the miniature world, which it did not see.
type CaptionQuality struct {
	Tasks  int               `json:"tasks"`
	Failed int               `json:"failed"` // tasks whose source or target has no caption
	Source miniature.Measure `json:"source"` // share of sources captioned as in the world, without the photograph
	Target miniature.Measure `json:"target"` // the same for targets
	Words  miniature.Measure `json:"words"`  // share of the words after that name that are written as well

	// Outputs that fail the rule "CLIP-D at or below 0 fails" with either captions; undefined fails as well.
	Given   FailedOutputs     `json:"given"`
	Written FailedOutputs     `json:"written"`
	Agree   miniature.Measure `json:"agree"` // share of outputs with the same result for both
}

// FailedOutputs describes the outputs that a rule fails.
type FailedOutputs struct {
	Outputs int               `json:"outputs"`
	Truth   miniature.Measure `json:"truth"` // mean degree
}

// readCaptions compares the captions of an exam, and the CLIP-D of its outputs with either captions.
func (x *exam) readCaptions(dir string) (*CaptionQuality, error) {
	given, err := taskCaptions(filepath.Join(dir, miniature.EditsTable+".jsonl"))
	if err != nil {
		return nil, err
	}
	written, err := taskCaptions(filepath.Join(dir, captionedFile))
	if err != nil {
		return nil, err
	}
	q := &CaptionQuality{Tasks: len(given)}
	var same [2][]float64
	var words []float64
	for _, group := range slices.Sorted(maps.Keys(given)) {
		want := given[group]
		got, ok := written[group]
		if !ok {
			return nil, fmt.Errorf("%s: no row of task %s", captionedFile, group)
		}
		if got[0] == "" || got[1] == "" {
			q.Failed++
		}
		for i := range want {
			a, b := behind(want[i]), behind(got[i])
			same[i] = append(same[i], number(got[i] != "" && a == b))
			if a != "" {
				words = append(words, shared(a, b))
			}
		}
	}
	q.Source, q.Target = miniature.Measure(stats.Mean(same[0])), miniature.Measure(stats.Mean(same[1]))
	q.Words = miniature.Measure(stats.Mean(words))
	return q, q.rule(x, dir)
}

// rule counts the outputs that CLIP-D fails.
func (q *CaptionQuality) rule(x *exam, dir string) error {
	a, _, err := x.column(filepath.Join(dir, "similarities.jsonl"), "clip_d")
	if err != nil {
		return err
	}
	b, _, err := x.column(filepath.Join(dir, writtenFile), "clip_d")
	if err != nil {
		return err
	}
	var agree []float64
	var truths [2][]float64
	for _, o := range x.outputs {
		fails := [2]bool{a[o.truth.ID] <= 0, b[o.truth.ID] <= 0} // an undefined number counts as 0
		for i, f := range fails {
			if f {
				truths[i] = append(truths[i], o.truth.Degree)
			}
		}
		agree = append(agree, number(fails[0] == fails[1]))
	}
	q.Given = FailedOutputs{len(truths[0]), miniature.Measure(stats.Mean(truths[0]))}
	q.Written = FailedOutputs{len(truths[1]), miniature.Measure(stats.Mean(truths[1]))}
	q.Agree = miniature.Measure(stats.Mean(agree))
	return nil
}

// taskCaptions reads the captions of source and target of every task.
func taskCaptions(path string) (map[string][2]string, error) {
	tasks := map[string][2]string{}
	return tasks, miniature.EachRow(path, []string{"group", "source_caption", "target_caption"}, func(c *miniature.Cells) {
		tasks[c.Text("group")] = [2]string{c.Text("source_caption"), c.Text("target_caption")}
	})
}

// behind returns the part of a caption after "a photo of a cat": shapes and effects. No model can name a photograph
// that it never saw.
func behind(caption string) string {
	if i := subject.FindStringIndex(caption); i != nil {
		return caption[i[0]:]
	}
	return ""
}

// subject matches where shapes or effects begin.
var subject = regexp.MustCompile(` with an? |, `)

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// shared returns the share of the words of want that are also in got, each counted as often as it occurs.
func shared(want, got string) float64 {
	left := map[string]int{}
	for _, w := range strings.Fields(got) {
		left[w]++
	}
	all, both := strings.Fields(want), 0
	for _, w := range all {
		if left[w] > 0 {
			left[w]--
			both++
		}
	}
	return float64(both) / float64(len(all))
}
