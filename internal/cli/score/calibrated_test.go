package score

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/calibration"
	"assay/internal/reward"
	"assay/model"
)

// calibratable copies the small scorer, and writes a table of edits with a source picture each.
func calibratable(t *testing.T, rows int) (scorer, table string) {
	t.Helper()
	dir := t.TempDir()
	scorer = filepath.Join(dir, "scorer")
	if err := os.CopyFS(scorer, os.DirFS("../../../backbones/tiny-scorer")); err != nil {
		t.Fatal(err)
	}
	backbone, err := filepath.Abs("../../../backbones/tiny")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(scorer, model.ConfigFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("../tiny"), []byte(backbone), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	photo, err := data.Open("../../../examples/photos/coffee.png", data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range rows {
		source := photo.Crop(9*i, 5*i, 64, 64)
		edit := source.FlipHorizontal()
		if i%2 == 1 {
			edit = source.Rotate90(1)
		}
		for name, p := range map[string]*data.Picture{"s": source, "e": edit} {
			if err := p.WritePNG(filepath.Join(dir, fmt.Sprint(name, i, ".png"))); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&b, "{\"id\": \"%d\", \"source\": \"s%[1]d.png\", \"edit\": \"e%[1]d.png\", \"instruction\": "+
			"\"flip the picture horizontally\"}\n", i)
	}
	table = filepath.Join(dir, "edits.jsonl")
	if err := os.WriteFile(table, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return scorer, table
}

// TestCalibratedAnswers: pair and the server return the scores that batch writes, the scores before calibration, and
// the interval of the calibration.
func TestCalibratedAnswers(t *testing.T) {
	scorer, table := calibratable(t, 12)
	dir := filepath.Dir(table)
	before, after := filepath.Join(dir, "before.jsonl"), filepath.Join(dir, "after.jsonl")
	batch := func(out string) []map[string]any {
		t.Helper()
		if code, v := command(t, "batch", "--scorer", scorer, "--in", table, "--out", out); code != 0 {
			t.Fatalf("batch: exit code %d, %v", code, v)
		}
		return lines(t, out)
	}
	raw := batch(before)
	var labels strings.Builder
	slices.SortFunc(raw, func(a, b map[string]any) int {
		return cmp.Compare(a["score01"].(float64), b["score01"].(float64))
	})
	for i, row := range raw {
		fmt.Fprintf(&labels, "{\"id\": %q, \"label\": %d}\n", row["id"], 2*i/len(raw))
	}
	raw = lines(t, before) // in order
	labelled := filepath.Join(dir, "labels.jsonl")
	if err := os.WriteFile(labelled, []byte(labels.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	pair := []string{"pair", "--scorer", scorer, "--source", filepath.Join(dir, "s0.png"), "--edit",
		filepath.Join(dir, "e0.png"), "--instruction", "flip the picture horizontally"}
	if _, v := command(t, pair...); v["raw01"] != nil || v["interval"] != nil || v["score01"] != raw[0]["score01"] {
		t.Errorf("without a calibration: got %v, want score01 %v alone", v, raw[0]["score01"])
	}
	for _, method := range []string{"platt", "inverse"} {
		if code, v := command(t, "calibrate", "--scorer", scorer, "--in", table, "--labels", labelled, "--method",
			method, "--coverage", "0.5"); code != 0 {
			t.Fatalf("calibrate: exit code %d, %v", code, v)
		}
		k, err := calibration.Read(filepath.Join(scorer, calibration.File))
		if err != nil {
			t.Fatal(err)
		}
		half := k.Maps[0].Interval.HalfWidth
		check := func(what string, i int, got, want map[string]any) {
			t.Helper()
			for _, name := range []string{"score", "score01"} {
				if got[name] != want[name] {
					t.Errorf("%s, %s, row %d: %s: got %v, want %v", method, what, i, name, got[name], want[name])
				}
			}
			if got["raw01"] != raw[i]["score01"] || want["score01"] == raw[i]["score01"] {
				t.Errorf("%s, %s, row %d: raw01: got %v, want %v", method, what, i, got["raw01"], raw[i]["score01"])
			}
			score01 := want["score01"].(float64)
			interval, _ := got["interval"].(map[string]any)
			for name, want := range map[string]float64{"low": 10 * max(0, score01-half), "high": 10 * min(1, score01+half),
				"coverage": 0.5} {
				if v, ok := interval[name].(float64); !ok || !(math.Abs(v-want) <= 1e-12) {
					t.Errorf("%s, %s, row %d: interval: %s: got %v, want %g", method, what, i, name, interval[name], want)
				}
			}
		}
		rows := batch(after)
		answers := servedScores(t, scorer, dir, 1)
		for i := range answers {
			pair[4], pair[6] = filepath.Join(dir, fmt.Sprint("s", i, ".png")), filepath.Join(dir, fmt.Sprint("e", i, ".png"))
			_, v := command(t, pair...)
			check("pair", i, v, rows[i])
			check("the server", i, answers[i], rows[i])
		}
	}
}

// servedScores returns a server's answers for the first edits of the table of calibratable.
func servedScores(t *testing.T, scorer, dir string, n int) (out []map[string]any) {
	t.Helper()
	m, err := model.OpenScorer(scorer, model.Options{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := reward.NewServer(reward.Options{}, []string{"a"}, []edit.Judge{m})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range n {
		body := map[string]any{"instruction": "flip the picture horizontally"}
		for name, file := range map[string]string{"source": "s", "edits": "e"} {
			picture, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(file, i, ".png")))
			if err != nil {
				t.Fatal(err)
			}
			if body[name] = picture; name == "edits" {
				body[name] = [][]byte{picture}
			}
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/v1/score", bytes.NewReader(raw)))
		var v struct{ Results []map[string]any }
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || len(v.Results) != 1 {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		out = append(out, v.Results[0])
	}
	return out
}
