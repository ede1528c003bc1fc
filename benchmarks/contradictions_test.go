package benchmarks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A line may name its item in several ways. What contradicts is refused: it would score another item.
func TestContradictingNames(t *testing.T) {
	meta := `[{"image_id": "p.png", "statement_list": [{"statement": "a", "label": "correct", "class": "c"},
		{"statement": "b", "label": "incorrect", "class": "c"}]},
		{"image_id": "q.png", "statement_list": [{"statement": "a", "label": "correct", "class": "c"},
		{"statement": "a", "label": "correct", "class": "c"}]}]`
	emotion := loadSet(t, mvei, Options{Data: write(t, "MVEI_metadata.json", meta)})
	edits := loadSet(t, aimBench, Options{Data: "testdata"})
	for _, tt := range []struct {
		set       Set
		row, want string // the item that has a prediction, or what the error says
	}{
		// Row numbers of the user's own do not count beside the names.
		{emotion, `{"id": 0, "image_id": "p.png", "statement": "b", "answer": "Correct"}`, "p.png#1"},
		{emotion, `{"id": 3, "answer": "Correct"}`, "q.png#1"},
		{emotion, `{"id": "p.png#1", "statement": "b", "answer": "Correct"}`, "p.png#1"},
		{emotion, `{"image_id": "p.png", "index": 1, "answer": "Correct"}`, "p.png#1"},
		{emotion, `{"id": "p.png#0", "statement": "b", "answer": "Correct"}`, "p.png#0 is not the statement"},
		{emotion, `{"id": "p.png#0", "image_id": "q.png", "answer": "Correct"}`, "p.png#0 is not the statement"},
		{emotion, `{"id": 9, "answer": "Correct"}`, `"9" is no statement`},
		{emotion, `{"statement": "b", "answer": "Correct"}`, `no "id"`},
		{emotion, `{"image_id": "q.png", "statement_list": [{"statement": "a", "predict": "x"}, ` +
			`{"statement": "a", "predict": "y"}]}`, "q.png#0 q.png#1"},
		{edits, `{"id": 1, "edited_image": "e1.jpg", "clip_t": 0.2}`, "e1.jpg"},
		{edits, `{"id": 1, "edited_image": "x/o1_edited_awe.png", "clip_t": 0.2}`, "e1.jpg"},
		{edits, `{"id": 1, "edited_image": "e2.jpg", "clip_t": 0.2}`, "ids count the samples from 0"},
		{edits, `{"id": "e1.jpg", "original_image": "o2.jpg", "clip_t": 0.2}`, "original_image is"},
	} {
		p, err := tt.set.Read(write(t, "p.jsonl", tt.row))
		if err != nil {
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", tt.row, err, tt.want)
			}
			continue
		}
		var has []string
		switch p := p.(type) {
		case *statementsPredictions:
			for i, k := range p.keys {
				if p.Complete(i) {
					has = append(has, k.ID)
				}
			}
		case *aimPredictions:
			for i := range p.kind {
				if p.has("clip_t", i) {
					has = append(has, p.edited[i])
				}
			}
		}
		if got := strings.Join(has, " "); got != tt.want {
			t.Errorf("%s: read as %q, want %q", tt.row, got, tt.want)
		}
	}
}

// Lines of FED-Bench that name no samples are not put together with those of another file, and are told of.
func TestUnnamedSamples(t *testing.T) {
	s := loadSet(t, fedBench, Options{BGNorm: "linear:255", Sigma: 0.5}).(Mixed)
	line := strings.Replace(fedLines([]int{1}, 0), `"sample": "s1", `, "", 1)
	p := must[[]Editor](t)(s.ReadAll([]string{write(t, "a.jsonl", line)}))
	if notes := strings.Join(p[0].Result().Notes, "; "); !strings.Contains(notes, "by their places in the file") {
		t.Error(notes)
	}
	_, err := s.ReadAll([]string{write(t, "a.jsonl", line), write(t, "b.jsonl", `{"score": 3}`)})
	if err == nil || !strings.Contains(err.Error(), `there is no "sample"`) {
		t.Error(err)
	}
}

// A field, a caption or a file that is there twice is refused: one of both would be hidden, or count twice.
func TestSecondValues(t *testing.T) {
	edits := loadSet(t, aimBench, Options{Data: "testdata"})
	for row, want := range map[string]string{
		`{"id": 0, "clip_t": 0.2, "clip_t": 0.9}`: `a second "clip_t"`,
		`{"id": 0, "clip_t": 0.2} {"id": 1}`:      "a JSON object was expected",
		`{"id": 0, "cilp_t": 0.2}`:                "it has no component",
		`["id"]`:                                  "a JSON object was expected",
	} {
		if _, err := edits.Read(write(t, "p.jsonl", row)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", row, err)
		}
	}
	items := []Item{{Key: Key{ID: "a"}, Captions: [2]string{"x", "y"}}}
	kind, _ := FindSimilarity("clip_t")
	for text, want := range map[string]string{
		`{"id": "a", "target_caption": "y"} {"id": "a", "target_caption": "z"}`: `second captions of "a"`,
		`{"id": "b", "target_caption": "y"}`:                                    `"b" is no item of the data`,
	} {
		if err := kind.Caption(items, write(t, "c.jsonl", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	raw := must[[]byte](t)(os.ReadFile("testdata/editscore.parquet"))
	dir := t.TempDir()
	for _, name := range []string{"a.parquet", "b.parquet"} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := loadEditReward(Options{Data: dir}); err == nil || !strings.Contains(err.Error(), "are the same") {
		t.Errorf("a table and its copy: %v", err)
	}
}

// A ranking by a distance puts the smallest first, whether it was told or not.
func TestRankingByDistance(t *testing.T) {
	rows := `{"id": "1", "model": "far", "l1": 0.5}` + "\n" + `{"id": "1", "model": "near", "l1": 0.1}` + "\n" +
		`{"id": "2", "model": "far", "l1": 0.1}` + "\n" + `{"id": "2", "model": "near", "l1": 0.1}`
	for _, lower := range []bool{false, true} {
		c := must[*Contest](t)(ReadScores([]string{write(t, "l1.jsonl", rows)}, "l1", lower))
		r := must[*Ranking](t)(c.Rank(nil, 0, 1))
		if r.Editors[0].Name != "near" || !strings.Contains(strings.Join(r.Notes, "; "), "less of l1 is better") {
			t.Errorf("%+v", r)
		}
	}
}
