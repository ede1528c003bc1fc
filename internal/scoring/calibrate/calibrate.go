// Package calibrate fits calibrations of scorers to tables of labelled edits, and reports how far scores are from
// labels before and after.
//
// The labelled rows are scored; this can be interrupted and resumed. Tables with pictures that the scorer was trained
// on are refused. Scenes (rows that share a source picture) are split into three parts: one fits the map, one sets
// its interval, one measures both. The map is written into the scorer directory, and the report into a folder of
// reports.
package calibrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"assay/edit"
	"assay/internal/calibration"
	"assay/internal/exit"
	"assay/internal/scoring"
	"assay/internal/store"
	"assay/model"
	"assay/t2i"
)

// Options of a calibration.
type Options struct {
	Scorer   string            // directory
	Model    model.Options     // Dimension: the calibrated one; "": the score
	In       string            // table of edits with labels on 0..1
	Test     string            // table of further edits to measure on; "": a part of In
	Labels   string            // table of id and label, if In has none; "": none
	Tests    string            // the same for Test
	Columns  map[string]string // our column: the table's
	Split    string            // rows of In to use, by their column split; "": all
	By       string            // column whose equal values stay in one part, in addition to source pictures; "": none
	Method   string            // see [calibration.Fit]
	Coverage float64           // of intervals, above 0 and below 1
	Seed     uint64            // of the parts
	Trained  []string          // tables that the scorer was trained on, in addition to those of its run
	Insist   bool              // also use rows that the scorer was trained on
	Out      string            // folder of the reports and of the progress

	Progress func(done, total int) // rows of both tables; nil: not called
	Warn     func(text string)     // nil: not called
}

// shares of the rows that fit the map and set its interval; the rest measures both. With a test table, the rest sets
// the interval.
const (
	fitShare      = 0.6
	intervalShare = 0.2
	fitWithTest   = 0.75
)

// Run calibrates a scorer: it writes report.json and report.html into the folder Out, then calibration.json and its
// line of scorer.yaml into the scorer directory. If ctx is cancelled, the error is an InterruptedError of package
// table, and the same call resumes.
func Run(ctx context.Context, o Options) (*Report, error) {
	t, err := targetOf(&o)
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(t.file); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return nil, exit.Usagef("%s is a symbolic link, and a calibration is written into the folder: copy the scorer first "+
			"(cp -rL), and pass its backbone with --backbone", t.file)
	}
	p, err := newJob(&o)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, t := range p.tables() {
			t.Close()
		}
	}()
	if err := p.refuseSeen(); err != nil {
		return nil, err
	}
	s, err := t.open()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := os.MkdirAll(o.Out, 0o777); err != nil {
		return nil, err
	}
	if err := p.score(ctx, s); err != nil {
		return nil, err
	}
	m, err := p.fit(t.dimension, s.Info().Range.Bounded())
	if err != nil {
		return nil, err
	}
	if err := p.report.write(o.Out); err != nil {
		return nil, err
	}
	if err := t.install(m); err != nil {
		return nil, err
	}
	for _, t := range p.tables() {
		if err := os.Remove(p.progress(t)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return &p.report, nil
}

// target is what is calibrated: a scorer directory, or a reward of package t2i.
type target struct {
	file      string // that names the calibration
	open      func() (edit.Judge, error)
	dimension string                         // under which the map is stored; known once it is open
	install   func(m *calibration.Map) error // while it is open
}

func targetOf(o *Options) (*target, error) {
	if t2i.Is(o.Scorer) {
		return rewardOf(o)
	}
	state, err := model.LoadScorerState(o.Scorer)
	if err != nil {
		return nil, exit.Named(err)
	}
	if err := state.Config.CheckDimension(o.Model.Dimension); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Scorer, err)
	}
	t := &target{file: filepath.Join(o.Scorer, model.ConfigFile)}
	t.open = func() (edit.Judge, error) {
		o.Model.Raw = true
		s, err := model.NewScorer(state, o.Model)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Scorer, err)
		}
		cfg := s.Config()
		t.dimension = cfg.CalibrationKey()
		return s, nil
	}
	t.install = func(m *calibration.Map) error {
		state := state.At(o.Model.Backbone)
		maps := state.Calibration // with the maps of other dimensions
		if digest := state.Digest(); maps == nil || maps.Scorer != digest {
			maps = &calibration.Calibration{Format: 1, Scorer: digest}
		}
		return state.InstallCalibration(maps.With(*m))
	}
	return t, nil
}

func rewardOf(o *Options) (*target, error) {
	if o.Model.Dimension != "" || o.Model.Backbone != "" {
		return nil, exit.Usagef("--dimension, --backbone: %s is a reward of one number, without a backbone", o.Scorer)
	}
	var j *t2i.Judge
	return &target{
		file: filepath.Join(o.Scorer, t2i.ConfigFile),
		open: func() (_ edit.Judge, err error) {
			j, err = t2i.Open(o.Scorer, t2i.Options{Device: o.Model.Device, Threads: o.Model.Threads, Raw: true})
			if err != nil {
				return nil, exit.Named(err)
			}
			return j, nil
		},
		install: func(m *calibration.Map) error { return j.InstallCalibration(o.Scorer, *m) },
	}, nil
}

// job is a calibration in progress.
type job struct {
	o      *Options
	in     *table
	test   *table // nil: a part of in
	scores map[*table]scoring.Scores
	report Report
}

