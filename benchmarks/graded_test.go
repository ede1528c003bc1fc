package benchmarks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gradedFolder is MagicBrush with one session of n turns, whose last is the only sample of "multi-turn".
func gradedFolder(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := 1; i <= n; i++ {
		path := filepath.Join(dir, "images", "7", fmt.Sprintf("7-output%d.png", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A draw of samples may lack a part: its numbers are then of fewer draws, and never those of another part.
func TestPartsMissingInDraws(t *testing.T) {
	s := loadSet(t, magicBrush, Options{Data: gradedFolder(t, 2)})
	editor := func(name string, single, multi float64) Predictions {
		text := ""
		for id, v := range map[string]float64{"7/1": single, "7/2": single, "7/final": multi} {
			text += fmt.Sprintf("{\"id\": %q, \"model\": %q, \"l1\": %v, \"dino\": %v}\n", id, name, v, 1-v)
		}
		return must[Predictions](t)(s.Read(write(t, name+".jsonl", text)))
	}
	a, b := editor("A", 0.06, 0.5), editor("B", 0.08, 0.75)
	want := map[string]float64{"l1: single turn": 0.06, "l1: multi-turn": 0.5, "dino: single turn": 0.94,
		"dino: multi-turn": 0.5}
	intervals := intervalsOf(a, 400, 1)
	for name, v := range want {
		if in := intervals[name]; !equal(in.Low, v) || !equal(in.High, v) {
			t.Errorf("%s: %v, want %v at both ends: all of its samples have it", name, in, v)
		}
	}
	if len(intervals) != len(want) {
		t.Errorf("%v", intervals)
	}
	c, err := Compare([]string{"A", "B"}, []Predictions{a, b}, 400, 1)
	if err != nil || len(c.Differences) != len(want) {
		t.Fatalf("%v: %+v", err, c)
	}
	for _, d := range c.Differences {
		if v := float64(d.Difference); !equal(float64(d.Low), v) || !equal(float64(d.High), v) {
			t.Errorf("%s differs by %v [%v, %v]", d.Number, d.Difference, d.Low, d.High)
		}
	}
}

func equal(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }

// What no such number can be is refused by name, and so is a name that the benchmark does not have.
func TestGradedRefusals(t *testing.T) {
	brush := loadSet(t, magicBrush, Options{Data: gradedFolder(t, 2)})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "basic_edit.json"),
		[]byte(`{"1": {"id": "a.png", "prompt": "p", "edit_type": "add"}, "2": {"id": "b.png", "prompt": "p", `+
			`"edit_type": "add"}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	edit := loadSet(t, imgEditBench, Options{Data: dir})
	for row, tt := range map[string]struct {
		set  Set
		want string
	}{
		`{"id": "7/1", "l1": 6}`:         {brush, "l1 is 6"},
		`{"id": "7/1", "l1": -0.1}`:      {brush, "l1 is -0.1"},
		`{"id": "7/1", "clip_i": 93}`:    {brush, "clip_i is 93"},
		`{"id": "7/1", "clip_t": 30}`:    {brush, "clip_t is 30"},
		`{"id": "7/1", "clipi": 0.9}`:    {brush, `"clipi" is no number of magicbrush`},
		`{"id": "7/1", "score": 99}`:     {brush, "score is 99"},
		`{"id": "1", "score": 99}`:       {edit, "score is 99"},
		`{"id": "1", "published": 5.01}`: {edit, "published is 5.01"},
		`{"id": "1", "Score": 3}`:        {edit, `"Score" is no number of imgedit-bench`},
	} {
		if _, err := tt.set.Read(write(t, "p.jsonl", row)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", row, err, tt.want)
		}
	}
	for _, row := range []string{`{"id": "7/1", "lpips": 0.1, "by": {"lpips": "v1"}}`,
		`{"id": "7/1", "l1": 1, "clip_i": -1, "score": 10}`, `{"id": "7/1", "score": 99, "of": "0123"}`} {
		if _, err := brush.Read(write(t, "p.jsonl", row)); err != nil {
			t.Errorf("%s: %v", row, err)
		}
	}
	folder := filepath.Join(t.TempDir(), "M")
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "result.json"), []byte(`{"1": "A: 400\nB: 400\nC: 400"}`),
		0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := edit.Read(folder); err == nil || !strings.Contains(err.Error(), "the mean of 1 is 400") {
		t.Errorf("%v", err)
	}
}

// The column n says on how many samples the means of a kind stand.
func TestKindsCount(t *testing.T) {
	dir := t.TempDir()
	text := `{"1": {"id": "a", "prompt": "p", "edit_type": "add"}, "2": {"id": "b", "prompt": "p", "edit_type": "add"}, ` +
		`"3": {"id": "c", "prompt": "p", "edit_type": "cut"}}`
	if err := os.WriteFile(filepath.Join(dir, "basic_edit.json"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	s := loadSet(t, imgEditBench, Options{Data: dir})
	rows := `{"id": "1", "published": 3, "score": 2}` + "\n" + `{"id": "2", "score": 4}`
	p := must[Predictions](t)(s.Read(write(t, "p.jsonl", rows)))
	got := ""
	for _, row := range p.Result().Tables[0].Rows {
		got += row.Name + " " + row.Text[0] + "; "
	}
	if got != "add 1 to 2; cut 0; " {
		t.Errorf("%s", got)
	}
}

// Less is better of a distance in every part of a benchmark, not of the column's bare name alone.
func TestDirectionOfParts(t *testing.T) {
	s := loadSet(t, magicBrush, Options{Data: gradedFolder(t, 2)}).(Mixed)
	line := func(model string, l1, dino float64) string {
		return fmt.Sprintf(`{"id": "7/1", "model": %q, "l1": %v, "dino": %v}`, model, l1, dino)
	}
	list := must[[]Editor](t)(s.ReadAll([]string{write(t, "p.jsonl", line("far", 0.5, 0.9)+"\n"+line("near", 0.1, 0.2))}))
	r := &Report{Benchmark: magicBrush}
	for _, e := range list {
		r.Add(e.Name, e.Predictions)
	}
	table := r.Summary()
	want := map[string][2]int{"l1: single turn (50% of 2)": {2, 1}, "dino: single turn (50% of 2)": {1, 2}}
	for c, name := range table.Columns {
		if ranks := table.ranks(); want[name] != [2]int{ranks[0][c], ranks[1][c]} {
			t.Errorf("%s: the ranks of far and near are %d and %d", name, ranks[0][c], ranks[1][c])
		}
	}
	if view := sortedView(r, table); view.Rows[0].Name != "near" {
		t.Errorf("%s comes first", view.Rows[0].Name)
	}
	for number, want := range map[string]int{"l1_source: test": -1, "clip_dir: test": 1, "l1_source": -1,
		"lpips: test": -1, "bg_rmse": -1} {
		if got := emuEdit.Direction(number); got != want {
			t.Errorf("%s: %d", number, got)
		}
	}
}

// What counts absent numbers as wrong does so where all of a sample's numbers are absent, too.
func TestAbsentSamplesAreWrong(t *testing.T) {
	dir := t.TempDir()
	entries := ""
	for i := range 4 {
		entries += fmt.Sprintf(`{"index": "i%d", "category": "causal_reasoning", "instruction": "x", "image": "a.png"},`, i)
	}
	path := filepath.Join(dir, "datav2_total_w_subtask.json")
	if err := os.WriteFile(path, []byte("["+strings.TrimSuffix(entries, ",")+"]"), 0o666); err != nil {
		t.Fatal(err)
	}
	s := loadSet(t, riseBench, Options{Data: dir})
	for _, row := range []string{`{"id": "i1", "reasoning": 5, "consistency": 5, "plausibility": 5}`,
		`{"id": "i1", "accuracy": 100}`} {
		p := must[Predictions](t)(s.Read(write(t, "p.jsonl", row)))
		r := &Report{Benchmark: riseBench}
		r.Add("half", p)
		for _, f := range r.Figures() {
			if f.Rule == "accuracy: overall" && (float64(f.Value) != 25 || f.Name != "accuracy: overall") {
				t.Errorf("%s: one sample of four is right, and %s is %v", row, f.Name, f.Value)
			}
		}
		if raw := string(must[[]byte](t)(json.Marshal(p.Result().JSON))); !strings.Contains(raw, `"accuracy":25`) {
			t.Errorf("%s", raw)
		}
	}
}
