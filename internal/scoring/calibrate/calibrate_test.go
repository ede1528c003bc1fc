package calibrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/calibration"
	"assay/internal/exit"
	"assay/internal/long"
	tables "assay/internal/table"
	"assay/lora"
	"assay/model"
	_ "assay/model/families"
)

// scorerDir copies the small scorer to a folder where it can be calibrated.
func scorerDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "scorer")
	if err := os.CopyFS(dir, os.DirFS("../../../backbones/tiny-scorer")); err != nil {
		t.Fatal(err)
	}
	backbone, err := filepath.Abs("../../../backbones/tiny")
	if err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(dir, model.ConfigFile), "../tiny", backbone)
	return dir
}

func replace(t *testing.T, file, old, new string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatal(err, string(text))
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), old, new, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
}

// linesOf returns the lines of a file.
func linesOf(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// tableOf writes a table of edits of crops of a photograph, with labels that rise with the scores.
func tableOf(t *testing.T, photo string, n int, scorer string) string {
	t.Helper()
	p, err := data.Open(filepath.Join("../../../examples/photos", photo), data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	var rows []map[string]any
	for i := range n {
		crop := func() *data.Picture {
			side := 64 + rng.IntN(64)
			c := p.Crop(rng.IntN(p.Width-side), rng.IntN(p.Height-side), side, side)
			return c.Resize(64, 64, data.Bicubic)
		}
		source := crop()
		edited := source.FlipHorizontal()
		switch i % 3 {
		case 1:
			edited = crop()
		case 2:
			edited = source.Rotate90(1)
		}
		names := []string{fmt.Sprintf("s%d.png", i), fmt.Sprintf("e%d.png", i)}
		for k, q := range []*data.Picture{source, edited} {
			if err := q.WritePNG(filepath.Join(dir, names[k])); err != nil {
				t.Fatal(err)
			}
		}
		rows = append(rows, map[string]any{"id": fmt.Sprint(i), "source": names[0], "edit": names[1],
			"instruction": "flip the picture horizontally", "photo": fmt.Sprint(photo, i/2)})
	}
	s, err := model.OpenScorer(scorer, model.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	samples := make([]*model.Sample, n)
	for i, r := range rows {
		if samples[i], err = s.Sample(editOf(dir, r), model.Ask{}); err != nil {
			t.Fatal(err)
		}
	}
	scores, err := s.Score01(context.Background(), samples)
	if err != nil {
		t.Fatal(err)
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range scores {
		lo, hi = min(lo, v), max(hi, v)
	}
	file := filepath.Join(dir, "edits.jsonl")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e := json.NewEncoder(f)
	for i, r := range rows {
		r["label"] = min(1, max(0, math.Pow((scores[i]-lo)/(hi-lo), 2)+0.1*rng.NormFloat64()))
		if err := e.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func editOf(dir string, r map[string]any) *edit.Edit {
	picture := func(column string) data.File {
		return data.File{Image: data.Image{Path: r[column].(string)}, Folder: dir}
	}
	return edit.New(picture("source"), picture("edit"), r["instruction"].(string))
}

// TestCalibrate: a scorer is calibrated, also after an interruption, and returns calibrated scores, gradients and
// intervals wherever it is loaded; nothing else changes.
func TestCalibrate(t *testing.T) {
	dir := scorerDir(t)
	table := tableOf(t, "coffee.png", 90, dir)
	o := Options{Scorer: dir, In: table, Method: calibration.Isotonic, Coverage: 0.7, Seed: 1, By: "photo",
		Out: filepath.Join(dir, "calibration"), Model: model.Options{Threads: 1}}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := o
	stopped.Progress = func(done, _ int) {
		if done > 0 {
			cancel()
		}
	}
	cancel()
	_, err := Run(ctx, stopped)
	var interrupted *tables.InterruptedError
	if !errors.As(err, &interrupted) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, calibration.File)); err == nil {
		t.Fatal("a calibration after an interrupt")
	}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Trained != trainedUnknown || len(r.Warnings) == 0 || r.Fit.Rows+r.Interval.Rows+r.Tested.Rows != 90 {
		t.Errorf("%+v", r)
	}
	if said := strings.Join(r.Warnings, "; "); !strings.Contains(said, "only 18 rows measure the result, in 10 bins") {
		t.Errorf("18 tested rows: got warnings %q, want one about the expected calibration error", said)
	}
	if r.After.Error >= r.Before.Error || r.After.L1 >= r.Before.L1 {
		t.Errorf("before %+v, after %+v", r.Before, r.After)
	}
	for _, name := range []string{"report.json", "report.html"} {
		if _, err := os.Stat(filepath.Join(o.Out, name)); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(o.Out, "*.progress")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	again, err := Run(context.Background(), o)
	if err != nil || !reflect.DeepEqual(again.Map, r.Map) {
		t.Errorf("%+v, then %+v: %v", r.Map, again.Map, err)
	}
	checkCalibrated(t, dir, table, &r.Map)
}

// checkCalibrated compares scores and gradients with the same scorer without its calibration.
func checkCalibrated(t *testing.T, dir, table string, m *calibration.Map) {
	ctx := context.Background()
	open := func(dir string, o model.Options) *model.Scorer {
		t.Helper()
		o.Threads = 1
		s, err := model.OpenScorer(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	calibrated, raw := open(dir, model.Options{}), open(dir, model.Options{Raw: true})
	row := map[string]any{"source": "s0.png", "edit": "e0.png", "instruction": "make it red"}
	one := []*edit.Edit{editOf(filepath.Dir(table), row)}
	all, err := calibrated.Gradients(ctx, one)
	if err != nil {
		t.Fatal(err)
	}
	before, err := raw.Gradients(ctx, one)
	if err != nil {
		t.Fatal(err)
	}
	a, b := all[0], before[0]
	y, slope := m.At(b.Score01)
	if a.Score01 != y || slope <= 0 {
		t.Errorf("score01 %v, the map says %v", a.Score01, y)
	}
	for i, v := range b.Output.Values {
		if want := float32(slope * float64(v)); a.Output.Values[i] != want {
			t.Fatalf("gradient %v, want %v", a.Output.Values[i], want)
		}
	}
	scores, errs, err := edit.ScoreAll(ctx, calibrated, one...)
	if err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	if s := scores[0]; !(math.Abs(s.Value-10*y) <= 1e-4) || s.Raw01 == nil || s.Interval == nil {
		t.Errorf("%+v, the map says %v", s, y)
	}
	printA, errA := calibrated.Fingerprint()
	printB, errB := raw.Fingerprint()
	if printA == printB || errors.Join(errA, errB) != nil {
		t.Error("a calibration is part of the fingerprint", errA, errB)
	}
	merged := filepath.Join(t.TempDir(), "merged")
	if _, err := model.MergeScorer(ctx, dir, lora.MergeOptions{Out: merged}); err != nil {
		t.Fatal(err)
	}
	k, err := open(merged, model.Options{}).Gradients(ctx, one)
	if err != nil || !(math.Abs(k[0].Score01-y) <= 1e-3) || k[0].Raw01 == nil {
		t.Errorf("merged it says %+v, want %v: %v", k, y, err)
	}
	replace(t, filepath.Join(dir, model.ConfigFile), "is a part of it done?", "is it done?")
	if _, err := model.OpenScorer(dir, model.Options{}); err == nil || !strings.Contains(err.Error(), "refit it with") {
		t.Errorf("another question, and the calibration is taken: %v", err)
	}
}

// TestSeen: tables that the scorer was trained on are refused, whether its run or the user names them.
func TestSeen(t *testing.T) {
	long.Test(t)
	dir := scorerDir(t)
	table, other := tableOf(t, "coffee.png", 24, dir), tableOf(t, "rocket.png", 60, dir)
	o := Options{Scorer: dir, In: table, Test: other, Method: calibration.Isotonic, Coverage: 0.5, Seed: 1,
		Out: t.TempDir(), Trained: []string{table}, Model: model.Options{Threads: 1}}
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "24 of 24 rows") {
		t.Error(err)
	}
	o.Trained = nil
	config := fmt.Sprintf("data: {train: %s}\n", table)
	if err := os.WriteFile(filepath.Join(dir, "..", "config.yaml"), []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "was trained on pictures of") {
		t.Error(err)
	}
	o.In, o.Test = other, table
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "was trained on pictures of") {
		t.Error(err)
	}
	o.Insist = true
	r, err := Run(context.Background(), o)
	if err != nil || r.Trained != trainedPart || r.Map.Fitted.Trained != trainedPart {
		t.Error(r, err)
	}
	o.Test = other
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "shares pictures") {
		t.Error(err)
	}
	o.Test = ""
	if r, err := Run(context.Background(), o); err != nil || r.Trained != trainedNo {
		t.Error(r, err)
	}
}

// TestSplit: no scene is in two parts, and all rows are in one.
func TestSplit(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	scenes := make([]int, 500)
	for i := range scenes {
		scenes[i] = rng.IntN(60)
	}
	for seed := range uint64(20) {
		parts := split(scenes, seed, 0.6, 0.2)
		at, n := map[int]int{}, 0
		for p, rows := range parts {
			n += len(rows)
			for _, i := range rows {
				if was, ok := at[scenes[i]]; ok && was != p {
					t.Fatalf("scene %d is in parts %d and %d", scenes[i], was, p)
				}
				at[scenes[i]] = p
			}
		}
		if n != 500 || len(parts[0]) < 290 || len(parts[0]) > 330 || len(parts[1]) < 90 || len(parts[2]) < 60 {
			t.Errorf("parts of %d, %d and %d rows", len(parts[0]), len(parts[1]), len(parts[2]))
		}
	}
}

// TestLabelsRefused: labels on another scale, and duplicate edits with different labels, are refused before anything
// is written.
func TestLabelsRefused(t *testing.T) {
	dir := scorerDir(t)
	table := tableOf(t, "coffee.png", 3, dir)
	rows := linesOf(t, table)
	with := func(line, key string, v any) string {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		m[key] = v
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for want, list := range map[string][]string{
		"2 of 3 rows have labels outside 0..1; the first is row 2: label 5": {rows[0], with(rows[1], "label", 5),
			with(rows[2], "label", -1)},
		"rows 1, 4 are one edit with the labels 0.25, 0.75; rows 2, 5 are one edit with the labels 0.5, 0; keep one row of " +
			"such an edit, or give all its rows the mean of their labels": {
			with(rows[0], "label", 0.25), with(rows[1], "label", 0.5), rows[2], with(with(rows[0], "id", "x"), "label", 0.75),
			with(with(rows[1], "id", "y"), "label", 0)},
		"rows 1 and 2 have the id 0 and are different edits":               {rows[0], with(rows[1], "id", "0"), rows[2]},
		`no row has a label (column label) and "exam" in its column split`: {with(rows[0], "split", "train")},
		"no row has a label (column label), except those that cannot be used: 2 of 3; the first is row 2: source: stat ": {
			with(rows[0], "label", nil), with(rows[1], "source", "nosuch.png"), with(rows[2], "source", "nosuch.png")},
	} {
		if err := os.WriteFile(table, []byte(strings.Join(list, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
		o := Options{Scorer: dir, In: table, Method: calibration.Isotonic, Coverage: 0.5, Seed: 1, Out: t.TempDir(),
			Model: model.Options{Threads: 1}}
		if strings.Contains(want, "exam") {
			o.Split = "exam"
		}
		_, err := Run(context.Background(), o)
		if exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), want) { // the same command will fail again
			t.Errorf("got error %v, exit code %d, want %s, %d", err, exit.Code(err), want, exit.Wrong)
		}
	}
	if err := os.WriteFile(table, []byte(strings.Join(rows, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "labels.jsonl")
	nobody := filepath.Join(t.TempDir(), "nobody.jsonl")
	err := errors.Join(os.WriteFile(other, []byte(`{"id": "0", "label": 0.123}`), 0o666),
		os.WriteFile(nobody, []byte(`{"id": "x", "label": 0.123}`), 0o666))
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"row 1: its own label is":                      {Labels: other},
		"has no column degre, which --columns names":   {Columns: map[string]string{"label": "degre"}},
		"column map: lable: want one of our columns":   {Columns: map[string]string{"lable": "label"}},
		"has no column x, which --columns names":       {Columns: map[string]string{"label_a": "x"}},
		"but --labels has none: remove one of the two": {Labels: nobody},
	} {
		o.Scorer, o.In, o.Method, o.Coverage, o.Out = dir, table, calibration.Isotonic, 0.5, t.TempDir()
		o.Model = model.Options{Threads: 1}
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, calibration.File)); err == nil {
		t.Error("a calibration was written")
	}
}

// TestTooFew: the expected calibration error of 100 rows is shown without a warning.
func TestTooFew(t *testing.T) {
	for rows, want := range map[int]bool{1: true, 99: true, 100: false} {
		if got := tooFew(rows); (got != "") != want {
			t.Errorf("%d rows: got warning %q, want one: %t", rows, got, want)
		}
	}
}
