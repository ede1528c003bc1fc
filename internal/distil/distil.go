// Package distil trains a scorer on the answers of a slow judge (knowledge distillation).
//
// A [Teacher] rates the edits of two tables, once or several times each. The ratings of the first become a label
// table and a training configuration, which `train --config` can also run; the second is held out. The trained
// student scores the held-out edits, and a [Report] compares it with its teacher, and both with the ground truth if
// that is known. Each stage is done once: state.json in the folder records the finished stages and their inputs.
package distil

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/jsonfile"
	"assay/internal/stats"
	"assay/internal/store"
	"assay/internal/trainer"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
)

// Options describe what is distilled into what.
type Options struct {
	Config  string // training configuration of the student, without data and out
	In      string // table of edits to learn from
	HeldOut string // table of edits of other photographs
	Out     string // folder
	Order   bool   // trust only the order of a group's edits
	Reasons bool   // train on the teacher's text in addition to the scores

	Truth  string   // table with the ids and true degrees of the held-out edits, or human labels; "": none
	Column string   // of the truth: numbers from 0 to 1
	By     []string // columns of the truth that the report is broken down by

	Open   func(scorer string) (edit.Judge, error) // opens the student
	Train  trainer.Options                         // for the progress of the training
	Note   func(text string)                       // called at the start of a stage
	Warn   func(text string)
	DryRun bool // neither judges nor trains
}

// Rated is a teacher's verdict on an edit.
type Rated struct {
	Ratings []float64 // one per pass, on 0..1, not clipped
	Why     string    // the teacher's text; "": none
	Err     error     // why there are no ratings

	Unbounded bool // the ratings have no range and only order edits
}

// Mean is the mean of the ratings, the teacher's score.
func (r *Rated) Mean() float64 { return stats.Mean(r.Ratings) }

// Spread is the standard deviation of the ratings.
func (r *Rated) Spread() float64 {
	sum, mean := 0.0, r.Mean()
	for _, x := range r.Ratings {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / float64(max(1, len(r.Ratings)-1)))
}

// Teacher rates the edits of tables.
type Teacher interface {
	Name() string
	Passes() int // ratings per edit; 0: varies
	Fingerprint() (string, error)
	// Rate rates every row of a table and saves the answers in files whose names start with prefix. After an
	// interrupt the same call resumes. seconds is the teacher's time per score, all passes together; 0: not measured.
	Rate(ctx context.Context, in, prefix string) (rated []Rated, seconds float64, err error)
	Asked() any // counts of this run, for display; nil: none
}

// state records which stages are done.
type state struct {
	Stages map[string]string `json:"stages"` // by name: digest of its inputs
	Speed  Speed             `json:"speed"`
	Timed  string            `json:"timed"` // fingerprint of the teacher that Speed was measured for
}

// Speed is the time of a score in seconds; 0: not measured.
type Speed struct {
	Teacher float64 `json:"teacher,omitempty"`
	Student float64 `json:"student,omitempty"`
}

// The files of a folder.
const (
	stateFile  = "state.json"
	labelsFile = "labels.jsonl"
	heldFile   = "held-out.jsonl"
	configFile = "train.yaml"
	reportFile = "report.json"
)

// run is one call of [Run].
type run struct {
	Options
	teacher Teacher
	print   string // fingerprint of the teacher
	state   state
	shown   map[*data.Table]string // digest of the pictures of a table
	truths  map[string]truth       // by id; nil: no truth given
}

func (r *run) path(name string) string { return filepath.Join(r.Out, name) }

// done reports whether a stage was done with the same inputs.
func (r *run) done(stage string, of ...string) bool {
	return r.state.Stages[stage] == store.KeyOf(of...).String()
}

// finish records that a stage is done.
func (r *run) finish(stage string, of ...string) error {
	r.state.Stages[stage] = store.KeyOf(of...).String()
	return jsonfile.Write(r.path(stateFile), r.state)
}

