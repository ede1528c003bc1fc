package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"assay/internal/atomicfile"
	"assay/internal/stats"
	"assay/lab/internal/miniature"
)

// File names of the report.
const (
	pageFile = "report.html"
	textFile = "report.txt"
	jsonFile = "report.json"
)

// files are the inputs of a report.
type files struct {
	data, labels, exam, scorer, times string
	seed                              uint64
	short                             bool
	captions                          bool // a model also wrote captions of the exam
	trained                           bool // the scorer is in its run directory: show both
}

// Report describes how a scorer did on an exam.
type Report struct {
	Short   bool     `json:"short"` // little data: the figures mean nothing
	Photos  []string `json:"photos"`
	Tasks   int      `json:"tasks"`
	Outputs int      `json:"outputs"`

	Goals    []Goal            `json:"goals"`
	Judges   []Judge           `json:"judges"`   // the scorer, then the judges to compare it with
	Shuffled miniature.Measure `json:"shuffled"` // the scorer's Spearman with instructions of other tasks
	Kinds    []KindScore       `json:"kinds"`
	Labels   *LabelQuality     `json:"labels"`
	Captions *CaptionQuality   `json:"captions,omitempty"`
	Steps    []Step            `json:"steps"`
	Commands []Command         `json:"commands"`

	examples []example
	story    *story
}

// Judge is a metric that assigns a number to every output.
type Judge struct {
	Name      string `json:"name"`
	Sees      string `json:"sees"`      // its inputs besides the output
	Undefined int    `json:"undefined"` // undefined numbers; they count as 0
	// it sees the target, which no scorer gets: not a baseline to beat
	Target bool             `json:"target"`
	Result miniature.Result `json:"result"`
}

// Goal is a target for a figure of the scorer.
type Goal struct {
	Name  string            `json:"name"`
	Value miniature.Measure `json:"value"`
	Want  float64           `json:"want"` // at least
	Met   bool              `json:"met"`
	// Best is the best of the other judges, and Above the distance of the scorer above it; WantAbove 0: nothing to
	// compare.
	Best      string            `json:"best,omitempty"`
	Above     miniature.Measure `json:"above"`
	WantAbove float64           `json:"want_above,omitempty"`
	MetAbove  bool              `json:"met_above"`
}

// KindScore describes the scores of outputs of one kind, from 0 to 10.
type KindScore struct {
	Kind    miniature.Kind `json:"kind"`
	Outputs int            `json:"outputs"`
	Score   float64        `json:"score"` // mean
	Truth   float64        `json:"truth"` // mean
	// share of pairs where the perfect output of the same task has the higher score
	Below miniature.Measure `json:"below"`
}

// Step is a step of the demonstration and its duration.
type Step struct {
	Name    string `json:"name"`
	Seconds int    `json:"seconds"`
}

// Command is something to try next.
type Command struct {
	What string `json:"what"`
	Line string `json:"line"`
}

// above is the required distance of the scorer above the best other judge.
const above = 0.08

// newExamReport reads everything and compares.
func newExamReport(ctx context.Context, f files) (*Report, error) {
	x, err := readExam(f.exam)
	if err != nil {
		return nil, err
	}
	r := &Report{Short: f.short, Photos: x.photos, Outputs: len(x.outputs)}
	scores, _, err := x.column(filepath.Join(f.exam, "scores.jsonl"), "score01")
	if err != nil {
		return nil, err
	}
	mixed, _, err := x.column(filepath.Join(f.exam, "shuffled-scores.jsonl"), "score01")
	if err != nil {
		return nil, err
	}
	scored := x.scored(func(o output) float64 { return scores[o.truth.ID] })
	r.Judges = []Judge{{Name: "scorer", Sees: "source, instruction", Result: miniature.Evaluate(scored)}}
	if err := r.similarities(x, f); err != nil {
		return nil, err
	}
	r.Shuffled = miniature.Evaluate(x.scored(func(o output) float64 { return mixed[o.truth.ID] })).Spearman
	r.goals()
	r.kinds(scored)
	if r.Labels, err = readLabels(f.labels, f.data); err != nil {
		return nil, err
	}
	if r.Steps, err = readTimes(f.times); err != nil {
		return nil, err
	}
	tasks := x.tasks()
	r.Tasks = len(tasks)
	if r.examples, err = choose(tasks, scores, f.seed); err != nil {
		return nil, err
	}
	r.story = newStory(r.examples)
	if f.trained {
		err = errors.Join(r.story.heatmaps(ctx, f.scorer), r.story.curve(f.scorer))
	}
	r.commands(f, x)
	return r, err
}

// similarities adds the judges that the scorer is compared with.
func (r *Report) similarities(x *exam, f files) error {
	for _, s := range []similar{
		{"CLIP-D", "similarities.jsonl", "clip_d", "source, both captions", false},
		{"CLIP-T", "similarities.jsonl", "clip_t", "caption of the target", false},
		{"CLIP-I", "source-similarities.jsonl", "clip_i", "source", false},
		{"DINO-I", "source-similarities.jsonl", "dino_i", "source", false},
		{"CLIP-I to target", "similarities.jsonl", "clip_i", "target", true},
		{"DINO-I to target", "similarities.jsonl", "dino_i", "target", true},
	} {
		if err := r.judge(x, f.exam, s); err != nil {
			return err
		}
	}
	if f.captions {
		s := similar{"CLIP-D, written", writtenFile, "clip_d", "source, captions by a model", false}
		err := r.judge(x, f.exam, s)
		if err != nil {
			return err
		}
		if r.Captions, err = x.readCaptions(f.exam); err != nil {
			return err
		}
	}
	r.Judges = append(r.Judges, Judge{Name: "- pixel distance", Sees: "source",
		Result: miniature.Evaluate(x.scored(func(o output) float64 { return -o.distance }))})
	return nil
}

