package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/long"
	"assay/lab/internal/miniature"
)

// newExam writes a small exam and its label table, and returns its folder and contents.
func newExam(t *testing.T) (dir string, truth []miniature.Truth, rows []data.Row) {
	t.Helper()
	photos, err := miniature.OpenPhotos(
		"../../examples/photos",
		miniature.DefaultSize,
		miniature.Selection{Only: []string{"tissue", "rocket"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	world, err := miniature.New(photos, miniature.DefaultSize, false)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "exam")
	if _, err := world.Write(
		t.Context(),
		dir,
		miniature.Set{Seed: 777, Instructions: 14, Exam: true},
		func(int) {},
	); err != nil {
		t.Fatal(err)
	}
	if truth, err = miniature.ReadTruth(filepath.Join(dir, miniature.TruthFile)); err != nil {
		t.Fatal(err)
	}
	return dir, truth, readRows(t, filepath.Join(dir, "edits.jsonl"))
}

func readRows(t *testing.T, path string) (rows []data.Row) {
	t.Helper()
	table, err := data.OpenTable(path)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	for row, err := range table.All() {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func writeLines(t *testing.T, path string, lines []map[string]any) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestShuffle(t *testing.T) {
	long.Test(t)
	dir, _, rows := newExam(t)
	out := filepath.Join(dir, "shuffled.jsonl")
	n, err := shuffle(filepath.Join(dir, "edits.jsonl"), out, 1)
	if err != nil || n != 14 {
		t.Fatalf("%d tasks, %v", n, err)
	}
	own, other := map[string]string{}, map[string]string{}
	for i, r := range readRows(t, out) {
		if r.ID != rows[i].ID || r.Source.Path != rows[i].Source.Path || r.Edit.Path != rows[i].Edit.Path {
			t.Errorf("row %d: %s with %s and %s, was %s", i, r.ID, r.Source.Path, r.Edit.Path, rows[i].ID)
		}
		if s, ok := other[r.Group]; ok && s != r.Instruction {
			t.Errorf("task %s has two instructions: %q and %q", r.Group, s, r.Instruction)
		}
		own[r.Group], other[r.Group] = rows[i].Instruction, r.Instruction
	}
	count := map[string]int{}
	for g := range own {
		count[own[g]]++
		count[other[g]]--
	}
	for s, n := range count {
		if n != 0 {
			t.Errorf("%q: %d times fewer than before", s, n)
		}
	}
	kept := 0
	for g := range own {
		if own[g] == other[g] { // unless two tasks have the same wording
			kept++
		}
	}
	if kept > 1 {
		t.Errorf("%d of %d tasks keep their instruction", kept, len(own))
	}
	again := filepath.Join(dir, "again.jsonl")
	for seed, same := range map[uint64]bool{1: true, 2: false} {
		if _, err := shuffle(filepath.Join(dir, "edits.jsonl"), again, seed); err != nil {
			t.Fatal(err)
		}
		a, _ := os.ReadFile(out)
		b, _ := os.ReadFile(again)
		if bytes.Equal(a, b) != same {
			t.Errorf("seed %d: the same as seed 1: %v", seed, !same)
		}
	}
	if _, err := shuffle(filepath.Join(dir, "edits.jsonl"), filepath.Join(t.TempDir(), "x.jsonl"), 1); err == nil {
		t.Error("written into another folder, where paths of pictures mean something else")
	}
}

// answer writes the results of a scorer and of the similarities, and returns the report.
func answer(t *testing.T, dir string, truth []miniature.Truth, score, shuffled func(miniature.Truth) float64) *Report {
	t.Helper()
	var scores, mixed, similar []map[string]any
	for i, k := range truth {
		scores = append(scores, map[string]any{"id": k.ID, "score01": score(k)})
		mixed = append(mixed, map[string]any{"id": k.ID, "score01": shuffled(k)})
		clip := any(float64(i%7) / 7)
		if k.Kind == miniature.Noop {
			clip = nil
		}
		similar = append(
			similar,
			map[string]any{"id": k.ID, "clip_d": clip, "clip_t": 0.5, "clip_i": float64(i % 3), "dino_i": float64(i % 2)},
		)
	}
	writeLines(t, filepath.Join(dir, "scores.jsonl"), scores)
	writeLines(t, filepath.Join(dir, "shuffled-scores.jsonl"), mixed)
	writeLines(t, filepath.Join(dir, "similarities.jsonl"), similar)
	writeLines(t, filepath.Join(dir, "source-similarities.jsonl"), similar)
	labels := filepath.Join(dir, "labels.jsonl")
	writeLines(t, labels, []map[string]any{
		{"id": "edits/" + truth[0].ID, "label": 0.5, "why": "partial"},
		{"id": "edits/" + truth[1].ID, "label": 1, "why": "given"},
		{"id": "edits/" + truth[2].ID, "label": nil, "why": nil},
		{"id": "edits/" + truth[0].Group() + "/source", "label": 0, "why": "source"},
	})
	times := filepath.Join(dir, "times.tsv")
	if err := os.WriteFile(
		times,
		[]byte("data\t4\t0\ntraining\t30\t3\ntraining\t100\t0\nscores\t9\t0\nscores\t5\t0\n"),
		0o666,
	); err != nil {
		t.Fatal(err)
	}
	r, err := newExamReport(t.Context(),
		files{data: dir, labels: labels, exam: dir, scorer: "run/scorer", times: times, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReport(t *testing.T) {
	long.Test(t)
	dir, truth, rows := newExam(t)
	perfect := func(k miniature.Truth) float64 { return k.Degree }
	blind := func(k miniature.Truth) float64 { return float64(len(k.ID)%2) + float64(k.ID[len(k.ID)-1])/1000 }

	r := answer(t, dir, truth, perfect, blind)
	if r.Outputs != len(rows) || r.Tasks != 14 ||
		strings.Join(r.Photos, " ") != "rocket tissue" && strings.Join(r.Photos, " ") != "tissue rocket" {
		t.Errorf("%d outputs, %d tasks of %v", r.Outputs, r.Tasks, r.Photos)
	}
	own := r.Judges[0].Result
	if !(own.Spearman >= 0.999999) || !(own.Alive >= 0.999999) || own.PairAccuracy != 1 {
		t.Errorf("the truth itself: Spearman %v, alive %v, pairs %v", own.Spearman, own.Alive, own.PairAccuracy)
	}
	if r.Met() != 7 || r.All() != 7 {
		t.Errorf("the truth itself meets %d of %d goals: %+v", r.Met(), r.All(), r.Goals)
	}
	for _, k := range r.Kinds {
		if !(math.Abs(k.Score-k.Truth) <= 1e-9) {
			t.Errorf("%s: mean score %v, mean truth %v", k.Kind, k.Score, k.Truth)
		}
	}
	noops := 0
	for _, k := range truth {
		if k.Kind == miniature.Noop {
			noops++
		}
	}
	if j := r.Judges[1]; j.Name != "CLIP-D" || j.Undefined != noops {
		t.Errorf("%s: %d undefined, want %d", j.Name, j.Undefined, noops)
	}
	if v := float64(r.Judges[2].Result.Spearman); !math.IsNaN(v) { // constant
		t.Errorf("CLIP-T: %v, want undefined", v)
	}

	opposite := func(k miniature.Truth) float64 { return 1 - k.Degree }
	r = answer(t, dir, truth, opposite, opposite)
	if r.Met() != 0 || r.Judges[0].Result.Spearman != r.Shuffled {
		t.Errorf("the opposite of the truth meets %d goals: %+v", r.Met(), r.Goals)
	}
	if got := fmt.Sprint(r.Steps); got != "[{data 4} {training 130} {scores 5}]" {
		t.Errorf("times: %s", got)
	}
	q := r.Labels
	if q.Rows != 4 || q.Known != 2 ||
		!(math.Abs(float64(q.Distance)-(math.Abs(0.5-truth[0].Degree)+math.Abs(1-truth[1].Degree))/2) <= 1e-12) ||
		len(q.Rules) != 4 {
		t.Errorf("labels: %+v", q)
	}
}

var outside = regexp.MustCompile(`(?i)(?:src|href|srcset|action)\s*=\s*"?([^"\s>]+)|url\(([^)]*)\)|@import`)

func TestPage(t *testing.T) {
	long.Test(t)
	dir, truth, rows := newExam(t)
	r := answer(
		t,
		dir,
		truth,
		func(k miniature.Truth) float64 { return k.Degree },
		func(k miniature.Truth) float64 { return 0.5 },
	)
	r.Labels.Rules[0].Rule = "<script>alert(1)</script>"
	out := filepath.Join(t.TempDir(), "report")
	if err := r.write(out); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(out, pageFile))
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, m := range outside.FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "data:image/png;base64,") {
			t.Errorf("the page loads %.80s", m[0])
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "ZgotmplZ") {
		t.Error("the page holds a script, or what the template refused")
	}
	for _, s := range []string{"prefers-color-scheme: dark", "width=device-width", "CLIP-I", "not met"} {
		if !strings.Contains(page, s) {
			t.Errorf("the page lacks %q", s)
		}
	}
	shown, families := 1+len(r.story.Outputs), map[miniature.Family]bool{}
	for _, e := range r.examples {
		shown += 1 + len(e.Outputs)
		families[e.Family] = true
	}
	if n := strings.Count(page, "<img "); n != shown || len(families) != shownTasks || len(r.examples) != shownTasks {
		t.Errorf("%d pictures, want %d; %d families in %d examples", n, shown, len(families), len(r.examples))
	}
	var back map[string]any
	if raw, err = os.ReadFile(filepath.Join(out, jsonFile)); err == nil {
		err = json.Unmarshal(raw, &back)
	}
	if err != nil || back["shuffled"] != nil { // constant scores: undefined
		t.Errorf("%s: %v, shuffled %v", jsonFile, err, back["shuffled"])
	}
	text, err := os.ReadFile(filepath.Join(out, textFile))
	if err != nil || !strings.Contains(string(text), rows[0].Instruction) {
		t.Errorf("%s does not show how to score a pair: %v", textFile, err)
	}
}

func TestIncompleteExam(t *testing.T) {
	long.Test(t)
	dir, truth, _ := newExam(t)
	score := func(k miniature.Truth) float64 { return k.Degree }
	answer(t, dir, truth, score, score)
	writeLines(t, filepath.Join(dir, "scores.jsonl"), []map[string]any{{"id": truth[0].ID, "score01": 1}})
	_, err := newExamReport(t.Context(), files{data: dir, labels: filepath.Join(dir, "labels.jsonl"), exam: dir})
	if err == nil || !strings.Contains(err.Error(), "scores.jsonl: no row "+truth[1].ID) {
		t.Errorf("scores of one row only: %v", err)
	}
}

func TestDistance(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, width int, pix ...byte) string {
		p := data.NewPicture(width, 1)
		copy(p.Pix, pix)
		path := filepath.Join(dir, name)
		if err := atomicfile.Write(path, p.EncodePNG); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b := write("a.png", 2, 0, 0, 0, 10, 20, 30), write("b.png", 2, 255, 0, 0, 10, 20, 81)
	d, err := distance(a, b)
	if want := (1 + 0.2*0.2) / 6; err != nil || !(math.Abs(d-want) <= 1e-12) {
		t.Errorf("%v %v, want %v", d, err, want)
	}
	if _, err := distance(a, write("c.png", 3)); err == nil {
		t.Error("pictures of two sizes compared")
	}
}

// TestCaptionQuality: the world's own captions all match; a wrong word, an empty caption and an undefined number are
// counted.
func TestCaptionQuality(t *testing.T) {
	dir, truth, _ := newExam(t)
	x, err := readExam(dir)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "edits.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var similar, other []map[string]any
	for i, k := range truth {
		d := float64(i%3) - 1
		similar = append(similar, map[string]any{"id": k.ID, "clip_d": d})
		if i == 1 { // it was 0, which fails as well
			other = append(other, map[string]any{"id": k.ID, "clip_d": nil})
		} else {
			other = append(other, map[string]any{"id": k.ID, "clip_d": max(d, 0.5*float64(i%2))})
		}
	}
	writeLines(t, filepath.Join(dir, "similarities.jsonl"), similar)
	writeLines(t, filepath.Join(dir, writtenFile), similar)
	quality := func(captioned []byte) *CaptionQuality {
		if err := os.WriteFile(filepath.Join(dir, captionedFile), captioned, 0o666); err != nil {
			t.Fatal(err)
		}
		q, err := x.readCaptions(dir)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	if q := quality(
		raw,
	); q.Tasks != 14 || q.Source != 1 || q.Target != 1 || q.Words != 1 || q.Failed != 0 || q.Agree != 1 ||
		q.Given != q.Written ||
		q.Given.Outputs == 0 {
		t.Errorf("the same captions: %+v", q)
	}
	writeLines(t, filepath.Join(dir, writtenFile), other)
	var lines []map[string]any
	first := truth[0].Group()
	for line := range strings.Lines(string(raw)) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if row["group"] == first {
			row["target_caption"] = nil
		} else {
			row["source_caption"] = strings.Replace(row["source_caption"].(string), "rocket", "cat", 1) + ", blurry"
		}
		lines = append(lines, row)
	}
	writeLines(t, filepath.Join(dir, "lines.jsonl"), lines)
	changed, err := os.ReadFile(filepath.Join(dir, "lines.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	q := quality(changed)
	if q.Failed != 1 || !(math.Abs(float64(q.Source)-1./14) <= 1e-12) || !(math.Abs(float64(q.Target)-13./14) <= 1e-12) ||
		q.Words >= 1 || q.Written.Outputs >= q.Given.Outputs || q.Agree >= 1 {
		t.Errorf("changed captions: %+v", q)
	}
	var b bytes.Buffer
	r := &Report{Captions: q, Judges: []Judge{{}}, Labels: &LabelQuality{}}
	if err := r.text(&b); err != nil || !strings.Contains(b.String(), "0.07 of sources and 0.93 of targets") {
		t.Errorf("%v: got %s, want the shares of captions", err, b.String())
	}
	if behind("a photo of a man with hats with an orange cross, dark") != " with an orange cross, dark" ||
		behind("a photo") != "" {
		t.Error("the photograph's name counts")
	}
	if shared("a cat with a hat", "a hat with cat") != 0.8 {
		t.Error("words that are twice in one caption are counted twice")
	}
}

// TestStory: the story shows the first task with most kinds of outputs, with heat maps of the scorer and the loss of
// its run.
func TestStory(t *testing.T) {
	picture, err := inline("../../testdata/oracle/images/coffee.png")
	if err != nil {
		t.Fatal(err)
	}
	few := example{Instruction: "few", Outputs: []shownOutput{{Kind: miniature.Noop}}}
	many := example{Instruction: "blur the picture", Source: picture, File: "../../testdata/oracle/images/coffee.png"}
	for _, k := range []miniature.Kind{miniature.Foreign, miniature.Noop, miniature.Perfect} {
		many.Outputs = append(many.Outputs, shownOutput{Kind: k, File: "../../testdata/oracle/images/coffee_blur.png"})
	}
	s := newStory([]example{few, many})
	if len(s.Outputs) != 2 || s.Outputs[0].Words() != "as asked" || s.Outputs[1].Words() != "nothing done" {
		t.Fatalf("got %+v, want the perfect output and the one that does nothing", s.Outputs)
	}
	if err := s.heatmaps(t.Context(), "../../backbones/tiny-scorer"); err != nil {
		t.Fatal(err)
	}
	if got := s.Outputs[0].Heatmap; !strings.HasPrefix(string(got), "data:image/png;base64,") || got == picture {
		t.Errorf("got heat map %.40s, want a picture", got)
	}
	dir := t.TempDir()
	if err := s.curve(filepath.Join(dir, "scorer")); err == nil {
		t.Error("no metrics: got no error, want one")
	}
	writeLines(t, filepath.Join(dir, "metrics.jsonl"), []map[string]any{
		{"kind": "train", "step": 1, "score_loss": 3}, {"kind": "validation", "step": 1},
		{"kind": "train", "step": 2, "score_loss": 2}, {"kind": "train", "step": 3, "score_loss": 1},
	})
	if err := s.curve(filepath.Join(dir, "scorer")); err != nil {
		t.Fatal(err)
	}
	if s.Steps != 3 || s.Before != 2.5 || s.After != 1.5 || !strings.Contains(string(s.Curve), "<svg") {
		t.Errorf("got %d steps from %g to %g and %.20s, want 3 from 2.5 to 1.5, smoothed, and a chart", s.Steps, s.Before,
			s.After, s.Curve)
	}
}
