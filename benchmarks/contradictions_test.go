package benchmarks

import (
	"fmt"
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
		{emotion, `{"id": 3, "answer": "Correct", "predict": "Incorrect"}`, "answer and predict are one thing here"},
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
	rows = strings.ReplaceAll(rows, "l1", "lpips_alex") + "\n" + `{"id": "3", "model": "far", "lpips_alex": 0.1}`
	c := must[*Contest](t)(ReadScores([]string{write(t, "lpips.jsonl", rows)}, "lpips_alex", false))
	r := must[*Ranking](t)(c.Rank(nil, 0, 1))
	notes := strings.Join(r.Notes, "; ")
	if r.Editors[0].Name != "near" || !strings.Contains(notes, "near has lpips_alex for 2 of 3 samples") {
		t.Errorf("%+v", r)
	}
}

// Nor is a field of an object within a file's objects, whose second value would hide the first.
func TestSecondNamesWithin(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("K/biology/annotation.json", `{"1": {"ori_img": "1.jpg", "ins_en": "a"}}`)
	put("I/basic_edit.json", `{"1": {"id": "a.png", "prompt": "p", "edit_type": "add"}}`)
	put("M/biology/metrics.json", `{"1": {"consistency_score": 5, "consistency_score": 1}}`)
	put("M/result.json", `{"1": "A: 1\nB: 1\nC: 1", "1": "A: 5\nB: 5\nC: 5"}`)
	put("K2/biology/annotation.json",
		`{"1": {"ori_img": "1.jpg", "ins_en": "a"}, "1": {"ori_img": "2.jpg", "ins_en": "b"}}`)
	put("I2/basic_edit.json", `{"1": {"id": "a.png", "prompt": "p", "edit_type": "add", "prompt": "q"}}`)
	put("R/data_total.json", `[{"index": "t1", "category": "causal_reasoning", "category": "temporal_reasoning"}]`)
	put("M/eval/aesthetic.json", `[{"name": "o0_edited_amusement.png", "score": 3, "score": 9}]`)
	put("N/eval/evaluation_scores.json", `[{"edited_filename": "o0_edited_amusement.png", "sc_scores": [8, null]}]`)
	in := func(name string) string { return filepath.Join(dir, name) }
	read := func(s Set, err error, path string) error {
		if err == nil {
			_, err = s.Read(path)
		}
		return err
	}
	kris, err1 := loadKRIS(Options{Data: in("K")})
	edits, err2 := loadImgEdit(Options{Data: in("I")})
	aim, err3 := loadAIM(Options{Data: "testdata"})
	_, err4 := loadKRIS(Options{Data: in("K2")})
	_, err5 := loadImgEdit(Options{Data: in("I2")})
	_, err6 := loadRISE(Options{Data: in("R")})
	_, err7 := loadRISE(Options{Data: write(t, "data_total.json", `[{"index": 7}]`)})
	for want, err := range map[string]error{
		`metrics.json: a second "consistency_score"`: read(kris, err1, in("M")),
		`result.json: a second "1"`:                  read(edits, err2, in("M")),
		`aesthetic.json: a second "score"`:           read(aim, err3, in("M")),
		`sub-scores holds null: finite numbers`:      read(aim, err3, in("N")),
		`annotation.json: a second "1"`:              err4,
		`basic_edit.json: a second "prompt"`:         err5,
		`data_total.json: a second "category"`:       err6,
		`Index is of type number: [{index, category`: err7,
		`a second "valence"`: read(aim, err3, write(t, "c.jsonl",
			`{"id": 0, "vad": {"valence": 5, "arousal": 5, "dominance": 5, "valence": 1}}`)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A sample that the data have twice is refused, and so are ratings by people that do not say whose output they are of.
func TestWhoseSample(t *testing.T) {
	entry := `{"original_image": "o.jpg", "edited_image": %q, "edit_type": "x", "edit_prompt": "p", ` +
		`"target_emotion": {"emotion": "awe", "VAD": [5, 5, 5]}}`
	data := func(names ...string) Options {
		var list []string
		for _, name := range names {
			list = append(list, fmt.Sprintf(entry, name))
		}
		return Options{Data: write(t, "Instructions.json", "["+strings.Join(list, ",")+"]")}
	}
	if _, err := loadAIM(data("a.png", "b.png", "a.png")); err == nil || !strings.Contains(err.Error(),
		`a second sample with the edited_image "a.png" (the first is in Instructions.json[0])`) {
		t.Error(err)
	}
	o := data("a.png", "b.png") // one original and one emotion: one name of an editor's output
	model := filepath.Join(t.TempDir(), "M")
	if err := os.MkdirAll(filepath.Join(model, "eval"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(model, "eval", aimBeautyFile),
		[]byte(`[{"name": "o_edited_awe.png", "score": 3}]`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := loadSet(t, aimBench, o).Read(model); err == nil || !strings.Contains(err.Error(), "of 2 samples") {
		t.Error(err)
	}
	lines := ""
	for _, editor := range []string{"A", "B"} {
		for i, name := range []string{"a.png", "b.png"} {
			lines += fmt.Sprintf(`{"id": %q, "method": %q, "sc": %d}`+"\n", name, editor, 5+i)
		}
	}
	for who, refused := range map[string]bool{"": true, `, "method": "A"`: false} {
		o.Human = write(t, "human.jsonl", `{"id": "a.png", "rating": 3`+who+`}`+"\n"+`{"id": "b.png", "rating": 4`+who+`}`)
		list := must[[]Editor](t)(loadSet(t, aimBench, o).(Mixed).ReadAll([]string{write(t, "c.jsonl", lines)}))
		failed := strings.Join(list[0].Result().Failed, "; ")
		if strings.Contains(failed, "whose sample was rated") != refused {
			t.Errorf("ratings %q: %s", who, failed)
		}
	}
}

// Data that say a row twice count it twice, and the notes tell. What is empty, or named for some rows alone, is
// refused.
func TestRepeatedRows(t *testing.T) {
	const a = `{"input": "i", "prompt": "p", "gen": "g", "score": 2, "model": "m"}`
	other := func(old, new string) string { return strings.Replace(a, old, new, 1) }
	for text, want := range map[string]string{
		"[" + a + "," + a + "," + other(`"g"`, `"h"`) + "]": "",
		"[" + a + "," + other(`, "model": "m"`, "") + "]":   "d.json[1]: this row has a model or row 0 has",
		"[" + other(`"g"`, `""`) + "]":                      "d.json[0]: gen is empty",
		"[" + other(`"i"`, `" "`) + "]":                     "d.json[0]: input is empty",
	} {
		set, err := loadAuroraPoint(Options{Data: write(t, "d.json", text)})
		if want != "" || err != nil {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		p := must[Predictions](t)(set.Read(write(t, "p.jsonl", `{"id": 0, "score": 1}`)))
		if notes := strings.Join(p.Result().Notes, "; "); !strings.Contains(notes, "1 of 3 rows of the data say just what") {
			t.Errorf("%s: notes %q", text, notes)
		}
	}
	const pair = `{"dimension": "IA", "source_image": "s", "prompt": "p", "winner": "w", "loser": "l", "label": "tie"}`
	set := loadSet(t, editRewardCompass, Options{Data: write(t, "reward_eval.json", "["+pair+","+pair+"]")})
	p := must[Predictions](t)(set.Read(write(t, "p.jsonl", `{"id": 0, "left": 1, "right": 1}`)))
	if notes := strings.Join(p.Result().Notes, "; "); !strings.Contains(notes, "1 of 2 rows of the data") {
		t.Errorf("notes %q", notes)
	}
	fed := loadSet(t, fedBench, Options{BGNorm: "linear:255", Sigma: 0.5})
	line := strings.Replace(fedLines([]int{1}, 0), `"pq"`, `"clip_i": "0.7", "pq"`, 1)
	if _, err := fed.Read(write(t, "c.jsonl", line)); err == nil || !strings.Contains(err.Error(), `clip_i is "0.7"`) {
		t.Error(err)
	}
}