// similar is a similarity used as a judge: a column of a file of the exam.
type similar struct {
	name, file, column, sees string
	target                   bool
}

// judge adds a similarity to the judges that the scorer is compared with.
func (r *Report) judge(x *exam, dir string, s similar) error {
	values, undefined, err := x.column(filepath.Join(dir, s.file), s.column)
	if err != nil {
		return err
	}
	result := miniature.Evaluate(x.scored(func(o output) float64 { return values[o.truth.ID] }))
	r.Judges = append(r.Judges, Judge{s.name, s.sees, undefined, s.target, result})
	return nil
}

// goals compares the figures with their targets, and with the best other judge that sees no more than a scorer.
func (r *Report) goals() {
	for _, g := range []struct {
		name string
		want float64
		of   func(miniature.Result) miniature.Measure
	}{
		{"Spearman with the truth", 0.65, func(x miniature.Result) miniature.Measure { return x.Spearman }},
		{"the same for intact outputs", 0.55, func(x miniature.Result) miniature.Measure { return x.Alive }},
		{"pair accuracy", 0.86, func(x miniature.Result) miniature.Measure { return x.PairAccuracy }},
	} {
		goal := newGoal(g.name, g.of(r.Judges[0].Result), g.want)
		goal.WantAbove, goal.Above = above, miniature.Measure(math.NaN())
		best := math.Inf(-1)
		for _, j := range r.Judges[1:] {
			if v := float64(g.of(j.Result)); v > best && !j.Target {
				best, goal.Best = v, j.Name
			}
		}
		if goal.Best != "" {
			goal.Above = goal.Value - miniature.Measure(best)
		}
		goal.MetAbove = goal.Above >= above
		r.Goals = append(r.Goals, goal)
	}
	r.Goals = append(r.Goals,
		newGoal("drop of Spearman with other instructions", r.Judges[0].Result.Spearman-r.Shuffled, 0.30))
}

func newGoal(name string, value miniature.Measure, want float64) Goal {
	return Goal{Name: name, Value: value, Want: want, Met: float64(value) >= want}
}

// Met returns the number of goals that are met, including those relative to other judges.
func (r *Report) Met() (n int) {
	for _, g := range r.Goals {
		if g.Met {
			n++
		}
		if g.MetAbove {
			n++
		}
	}
	return n
}

// All returns the number of goals.
func (r *Report) All() int {
	n := len(r.Goals)
	for _, g := range r.Goals {
		if g.WantAbove > 0 {
			n++
		}
	}
	return n
}

func (r *Report) kinds(rows []miniature.Scored) {
	for _, k := range miniature.Kinds {
		var score, truth []float64
		for _, s := range rows {
			if s.Kind == k {
				score, truth = append(score, 10*s.Score), append(truth, 10*s.Truth)
			}
		}
		if len(score) == 0 {
			continue
		}
		below, ok := r.Judges[0].Result.PerfectOver[k]
		if !ok {
			below = math.NaN()
		}
		r.Kinds = append(r.Kinds, KindScore{k, len(score), stats.Mean(score), stats.Mean(truth), miniature.Measure(below)})
	}
}

// readTimes reads the times that lab/demo/run.sh records: lines of name, seconds and exit code. Incomplete runs of a
// step are added to the next run of the same step.
func readTimes(path string) ([]Step, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var steps []Step
	ended := map[string]bool{}
	at := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) != 3 {
			return nil, fmt.Errorf("%s:%d: want name, seconds and exit code", path, i+1)
		}
		seconds, err := strconv.Atoi(cells[1])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		name := cells[0]
		if _, ok := at[name]; !ok {
			at[name] = len(steps)
			steps = append(steps, Step{Name: name})
		}
		s := &steps[at[name]]
		if ended[name] {
			s.Seconds = 0
		}
		s.Seconds += seconds
		ended[name] = cells[2] == "0"
	}
	return steps, nil
}

// Seconds returns the time of all steps.
func (r *Report) Seconds() (sum int) {
	for _, s := range r.Steps {
		sum += s.Seconds
	}
	return sum
}

// commands adds the commands to try next.
func (r *Report) commands(f files, x *exam) {
	o := x.outputs[0]
	r.Commands = []Command{
		{
			"one pair",
			fmt.Sprintf("bin/score pair --scorer %s --source %s --edit %s --instruction %q", f.scorer, o.source, o.edit,
				o.instruction),
		},
		{"a page to try", "bin/score serve --scorer " + f.scorer},
		{"your photographs", "make demo DEMO_PHOTOS=folder"},
		{"start over", "rm -r " + filepath.Dir(f.data)},
	}
}

// write creates a folder and writes the report's three files into it.
func (r *Report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{
		pageFile: r.page,
		textFile: r.text,
		jsonFile: func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", " ")
			return e.Encode(r)
		},
	} {
		if err := atomicfile.Write(filepath.Join(dir, name), write); err != nil {
			return err
		}
	}
	return nil
}
