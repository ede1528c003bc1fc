package miniature

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/long"
	"assay/internal/testfile"
)

// measure measures a picture as the answer to a task.
func measure(t *testing.T, s *Scale, p *data.Picture) float64 {
	t.Helper()
	v, err := s.Measure(p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMeasure compares measured degrees with known ones, for all kinds and families.
func TestMeasure(t *testing.T) {
	long.Test(t)
	w := testWorld(t, false)
	var rows []Scored
	for i := range 5 * len(Families) {
		rng := generator(777, EditsTable, i)
		task, err := w.Task(rng, Families[i%len(Families)])
		if err != nil {
			t.Fatal(err)
		}
		scale := NewScale(task)
		for _, o := range task.examined(rng) {
			v := measure(t, scale, o.Picture)
			rows = append(rows, Scored{fmt.Sprint(i), task.Family, o.Kind, len(task.Asked), o.Degree, v})
			if o.Kind == Noop && v != 0 || (o.Kind == Corrupt || o.Kind == Foreign) && !(v <= 0.25) {
				t.Errorf("%d, %s: %s is measured %.3f, want about 0", i, task.Instruction, o.Kind, v)
			}
		}
	}
	r := Evaluate(rows)
	if !(r.Spearman >= 0.97) || !(r.PairAccuracy >= 0.98) {
		t.Errorf("Spearman %.3f, pair accuracy %.3f, want at least 0.97 and 0.98", r.Spearman, r.PairAccuracy)
	}
	for _, f := range Families {
		if !(r.Families[f] >= 0.9) {
			t.Errorf("%s: Spearman %.3f, want at least 0.9", f, r.Families[f])
		}
	}
}

// blend mixes two pictures: all of b at 1.
func blend(a, b *data.Picture, share float64) *data.Picture {
	out := data.NewPicture(a.Width, a.Height)
	for i := range a.Pix {
		out.Pix[i] = byte(float64(a.Pix[i])*(1-share) + float64(b.Pix[i])*share + 0.5)
	}
	return out
}

// A picture that no editor of this world makes also has a degree: it rises on the way from the source to the target,
// and is 0 for noise and for pictures of other tasks.
func TestMeasureBetween(t *testing.T) {
	w := testWorld(t, false)
	for _, f := range []Family{Temperature, Light, Border, Recolour, Remove} {
		t.Run(string(f), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			task, err := w.Task(rng, f)
			if err != nil {
				t.Fatal(err)
			}
			scale := NewScale(task)
			target := task.Target(rng).Picture
			last := -1.0
			for _, share := range []float64{0, 0.5, 0.75, 1} {
				v := measure(t, scale, blend(task.Source, target, share))
				if v <= last {
					t.Errorf("%s: %.3f at %.0f %% of the way, want more than %.3f", task.Instruction, v, 100*share, last)
				}
				last = v
			}
			if !(last >= 0.95) {
				t.Errorf("%s: the target is measured %.3f, want 1", task.Instruction, last)
			}
			noise := data.NewPicture(w.Size, w.Size)
			for i := range noise.Pix {
				noise.Pix[i] = byte(rng.IntN(256))
			}
			other, err := w.Task(rng, f)
			if err != nil {
				t.Fatal(err)
			}
			for name, p := range map[string]*data.Picture{"noise": noise, "the source of another task": other.Source,
				"the target of another task": other.Target(rng).Picture} {
				if v := measure(t, scale, p); !(v <= 0.1) {
					t.Errorf("%s: %s is measured %.3f, want 0", task.Instruction, name, v)
				}
			}
			if v := measure(t, scale, blend(target, noise, 0.5)); !(v <= 0.3) {
				t.Errorf("%s: the target in noise is measured %.3f, want nearly 0", task.Instruction, v)
			}
		})
	}
	task, err := w.Task(rand.New(rand.NewPCG(5, 6)), Grey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewScale(task).Measure(data.NewPicture(32, 32)); err == nil || !strings.Contains(err.Error(), "64 x 64") {
		t.Errorf("a picture of another size: %v, want an error that names 64 x 64", err)
	}
}

// TestScales measures the table of a data set by the contents of its rows, whatever their ids.
func TestScales(t *testing.T) {
	w := testWorld(t, false)
	set := Set{Seed: 3, Instructions: 4, Exam: true}
	dir, _ := writeSet(t, w, set)
	scales, err := w.Scales(set)
	if err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(dir, EditsTable+".jsonl")
	var out bytes.Buffer
	if err := scales.Table(t.Context(), table, &out); err != nil {
		t.Fatal(err)
	}
	measured := testfile.Write(t, "measured.jsonl", out.String())
	truth, err := ReadTruth(filepath.Join(dir, TruthFile))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Join(truth, measured, "truth")
	if err != nil {
		t.Fatal(err)
	}
	if r := Evaluate(rows); len(rows) == 0 || !(r.Spearman >= 0.95) {
		t.Errorf("%d rows, Spearman %.3f, want 0.95", len(rows), r.Spearman)
	}
	other, err := w.Scales(Set{Seed: 4, Instructions: 4})
	if err != nil {
		t.Fatal(err)
	}
	err = other.Table(t.Context(), table, &out)
	if err == nil || !strings.Contains(err.Error(), "no task of the data set") {
		t.Errorf("tasks of another seed: %v, want an error that says so", err)
	}
	raw, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken.jsonl")
	missing := bytes.Replace(raw, []byte("editor-2.png"), []byte("editor-x.png"), 1)
	if err := os.WriteFile(broken, missing, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := scales.Table(t.Context(), broken, &out); err == nil || !strings.Contains(err.Error(), "editor-x.png") {
		t.Errorf("a picture that is not there: %v, want an error that names it", err)
	}
}

// TestMeasureAdversarial measures outputs of an exam after 40 steps of gradient ascent on a scorer, by two levels
// each (testdata/adversarial/make.py): a copy of the source then scores 8.6 of 10. The true degree of none increases.
func TestMeasureAdversarial(t *testing.T) {
	photos, err := OpenPhotos("../../../examples/photos", DefaultSize, Selection{Only: []string{"tissue", "rocket"}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(photos, DefaultSize, false)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/adversarial/*.png")
	if err != nil || len(files) != 6 {
		t.Fatalf("%d pictures, %v, want 6", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			number, rest, _ := strings.Cut(filepath.Base(file), "-")
			i, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			rng := generator(777, EditsTable, i)
			task, err := w.Task(rng, Families[i%len(Families)])
			if err != nil {
				t.Fatal(err)
			}
			task.Target(rng) // as in Write, to keep the generator in step
			scale := NewScale(task)
			climbed, err := data.Open(file, data.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range task.examined(rng) {
				if !strings.HasPrefix(rest, string(o.Kind)+"-") {
					continue
				}
				before, after := measure(t, scale, o.Picture), measure(t, scale, climbed)
				t.Logf("%s: %.3f before, %.3f after", task.Instruction, before, after)
				if !(after <= before+0.01) {
					t.Errorf("%s: measured %.3f after the climb, want no more than %.3f", task.Instruction, after, before)
				}
				if d := far(o.Picture, climbed); d < 1 || d > 80 {
					t.Errorf("the picture is %.1f levels from the original output, want 1 to 80", d)
				}
			}
		})
	}
}
