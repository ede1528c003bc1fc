// Package report creates an HTML page of a run directory: what was trained, curves of loss and validation,
// calibration, edits with their scores, time and memory, and the next commands. It reads what the run has written so
// far, even while it runs. Watch prints the same progress as text lines.
package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/trainer/config"
	"assay/internal/trainer/records"
)

// File is the page's name in a run directory.
const File = "report.html"

// Run is the content of a run directory.
type Run struct {
	Dir         string
	Steps       []records.StepMetrics
	Validations []records.ValidationMetrics
	Predictions []records.Prediction // of the last validation
	Facts       []Fact               // what was trained, time and memory
	Finished    bool
	Refresh     int // seconds after which a browser reloads the page; 0: never

	Examples []Examples

	config *config.Config
}

// Fact is a line of the page's table.
type Fact struct{ Name, Value string }

// Examples are some edits of the validation rows.
type Examples struct {
	Title string
	Edits []Example
}

// Example is an edit with its score and its label, both in 0..1.
type Example struct {
	Sources     []template.URL
	Output      template.URL
	Absent      error // why pictures are missing; nil: none are
	Instruction string
	Score       float64
	Label       *float64
}

// Read reads a run directory. A line that is still being written is ignored.
func Read(dir string) (*Run, error) {
	r := &Run{Dir: dir}
	err := eachLine(filepath.Join(dir, records.MetricsFile), func(line []byte) error {
		var kind struct{ Kind string }
		if err := json.Unmarshal(line, &kind); err != nil {
			return err
		}
		if kind.Kind == "validation" {
			r.Validations = append(r.Validations, records.ValidationMetrics{})
			return json.Unmarshal(line, &r.Validations[len(r.Validations)-1])
		}
		r.Steps = append(r.Steps, records.StepMetrics{})
		return json.Unmarshal(line, &r.Steps[len(r.Steps)-1])
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a run directory: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	err = eachLine(filepath.Join(dir, records.PredictionsFile), func(line []byte) error {
		r.Predictions = append(r.Predictions, records.Prediction{})
		return json.Unmarshal(line, &r.Predictions[len(r.Predictions)-1])
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r.Finished = finished(dir)
	return r, r.facts()
}

// finished reports whether the run's result was written after its last step.
func finished(dir string) bool {
	metrics, err := os.Stat(filepath.Join(dir, records.MetricsFile))
	if err != nil {
		return false
	}
	for _, name := range config.ResultDirs {
		if name == config.BestDir {
			continue
		}
		if result, err := os.Stat(filepath.Join(dir, name)); err == nil && !result.ModTime().Before(metrics.ModTime()) {
			return true
		}
	}
	return false
}

// eachLine calls do for each complete line of a file.
func eachLine(path string, do func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := b.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(line)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
}

// facts adds the run's configuration and progress to Facts.
func (r *Run) facts() error {
	c, err := config.Load(filepath.Join(r.Dir, config.ConfigFile))
	if err != nil {
		return err
	}
	r.config = c
	unit := "edits"
	if c.Mode == config.ModeText {
		unit = "conversations"
	}
	add := func(name, format string, args ...any) {
		r.Facts = append(r.Facts, Fact{name, fmt.Sprintf(format, args...)})
	}
	if c.Init != "" {
		add("starts from", "%s", c.Init)
	}
	add("backbone", "%s", c.Backbone)
	add("mode", "%s", c.Mode)
	add("data", "%s", strings.Join(c.Data.Train, ", "))
	add("learning rate", "%g", c.Optimizer.LR)
	add("batch", "%d", c.BatchSize)
	if n := len(r.Steps); n > 0 {
		last := r.Steps[n-1]
		add("steps", "%d, %.4g epochs, %d %s", last.Step, last.Epoch, last.Samples, unit)
		add("time", "%.0f s, %.1f %s per second", last.Seconds, float64(last.Samples)/max(last.Seconds, 1e-9), unit)
	}
	return nil
}

// Choose selects the examples: the highest and the lowest scores, and the scores furthest from their labels. open
// returns the edit of a validation row.
func (r *Run) Choose(open func(row int) (*edit.Edit, error)) error {
	const each = 4
	rising := byScore(r.Predictions, false)
	falling, wrong := slices.Clone(rising), byScore(r.Predictions, true)
	slices.Reverse(falling)
	slices.SortStableFunc(wrong, func(a, b records.Prediction) int { return cmp.Compare(distance(b), distance(a)) })
	for _, part := range []struct {
		title string
		rows  []records.Prediction
	}{{"Highest scores", falling}, {"Lowest scores", rising}, {"Furthest from their labels", wrong}} {
		x := Examples{Title: part.title}
		for _, p := range part.rows[:min(each, len(part.rows))] {
			e, err := open(p.Row)
			if err != nil {
				return err
			}
			shown := Example{Instruction: e.Instruction, Score: p.Score, Label: p.Label}
			for k := range max(len(e.Sources), 1) {
				source, err := thumbnail(e, edit.SourceRole(k))
				shown.Sources, shown.Absent = append(shown.Sources, source), errors.Join(shown.Absent, err)
			}
			shown.Output, err = thumbnail(e, "edit")
			shown.Absent = errors.Join(shown.Absent, err)
			x.Edits = append(x.Edits, shown)
		}
		if len(x.Edits) > 0 {
			r.Examples = append(r.Examples, x)
		}
	}
	return nil
}

// byScore returns predictions, the lowest score first; with labelled, only of rows with a label.
func byScore(all []records.Prediction, labelled bool) []records.Prediction {
	out := slices.DeleteFunc(slices.Clone(all), func(p records.Prediction) bool { return labelled && p.Label == nil })
	slices.SortStableFunc(out, func(a, b records.Prediction) int { return cmp.Compare(a.Score, b.Score) })
	return out
}

func distance(p records.Prediction) float64 { return math.Abs(p.Score - *p.Label) }