func newJob(o *Options) (*job, error) {
	p := &job{o: o, scores: map[*table]scoring.Scores{}}
	var err error
	if p.in, err = openTable(o.In, o.Labels, o); err != nil {
		return nil, err
	}
	p.report = Report{Scorer: o.Scorer, Method: o.Method, Table: filepath.Base(o.In), Seed: o.Seed}
	if o.Test != "" {
		if p.test, err = openTable(o.Test, o.Tests, o); err != nil {
			return nil, errors.Join(err, p.in.Close())
		}
		p.report.Test = filepath.Base(o.Test)
		contents := map[store.Key]bool{}
		for _, r := range p.in.rows {
			for _, k := range append(slices.Clone(r.sources), r.edit) {
				contents[k] = true
			}
		}
		delete(contents, store.Key{})
		if n, first := p.test.seen(contents); n > 0 {
			return nil, errors.Join(exit.Usagef("%s shares pictures with %s (%d rows, the first is %s): measuring on "+
				"them is meaningless", o.Test, o.In, n, first), p.in.Close(), p.test.Close())
		}
	}
	for _, t := range p.tables() {
		if text := t.Swapped(); text != "" {
			p.warn(text)
		}
	}
	return p, nil
}

// tables returns the tables to score.
func (p *job) tables() []*table {
	if p.test == nil {
		return []*table{p.in}
	}
	return []*table{p.in, p.test}
}

// Whether the scorer was trained on the rows.
const (
	trainedNo      = "no"      // no row has a picture of its training tables
	trainedUnknown = "unknown" // not known what it was trained on
	trainedPart    = "in part" // some rows have such pictures, and Insist was set
)

// refuseSeen refuses tables with pictures from the scorer's training, on which its scores are too good.
func (p *job) refuseSeen() error {
	tables, known, err := trainedOn(p.o.Scorer)
	if err != nil {
		return err
	}
	for _, path := range p.o.Trained {
		tables = append(tables, learned{path: path})
	}
	p.report.Trained = trainedNo
	if !known && len(p.o.Trained) == 0 {
		p.report.Trained = trainedUnknown
		p.warn("it is not known what the scorer was trained on (found no run directory with its tables): if it was trained " +
			"on these rows, the calibration is wrong. Name its tables with --trained")
	}
	trained, without, err := pictures(tables)
	if err != nil {
		return err
	}
	if without.rows > 0 {
		p.report.Trained = trainedUnknown
		p.warn(fmt.Sprintf("%d rows of the scorer's training tables cannot be read, so it is not known whether it was "+
			"trained on these pictures; the first: %v", without.rows, without.first))
	}
	for _, t := range p.tables() {
		n, first := t.seen(trained)
		if n == 0 {
			continue
		}
		text := fmt.Sprintf("the scorer was trained on pictures of %d of %d rows (the first is %s)", n, len(t.rows), first)
		if !p.o.Insist {
			return exit.Usagef("%s: its scores are better on them, and a calibration on them is wrong: use rows with other "+
				"pictures, or use these anyway with --trained-on-too", text)
		}
		p.report.Trained = trainedPart
		p.warn(text + ": the calibration is unreliable")
	}
	return nil
}

func (p *job) warn(text string) {
	if p.report.Warnings = append(p.report.Warnings, text); p.o.Warn != nil {
		p.o.Warn(text)
	}
}

// progress returns the journal of a table's scores. It stays if a calibration fails; the journal of another table has
// another name.
func (p *job) progress(t *table) string {
	part := "in"
	if t == p.test {
		part = "test"
	}
	return filepath.Join(p.o.Out, part+"."+filepath.Base(t.Path())+".progress")
}

// score scores the labelled rows.
func (p *job) score(ctx context.Context, s edit.Judge) error {
	before, total := 0, 0
	for _, t := range p.tables() {
		total += len(t.rows)
	}
	for _, t := range p.tables() {
		labelled := map[int]bool{}
		for _, r := range t.rows {
			labelled[r.index] = true
		}
		var told func(done, total int)
		if p.o.Progress != nil {
			offset := before
			told = func(done, _ int) { p.o.Progress(offset+done, total) }
		}
		before += len(t.rows)
		scores, err := scoring.Resume(ctx, s, t.Table, p.progress(t), func(i int) bool { return !labelled[i] }, told)
		if err != nil {
			return err
		}
		p.scores[t] = scores
		for _, i := range t.problems() {
			p.fail(t, i, t.problem[i])
		}
		p.tellLeftOut(t)
		kept := t.rows[:0]
		for _, r := range t.rows {
			if err := scores.Err(r.index); err != nil {
				p.fail(t, r.index, err)
				continue
			}
			kept = append(kept, r)
		}
		t.rows = kept
	}
	return nil
}

// tellLeftOut warns about rows without a label, duplicates, and labels without a row.
func (p *job) tellLeftOut(t *table) {
	p.report.Unlabelled += t.unlabelled
	if t.unlabelled > 0 {
		p.warn(fmt.Sprintf("%d rows of %s have no label and are left out", t.unlabelled, filepath.Base(t.Path())))
	}
	if p.report.Repeated += t.repeated; t.repeated > 0 {
		p.warn(fmt.Sprintf("%d rows of %s repeat another one (pictures, instruction and label): they count once", t.repeated,
			filepath.Base(t.Path())))
	}
	if t.unmatched > 0 {
		p.warn(fmt.Sprintf("%d labels have ids that no row of %s has", t.unmatched, filepath.Base(t.Path())))
	}
}

// fail counts a row without a score, and warns about the first.
func (p *job) fail(t *table, i int, why error) {
	if p.report.Failed++; p.report.Failed == 1 {
		p.warn(fmt.Sprintf("rows without a score or a label are left out; the first is row %d of %s: %v", i+1,
			filepath.Base(t.Path()), why))
	}
}

// digest identifies the rows of a calibration.
func (t *table) digest() string {
	h := sha256.New()
	for _, r := range t.rows {
		fmt.Fprintln(h, r.source, r.edit, r.label, r.instruction)
	}
	return hex.EncodeToString(h.Sum(nil))[:24]
}