// Plan is the result of a dry run.
type Plan struct {
	Teacher string `json:"teacher"`
	Passes  int    `json:"passes"`
	Rows    int    `json:"rows"`
	HeldOut int    `json:"held_out"`
	Answers int    `json:"answers"` // minimum number of answers of the teacher
	Config  string `json:"config"`  // the configuration of the training, as text
}

// Run distils a teacher into a scorer, or resumes. A dry run returns a plan instead of a report.
func Run(ctx context.Context, teacher Teacher, o Options) (*Report, *Plan, error) {
	r := &run{Options: o, teacher: teacher, state: state{Stages: map[string]string{}}, shown: map[*data.Table]string{}}
	var err error
	if r.print, err = teacher.Fingerprint(); err != nil {
		return nil, nil, err
	}
	train, held, err := r.tables()
	if err != nil {
		return nil, nil, err
	}
	defer train.Close()
	defer held.Close()
	text, err := r.configuration()
	if err != nil {
		return nil, nil, exit.Usage(err)
	}
	if err := r.readTruths(held); err != nil {
		return nil, nil, err
	}
	if err := r.readable(text); err != nil {
		return nil, nil, exit.Usage(err)
	}
	if o.DryRun {
		rows := train.Len() + held.Len()
		return nil, &Plan{teacher.Name(), teacher.Passes(), train.Len(), held.Len(), rows * teacher.Passes(),
			string(text)}, nil
	}
	if err := os.MkdirAll(o.Out, 0o777); err != nil {
		return nil, nil, err
	}
	if raw, err := os.ReadFile(r.path(stateFile)); err == nil {
		if err := json.Unmarshal(raw, &r.state); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", r.path(stateFile), err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	taught, err := r.label(ctx, train, labelsFile)
	if err != nil {
		return nil, nil, err
	}
	rated, err := r.label(ctx, held, heldFile)
	if err != nil {
		return nil, nil, err
	}
	scorer, err := r.train(ctx, train, text)
	if err != nil {
		return nil, nil, err
	}
	report, err := r.report(ctx, held, scorer, taught, rated)
	return report, nil, err
}

// tables opens the two tables, refuses photographs that are in both, and records a digest of their pictures.
func (r *run) tables() (train, held *data.Table, err error) {
	if train, err = data.OpenTable(r.In); err != nil {
		return nil, nil, exit.Usage(err)
	}
	if held, err = data.OpenTable(r.HeldOut); err != nil {
		return nil, nil, errors.Join(exit.Usage(err), train.Close())
	}
	seen := map[store.Key]bool{}
	each := func(t *data.Table, look func(key store.Key, i int) error) error {
		if t.Len() == 0 {
			return exit.Usagef("%s has no rows", t.Path())
		}
		shown := sha256.New()
		for i := range t.Len() {
			row, err := t.Read(i)
			if err != nil { // an error of the row, which the teacher reports
				continue
			}
			sources := row.Sources()
			for n, m := range append(slices.Clone(sources), row.Edit) {
				key, err := store.Content(t.Folder(), m)
				fmt.Fprintln(shown, i, n, key, err == nil)
				if err == nil && n < len(sources) {
					err = look(key, i)
				}
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
			}
		}
		r.shown[t] = hex.EncodeToString(shown.Sum(nil))
		return nil
	}
	err = each(train, func(key store.Key, _ int) error { seen[key] = true; return nil })
	if err == nil {
		err = each(held, func(key store.Key, i int) error {
			if seen[key] {
				return exit.Usagef("row %d of %s shows a source that is also in %s: held-out edits need other photographs", i+1,
					r.HeldOut, r.In)
			}
			return nil
		})
	}
	if err != nil {
		return nil, nil, errors.Join(err, train.Close(), held.Close())
	}
	return train, held, nil
}

// label lets the teacher rate a table and writes its rows with the resulting labels.
func (r *run) label(ctx context.Context, t *data.Table, name string) ([]Rated, error) {
	content, err := store.FileDigest(t.Path())
	if err != nil {
		return nil, err
	}
	of := []string{"distil-1", r.print, content.String(), r.shown[t], fmt.Sprint(r.Order, r.Reasons)}
	prefix := r.path(strings.TrimSuffix(name, ".jsonl"))
	if r.done(name, of...) {
		if rated, err := readLabels(r.path(name), t.Len()); err == nil {
			return rated, nil
		}
	}
	r.Note(fmt.Sprintf("%s rates %d edits of %s", r.teacher.Name(), t.Len(), t.Path()))
	rated, seconds, err := r.teacher.Rate(ctx, t.Path(), prefix)
	if err != nil {
		return nil, err
	}
	failed := func(x Rated) bool { return x.Err != nil }
	switch first := slices.IndexFunc(rated, failed); {
	case first == 0 && !slices.ContainsFunc(rated, func(x Rated) bool { return x.Err == nil }):
		return nil, fmt.Errorf("the teacher rated none of the %d edits of %s; row 1: %w", t.Len(), t.Path(), rated[0].Err)
	case first >= 0:
		r.Warn(fmt.Sprintf("the teacher did not rate all edits of %s; row %d: %v", t.Path(), first+1, rated[first].Err))
	}
	if err := r.writeLabels(ctx, t, name, rated); err != nil {
		return nil, err
	}
	if seconds > 0 {
		r.state.Speed, r.state.Timed = Speed{Teacher: seconds}, r.print
	}
	if err := r.finish(name, of...); err != nil {
		return nil, err
	}
	return readLabels(r.path(name), t.Len())
}

// labelColumns are the columns that labels add to the rows of a table.
var labelColumns = []data.Column{
	{Name: "label", Kind: data.KindNumber}, {Name: "ratings", Kind: data.KindJSON}, {Name: "rank", Kind: data.KindNumber},
	{Name: "why", Kind: data.KindText}, {Name: "teacher", Kind: data.KindJSON},
	{Name: "teacher_error", Kind: data.KindText},
}

// writeLabels writes the label table. label is the mean of the ratings. If only their order is trusted, the column
// rank replaces it (lower is better, compared within a group). The column teacher always holds the ratings.
func (r *run) writeLabels(ctx context.Context, t *data.Table, name string, rated []Rated) error {
	return t.Rewrite(ctx, r.path(name), data.FormatJSONL, labelColumns, func(i int, rec *data.Record) error {
		for _, c := range labelColumns {
			rec.Set(c.Name, nil)
		}
		said := &rated[i]
		if said.Err != nil {
			rec.Set("teacher_error", said.Err.Error())
			return nil
		}
		rec.Set("teacher", said.Ratings)
		if r.Reasons && said.Why != "" {
			rec.Set("why", said.Why)
		}
		if r.Order {
			rec.Set("rank", math.Round(-said.Mean()*1e9)/1e9) // equal means are ties, whatever the rounding
			return nil
		}
		if said.Unbounded {
			return exit.Usagef("the teacher's scores are unbounded: calibrate it (score calibrate), or trust only their order " +
				"(--order)")
		}
		clipped := Rated{Ratings: slices.Clone(said.Ratings)} // a scorer's score may be slightly out of range
		for k, x := range clipped.Ratings {
			clipped.Ratings[k] = min(1, max(0, x))
		}
		rec.Set("label", clipped.Mean())
		rec.Set("ratings", clipped.Ratings)
		return nil
	})
}

// readLabels reads the teacher's ratings of the rows of a table.
func readLabels(path string, rows int) ([]Rated, error) {
	t, err := data.OpenTable(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if t.Len() != rows {
		return nil, fmt.Errorf("%s has %d rows, not %d", path, t.Len(), rows)
	}
	out := make([]Rated, rows)
	for i := range out {
		rec, err := t.Record(i)
		if err != nil {
			return nil, err
		}
		out[i] = ratedRow(&rec)
	}
	return out, nil
}

func ratedRow(rec *data.Record) (r Rated) {
	if v, ok := rec.Get("teacher_error"); ok && !data.IsNull(v) {
		text, err := data.Text(v)
		return Rated{Err: errors.Join(errors.New(text), err)}
	}
	v, _ := rec.Get("teacher")
	var err error
	if r.Ratings, err = data.Numbers(v); err == nil && len(r.Ratings) == 0 {
		err = errors.New("no ratings")
	}
	r.Err = err
	return r
}

// train trains the student, or returns the scorer already trained on the same inputs.
func (r *run) train(ctx context.Context, t *data.Table, text []byte) (scorer string, err error) {
	path := r.path(configFile)
	if err := atomicfile.WriteBytes(path, text); err != nil {
		return "", err
	}
	o := r.Train
	if o.Config, err = config.Load(path); err != nil {
		return "", exit.Usage(err)
	}
	of, err := r.inputs(o.Config, t, text)
	if err != nil {
		return "", err
	}
	scorer = r.path("run/scorer")
	if _, err := os.Stat(scorer); err == nil && r.done("train", of...) {
		return scorer, nil
	}
	r.Note("training the student: train --config " + path)
	if err := r.begin(of...); err != nil {
		return "", err
	}
	result, err := trainer.Train(ctx, o)
	if err != nil {
		return "", err
	}
	return result.Scorer, r.finish("train", of...)
}

// inputs returns what the training depends on: its configuration, the labels with their pictures, and the contents of
// the files that the configuration names.
func (r *run) inputs(c *config.Config, t *data.Table, text []byte) ([]string, error) {
	of := []string{string(text), r.shown[t]}
	files := []string{r.path(labelsFile)}
	if c.Scorer != "" {
		files = append(files, c.Scorer)
	}
	if c.Init != "" { // its settings and its weights
		own, err := os.ReadDir(c.Init)
		if err != nil {
			return nil, err
		}
		for _, f := range own {
			if slices.Contains([]string{".yaml", ".json", ".safetensors"}, filepath.Ext(f.Name())) {
				files = append(files, filepath.Join(c.Init, f.Name()))
			}
		}
	}
	for _, path := range files {
		content, err := store.FileDigest(path)
		if err != nil {
			return nil, err
		}
		of = append(of, filepath.Base(path), content.String())
	}
	add := func(digests map[string]string, err error) error {
		for _, name := range slices.Sorted(maps.Keys(digests)) {
			of = append(of, name, digests[name])
		}
		return err
	}
	if c.Backbone != "" {
		if err := add(models.BackboneFiles(c)); err != nil {
			return nil, err
		}
	}
	if b := c.Validate.Benchmark; b != nil && r.Train.Benchmark != nil { // without an opener, train refuses it
		benchmark, err := r.Train.Benchmark(b)
		if err != nil {
			return nil, exit.Usage(fmt.Errorf("validate.benchmark: %w", err))
		}
		if err := add(benchmark.Fingerprint()); err != nil {
			return nil, err
		}
	}
	return of, nil
}

// begin records the inputs of the training. It first deletes the run of a training on other inputs, so that even
// after a crash that run is neither resumed nor taken for the student.
func (r *run) begin(of ...string) error {
	if r.done("training", of...) {
		return nil
	}
	if r.state.Stages["training"] != "" {
		if err := os.RemoveAll(r.path("run")); err != nil {
			return err
		}
	}
	delete(r.state.Stages, "train")
	return r.finish("training", of...)
}

// timed runs score and returns the seconds per edit.
func timed(n int, score func() error) (seconds float64, err error) {
	start := time.Now()
	err = score()
	return time.Since(start).Seconds() / float64(max(1, n)), err
}
