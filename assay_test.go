package assay

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/calibration"
	"assay/data"
	"assay/model"
	"assay/trainer/config"
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

func readCoffee(t *testing.T) Pair {
	t.Helper()
	p, err := ReadPair(
		t.Context(),
		"testdata/oracle/images/coffee.png",
		"testdata/oracle/images/coffee_blur.png",
		"blur the picture",
	)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGradientRange: scores and derivatives are on the scorer's range, 0 to 10, and a step along the gradient is a
// better edit.
func TestGradientRange(t *testing.T) {
	s, p := openTiny(t), readCoffee(t)
	g, err := s.Gradient(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	of01, err := s.model.Gradient(t.Context(), model.Pair{Source: p.Source, Edit: p.Edit, Instruction: p.Instruction})
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Score(t.Context(), p)
	if err != nil || math.Abs(before-g.Score) > 1e-4 || math.Abs(before-10*of01.Score01) > 1e-4 {
		t.Fatalf("score %g, with its gradient %g, on 0..1 %g (%v)", before, g.Score, of01.Score01, err)
	}
	for what, pair := range map[string][2]*data.Gradient{"source": {g.Source, of01.Source}, "edit": {g.Edit, of01.Edit}} {
		for i, v := range pair[1].Values {
			if pair[0].Values[i] != 10*v {
				t.Fatalf("%s: value %d is %g, want %g", what, i, pair[0].Values[i], 10*v)
			}
		}
	}
	better := data.NewPicture(p.Edit.Width, p.Edit.Height)
	for i, d := range g.Edit.Values {
		step := math.Copysign(4, float64(d))
		better.Pix[i] = byte(min(max(float64(p.Edit.Pix[i])+step, 0), 255))
	}
	p.Edit = better
	if after, err := s.Score(t.Context(), p); err != nil || after <= before {
		t.Errorf("a step along the gradient changes the score from %g to %g (%v)", before, after, err)
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
	run, err := config.Load("examples/library/train.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run.Out = t.TempDir()
	if _, err := Train(cancelled, Training{Config: run}); !errors.Is(err, context.Canceled) {
		t.Errorf("Train: %v", err)
	}
	for what, pair := range map[string]Pair{"lacks a picture": {Source: p.Source, Instruction: "x"},
		"instruction": {Source: p.Source, Edit: p.Edit}, "no prompt of this scorer has [REQUIREMENT]": {Source: p.Source,
			Edit: p.Edit, Instruction: "x", Requirement: "y"}} {
		if _, err := s.Score(t.Context(), pair); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want an error about %q", err, what)
		}
	}
	if _, err := s.Gradient(t.Context(), Pair{}); err == nil {
		t.Error("the gradient of nothing")
	}
	if _, err := ReadPair(
		t.Context(),
		"nowhere.png",
		"nowhere.png",
		"x",
	); err == nil ||
		!strings.Contains(err.Error(), "nowhere.png") {
		t.Error(err)
	}
	if one, err := ReadPair(t.Context(), "", "testdata/oracle/images/coffee.png", "x"); err != nil || one.Source != nil ||
		one.Edit == nil {
		t.Errorf("a pair of one picture: %v, %v", one, err)
	}
	if _, err := ReadPair(t.Context(), "testdata/oracle/images/coffee.png", "", "x"); err == nil {
		t.Error("a pair without an edit")
	}
	if _, err := ReadPair(cancelled, "nowhere.png", "nowhere.png", "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadPair: %v", err)
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

// TestMalformedPictures: a picture that a program put together wrongly is an error of its pair, not a crash or a score.
func TestMalformedPictures(t *testing.T) {
	s, p := openTiny(t), readCoffee(t)
	short, long := *p.Edit, *p.Edit
	short.Pix = short.Pix[:100] // with capacity left
	long.Pix = append(append([]byte{}, long.Pix...), 1, 2, 3)
	for name, edit := range map[string]*data.Picture{
		"0 x 0":          {},
		"-5 x -5":        {Width: -5, Height: -5},
		"50 x 50 pixels": {Width: 50, Height: 50, Pix: make([]byte, 100)},
		"has 100 bytes":  &short,
		"three for each": &long,
	} {
		bad := Pair{Source: p.Source, Edit: edit, Instruction: p.Instruction}
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

// TestOpenElsewhere: a scorer opens over its backbone wherever that is, and over nothing else.
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

// TestCalibratedResult: the result of a calibrated scorer says what the score was before, and where the label lies.
func TestCalibratedResult(t *testing.T) {
	dir, p := filepath.Join(t.TempDir(), "scorer"), readCoffee(t)
	before, err := openTiny(t).ScoreAll(t.Context(), []Pair{p})
	if err != nil || before[0].Raw01 != nil || before[0].Interval != nil {
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
		results, err := s.ScoreAll(t.Context(), []Pair{p})
		if err != nil || results[0].Err != nil || results[0].Raw01 == nil || results[0].Interval == nil {
			t.Fatalf("%s: got %+v, %v", m.Method, results, err)
		}
		r, raw := results[0], before[0].Score/10
		want, _ := m.At(raw)
		interval := Interval{10 * max(0, want-0.4), 10 * min(1, want+0.4), 0.9}
		if math.Abs(*r.Raw01-raw) > 1e-12 || math.Abs(r.Score-10*want) > 1e-9 ||
			math.Abs(r.Interval.Low-interval.Low) > 1e-9 || math.Abs(r.Interval.High-interval.High) > 1e-9 ||
			r.Interval.Coverage != interval.Coverage {
			t.Errorf("%s: got %+v, raw01 %g, %+v; want %g, %g, %+v", m.Method, r, *r.Raw01, *r.Interval, 10*want, raw, interval)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
