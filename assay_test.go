package assay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/calibration"
	"assay/internal/oracle"
	"assay/model"
)

func openTiny(t *testing.T) *Scorer {
	t.Helper()
	s, err := Open(t.Context(), "backbones/tiny-scorer", Options{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func readCoffee(t *testing.T) *Edit {
	t.Helper()
	e, err := ReadEdit(
		t.Context(),
		"testdata/oracle/images/coffee.png",
		"testdata/oracle/images/coffee_blur.png",
		"blur the picture",
	)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// each yields edits.
func each(edits ...*Edit) iter.Seq2[*Edit, error] {
	return func(yield func(*Edit, error) bool) {
		for _, e := range edits {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestGradientRange: scores and derivatives are on the scorer's range, 0 to 10, and a step along the gradient
// improves the edit.
func TestGradientRange(t *testing.T) {
	s, e := openTiny(t), readCoffee(t)
	g, err := s.Gradient(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	gradients, err := s.Judge().(edit.Differentiable).Gradients(t.Context(), []*Edit{e})
	if err != nil {
		t.Fatal(err)
	}
	of01 := gradients[0]
	before, err := s.Score(t.Context(), e)
	if err != nil || !(math.Abs(before.Value-g.Value) <= 1e-4) || !(math.Abs(before.Value-10*of01.Score01) <= 1e-4) {
		t.Fatalf("score %g, with its gradient %g, on 0..1 %g (%v)", before.Value, g.Value, of01.Score01, err)
	}
	for what, pair := range map[string][2]*data.Gradient{"source": {g.Source(), of01.Source()},
		"output": {g.Output, of01.Output}} {
		for i, v := range pair[1].Values {
			if pair[0].Values[i] != 10*v {
				t.Fatalf("%s: value %d is %g, want %g", what, i, pair[0].Values[i], 10*v)
			}
		}
	}
	was := e.Output.(*data.Picture)
	better := data.NewPicture(was.Width, was.Height)
	for i, d := range g.Output.Values {
		step := math.Copysign(4, float64(d))
		better.Pix[i] = byte(min(max(float64(was.Pix[i])+step, 0), 255))
	}
	e.Output = better
	if after, err := s.Score(t.Context(), e); err != nil || after.Value <= before.Value {
		t.Errorf("a step along the gradient changes the score from %g to %g (%v)", before.Value, after.Value, err)
	}
}

// TestScoreAll: edits of several batches get their scores in order, and an edit that cannot be read or scored gets an
// error. Breaking out of the loop ends the reading.
func TestScoreAll(t *testing.T) {
	s, e := openTiny(t), readCoffee(t)
	want, err := s.Score(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	unread, n := errors.New("unread"), 2*scoredAtOnce+3
	read := 0
	edits := func(yield func(*Edit, error) bool) {
		for read = range n {
			switch {
			case read == 1:
				if !yield(nil, unread) {
					return
				}
			case read == 2:
				if !yield(edit.New(e.Source(), e.Output, ""), nil) {
					return
				}
			case !yield(e, nil):
				return
			}
		}
	}
	i := 0
	for score, err := range s.ScoreAll(t.Context(), edits) {
		switch {
		case i == 1 && err != unread, i == 2 && err == nil, i != 1 && i != 2 && (err != nil || score.Value != want.Value):
			t.Errorf("edit %d: score %g, %v; want %g", i, score.Value, err, want.Value)
		}
		i++
	}
	if i != n {
		t.Errorf("%d scores of %d edits", i, n)
	}
	n = 100 * scoredAtOnce
	for range s.ScoreAll(t.Context(), edits) {
		break
	}
	if read > 5*scoredAtOnce {
		t.Errorf("%d edits were read for one score", read)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	var last error
	for _, err := range s.ScoreAll(cancelled, each(e)) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("a cancelled ScoreAll ends with %v, want context.Canceled", last)
	}
}

func TestErrors(t *testing.T) {
	s, p := openTiny(t), readCoffee(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(cancelled, "backbones/tiny-scorer", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	if _, err := s.Score(cancelled, p); !errors.Is(err, context.Canceled) {
		t.Errorf("Score: %v", err)
	}
	if _, err := s.Gradient(cancelled, p); !errors.Is(err, context.Canceled) {
		t.Errorf("Gradient: %v", err)
	}
	run, err := LoadTraining("examples/library/train.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run.Out = t.TempDir()
	if _, err := Train(cancelled, Training{Config: run}); !errors.Is(err, context.Canceled) {
		t.Errorf("Train: %v", err)
	}
	for what, e := range map[string]*Edit{
		"no output":         {Sources: p.Sources, Instruction: "x"},
		"no source":         {Output: p.Output, Instruction: "x"},
		"instruction":       {Sources: p.Sources, Output: p.Output},
		"has 2 sources":     {Sources: append(p.Sources, p.Output), Output: p.Output, Instruction: "x"},
		"has a requirement": {Sources: p.Sources, Output: p.Output, Instruction: "x", Requirement: "y"},
	} {
		if _, err := s.Score(t.Context(), e); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want an error about %q", err, what)
		}
	}
	edits := func(yield func(*Edit, error) bool) { _ = yield(nil, nil) && yield(p, nil) }
	var got []string
	for _, err := range s.ScoreAll(t.Context(), edits) { // one goroutine reads ahead: a panic there ends the program
		got = append(got, fmt.Sprint(err))
	}
	if want := []string{"there is no edit", "<nil>"}; !slices.Equal(got, want) {
		t.Errorf("nil as an edit: got %q, want %q", got, want)
	}
	if _, err := Open(t.Context(), "", Options{}); err == nil || !strings.Contains(err.Error(), "no judge is named") {
		t.Errorf("no name: got error %v, want one that says so", err)
	}
	if _, err := s.Gradient(t.Context(), &Edit{}); err == nil {
		t.Error("the gradient of nothing")
	}
	if _, err := ReadEdit(t.Context(), "nowhere.png", "nowhere.png", "x"); err == nil ||
		!strings.Contains(err.Error(), "nowhere.png") {
		t.Error(err)
	}
	if one, err := ReadEdit(t.Context(), "", "testdata/oracle/images/coffee.png", "x"); err != nil ||
		one.Source() != nil || one.Output == nil {
		t.Errorf("an edit of one picture: %v, %v", one, err)
	}
	if _, err := ReadEdit(t.Context(), "testdata/oracle/images/coffee.png", "", "x"); err == nil {
		t.Error("an edit without an output")
	}
	if _, err := ReadEdit(cancelled, "nowhere.png", "nowhere.png", "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadEdit: %v", err)
	}
	if _, err := DryRun(cancelled, Training{Config: run}); !errors.Is(err, context.Canceled) {
		t.Errorf("DryRun: %v", err)
	}
	if _, err := DryRun(t.Context(), Training{Config: run, DeviceMemory: -1}); err == nil {
		t.Error("a plan for -1 bytes")
	}
	if _, err := Train(t.Context(), Training{Config: run, DeviceMemory: 1}); err == nil {
		t.Error("training with a memory that is not there")
	}
	if _, err := Train(t.Context(), Training{File: "nowhere.yaml"}); err == nil ||
		!strings.Contains(err.Error(), "nowhere.yaml") {
		t.Error(err)
	}
	if _, err := Label(t.Context(), Labeling{File: "nowhere.yaml"}); err == nil ||
		!strings.Contains(err.Error(), "nowhere.yaml") {
		t.Error(err)
	}
}

// TestClosed: a closed judge says so, not that one of its parts is closed.
func TestClosed(t *testing.T) {
	s, e := openTiny(t), readCoffee(t)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Errorf("closing twice: got error %v, want none", err)
	}
	_, scored := s.Score(t.Context(), e)
	_, differentiated := s.Gradient(t.Context(), e)
	for _, all := range s.ScoreAll(t.Context(), each(e)) {
		for what, err := range map[string]error{"Score": scored, "Gradient": differentiated, "ScoreAll": all} {
			if err == nil || err.Error() != "the judge is closed" {
				t.Errorf("%s: got error %v, want that the judge is closed", what, err)
			}
		}
	}
}

// TestChangedConfigs: a configuration that a program has changed is checked as its file was. A run with an unknown
// mode, schedule or optimizer, or with a reversed range, trained and returned no error.
func TestChangedConfigs(t *testing.T) {
	for want, change := range map[string]func(c *TrainingConfig){
		"score_range: ":      func(c *TrainingConfig) { c.ScoreRange = []float64{10, 0} },
		"score_range: want":  func(c *TrainingConfig) { c.ScoreRange = nil },
		"question: ":         func(c *TrainingConfig) { c.Question = nil },
		"mode: want one":     func(c *TrainingConfig) { c.Mode = "nix" },
		"schedule.kind: ":    func(c *TrainingConfig) { c.Schedule.Kind = "nix" },
		"optimizer.name: ":   func(c *TrainingConfig) { c.Optimizer.Name = "nix" },
		"optimizer.lr: ":     func(c *TrainingConfig) { c.Optimizer.LR = math.NaN() },
		"batch_size: ":       func(c *TrainingConfig) { c.BatchSize = -1 },
		"clip_norm: ":        func(c *TrainingConfig) { c.ClipNorm = -1 },
		"steps: ":            func(c *TrainingConfig) { c.Steps = -5 },
		"threads: ":          func(c *TrainingConfig) { c.Threads = -4 },
		"out: is required: ": func(c *TrainingConfig) { c.Out = "" },
	} {
		run, err := LoadTraining("examples/library/train.yaml")
		if err != nil {
			t.Fatal(err)
		}
		run.Out = filepath.Join(t.TempDir(), "run")
		change(run)
		if _, err := Train(t.Context(), Training{Config: run}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Train: got error %v, want one with %q", err, want)
		}
		if _, err := DryRun(t.Context(), Training{Config: run}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("DryRun: got error %v, want one with %q", err, want)
		}
		if _, err := os.Stat(run.Out); err == nil {
			t.Errorf("%q: got a run directory, want none", want)
		}
	}
	_, err := Label(t.Context(), Labeling{Config: &LabelingConfig{}}) // it wrote a table into the current folder
	if err == nil || !strings.Contains(err.Error(), "out: want the output folder\n") {
		t.Errorf("labelling without a folder: got error %v, want one that says so", err)
	}
	if _, err := Label(t.Context(), Labeling{File: "x", Config: &LabelingConfig{}}); err == nil ||
		!strings.Contains(err.Error(), "both set") {
		t.Errorf("two labellings: got error %v, want one that says so", err)
	}
	if _, err := Train(t.Context(), Training{File: "x", Config: &TrainingConfig{}}); err == nil ||
		!strings.Contains(err.Error(), "both set") {
		t.Errorf("two trainings: got error %v, want one that says so", err)
	}
}

// TestMalformedPictures: a picture that a program built incorrectly is an error of its edit, not a crash or a score.
func TestMalformedPictures(t *testing.T) {
	s, p := openTiny(t), readCoffee(t)
	output := p.Output.(*data.Picture)
	short, long := *output, *output
	short.Pix = short.Pix[:100] // with capacity left
	long.Pix = append(append([]byte{}, long.Pix...), 1, 2, 3)
	for name, picture := range map[string]*data.Picture{
		"0 x 0":           {},
		"-5 x -5":         {Width: -5, Height: -5},
		"50 x 50 pixels":  {Width: 50, Height: 50, Pix: make([]byte, 100)},
		"has 100 bytes":   &short,
		"three per pixel": &long,
	} {
		bad := edit.New(p.Source(), picture, p.Instruction)
		if _, err := s.Score(t.Context(), bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Score of %s: %v", name, err)
		}
		if _, err := s.Gradient(t.Context(), bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Gradient of %s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Gradient(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled gradient: %v", err)
	}
	if _, err := Open(t.Context(), "backbones/tiny-scorer", Options{Threads: -1}); err == nil {
		t.Error("-1 threads were taken")
	}
	if _, err := Train(t.Context(), Training{}); err == nil || !strings.Contains(err.Error(), "Training.File") {
		t.Errorf("training of nothing: %v", err)
	}
	if _, err := Label(t.Context(), Labeling{}); err == nil || !strings.Contains(err.Error(), "Labeling.File") {
		t.Errorf("labelling of nothing: %v", err)
	}
}

// TestOpenElsewhere: a scorer opens with its backbone wherever that is stored, and with no other backbone.
func TestOpenElsewhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "scorer")
	if err := os.CopyFS(dir, os.DirFS("backbones/tiny-scorer")); err != nil {
		t.Fatal(err)
	}
	for backbone, want := range map[string]string{
		"":                    "scorer.yaml:2: backbone: ../tiny: ",
		"backbones/tiny":      "",
		"backbones/tiny-clip": "the scores would be another scorer's",
	} {
		warn := func(text string) { t.Errorf("Backbone %q: warning %q, want none", backbone, text) }
		s, err := Open(t.Context(), dir, Options{Device: "cpu", Backbone: backbone, Warn: warn})
		if err == nil {
			err = s.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Backbone %q: error %v, want %q", backbone, err, want)
		}
	}
}

// TestCalibratedResult: the result of a calibrated scorer has the score before calibration, and the interval of the
// label.
func TestCalibratedResult(t *testing.T) {
	dir, p := filepath.Join(t.TempDir(), "scorer"), readCoffee(t)
	before, err := openTiny(t).Score(t.Context(), p)
	if err != nil || before.Raw01 != nil || before.Interval != nil {
		t.Fatalf("without a calibration: got %+v, %v", before, err)
	}
	if err := os.CopyFS(dir, os.DirFS("backbones/tiny-scorer")); err != nil {
		t.Fatal(err)
	}
	backbone, err := filepath.Abs("backbones/tiny")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, model.ConfigFile)
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte("../tiny"), []byte(backbone), 1)
	if err := os.WriteFile(file, config, 0o666); err != nil {
		t.Fatal(err)
	}
	state, err := model.LoadScorerState(dir)
	if err != nil {
		t.Fatal(err)
	}
	config = append(config, "calibration: "+calibration.File+"\n"...)
	if err := os.WriteFile(file, config, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, m := range []calibration.Map{{Method: calibration.Platt, A: -2, B: 0.5},
		{Method: calibration.Inverse, X: []float64{0.1, 0.9}, Y: []float64{0.3, 0.7}}} {
		m.Interval = &calibration.Interval{Coverage: 0.9, HalfWidth: 0.4}
		k := calibration.Calibration{Format: 1, Scorer: state.Digest(), Maps: []calibration.Map{m}}
		if err := k.Write(filepath.Join(dir, calibration.File)); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), dir, Options{Device: "cpu"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Score(t.Context(), p)
		if err != nil || r.Raw01 == nil || r.Interval == nil {
			t.Fatalf("%s: got %+v, %v", m.Method, r, err)
		}
		raw := before.Value / 10
		want, _ := m.At(raw)
		interval := edit.Interval{Low: 10 * max(0, want-0.4), High: 10 * min(1, want+0.4), Coverage: 0.9}
		if !(math.Abs(*r.Raw01-raw) <= 1e-12) || !(math.Abs(r.Value-10*want) <= 1e-9) ||
			!(math.Abs(r.Interval.Low-interval.Low) <= 1e-9) || !(math.Abs(r.Interval.High-interval.High) <= 1e-9) ||
			r.Interval.Coverage != interval.Coverage {
			t.Errorf("%s: got %+v, raw01 %g, %+v; want %g, %g, %+v", m.Method, r, *r.Raw01, *r.Interval, 10*want, raw, interval)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSeveralSources: an edit with three sources has transformers' score, and a gradient for each; a scorer that
// shows source and edit as two frames refuses it.
func TestSeveralSources(t *testing.T) {
	const family = "testdata/oracle/qwen2_5_vl"
	c := oracle.Read[[]oracle.Case](t, family+"/cases_several.json")[1]
	var sources []string
	for _, name := range c.Sources {
		sources = append(sources, filepath.Join(family, name))
	}
	e, err := ReadEditOf(t.Context(), sources, filepath.Join(family, c.Edited), c.Instruction)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), filepath.Join(family, c.Scorer), Options{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	score, err := s.Score(t.Context(), e)
	if err != nil || !(math.Abs(score.Value-c.Score) <= 1e-4) {
		t.Errorf("got score %g (%v), want %g", score.Value, err, c.Score)
	}
	g, err := s.Gradient(t.Context(), e)
	if err != nil || len(g.Sources) != len(sources) || g.Output == nil {
		t.Fatalf("got gradients %+v (%v), want those of %d sources and the edit", g, err, len(sources))
	}
	for i, part := range g.Sources {
		p := e.Sources[i].(*data.Picture)
		if part.Width != p.Width || part.Height != p.Height {
			t.Errorf("source %d: got a gradient of %dx%d, want %dx%d", i+1, part.Width, part.Height, p.Width, p.Height)
		}
	}
	const want = "the edit has 3 sources, and this judge looks at 1"
	if _, err := openTiny(t).Score(t.Context(), e); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("frames: got error %v, want one with %q", err, want)
	}
}
