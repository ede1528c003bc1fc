package editors

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/runner"
	"assay/metrics"
)

// TestKRISAsAuthors: the means equal those of Bagel's summarize.py, and the pooled ones state how many values they
// cover.
func TestKRISAsAuthors(t *testing.T) {
	for n, f := range benchtest.Authors[authorsKRIS](t, "kris") {
		dir := t.TempDir()
		for category, entries := range f.Annotations {
			benchtest.PutFile(t, dir, "KRIS_Bench/"+category+"/annotation.json", []byte(entries))
		}
		for category, entries := range f.Results {
			benchtest.PutFile(t, dir, "M/"+category+"/metrics.json", []byte(entries))
		}
		s := benchtest.LoadSet(t, KRISBench, protocol.Options{Data: filepath.Join(dir, "KRIS_Bench")})
		p := benchtest.Must[[]protocol.Editor](t)(s.(protocol.Mixed).ReadAll([]string{filepath.Join(dir,
			"M")}))[0].Predictions
		numbers := benchtest.NumbersOf(p)
		benchtest.EqualNumbers(t, fmt.Sprintf("file %d", n), benchtest.ByRule(numbers), f.Expect)
		name := fmt.Sprintf("kris: overall (%.0f%% of %d values)", 100*float64(f.Used)/float64(f.Of), f.Of)
		if _, ok := numbers[name]; !ok {
			t.Errorf("file %d: there is no number %q: %v", n, name, numbers)
		}
	}
}

// TestMagicBrushAsAuthors: distances of pictures with every kind of transparency equal those of image_eval.py.
func TestMagicBrushAsAuthors(t *testing.T) {
	for n, pairs := range benchtest.Authors[authorsMagicBrush](t, "magicbrush") {
		dir, want := t.TempDir(), map[string]float64{}
		for i, p := range pairs {
			id := fmt.Sprint(i)
			benchtest.PutFile(t, dir, "images/"+id+"/"+id+"-output1.png", p.Target)
			benchtest.PutFile(t, dir, "M/"+id+"/"+id+"_1.png", p.Edit)
			for metric, v := range p.Expect {
				want[metric+": single turn"] += v / float64(len(pairs))
			}
		}
		s := benchtest.LoadSet(t, MagicBrush, protocol.Options{Data: dir, Editors: []string{filepath.Join(dir, "M")}})
		items := benchtest.Must[[]*edit.Edit](t)(s.(protocol.Measurable).Outputs())
		var files []string
		for _, name := range []string{"l1", "l2"} {
			m := benchtest.Must[*metrics.Metric](t)(metrics.Open(name, metrics.Options{}))
			c := runner.Component{Judge: m, Dir: dir}
			files = append(files, benchtest.Must[string](t)(c.Measure(t.Context(), s.(protocol.Measurable), items)))
			if len(c.Failed) > 0 {
				t.Errorf("%+v", c.Failed)
			}
		}
		p := benchtest.Must[[]protocol.Editor](t)(s.(protocol.Mixed).ReadAll(files))[0].Predictions
		for name, v := range want { // torch adds in single precision
			benchtest.Near(t, fmt.Sprintf("file %d: %s", n, name), benchtest.NumbersOf(p)[name], v, 1e-6)
		}
	}
}

// TestGEditAsAuthors: judges are shown what run_gedit_score.py shows.
func TestGEditAsAuthors(t *testing.T) {
	for n, rows := range benchtest.Authors[authorsGEdit](t, "gedit") {
		dir, lines := t.TempDir(), ""
		for i, r := range rows {
			benchtest.PutFile(t, dir, fmt.Sprint(i, ".source"), r.Source)
			benchtest.PutFile(t, dir, fmt.Sprintf("M/fullset/ps_human/en/%d.png", i), r.Edit)
			lines += fmt.Sprintf(`{"task_type": "ps_human", "key": "%[1]d", "instruction": "do", "instruction_language": "en", `+
				`"input_image_raw": "%[1]d.source"}`+"\n", i)
		}
		s := benchtest.LoadSet(t, GEditBench, protocol.Options{Data: benchtest.PutFile(t, dir, "d.jsonl",
			[]byte(lines)),
			Editors: []string{filepath.Join(dir, "M")}})
		for k, it := range benchtest.Must[[]*edit.Edit](t)(s.(protocol.Scorable).Items()) {
			for i, role := range []string{"source", "edit"} {
				shown := benchtest.Must[*data.Picture](t)(it.Picture(role).Decode())
				benchtest.Shows(t, fmt.Sprintf("file %d: %s of %s", n, role, it.ID), rows[k].Expect[i], shown)
			}
		}
	}
}

// TestRISEPicturesAreBare: the authors' program shows pictures without their transparency.
func TestRISEPicturesAreBare(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"a.png", "M/images/logical_reasoning/1.png"} {
		benchtest.PutFile(t, dir, path, nil)
	}
	s := benchtest.LoadSet(t, RISEBench, protocol.Options{Editors: []string{filepath.Join(dir, "M")},
		Data: benchtest.PutFile(t, dir, "d.json", []byte(`[{"index": "1", "category": "logical_reasoning", "image": "a.png",
			"instruction": "solve it", "reference_img": "b.png"}]`))})
	it := benchtest.Must[[]*edit.Edit](t)(s.(protocol.Scorable).Items())[0]
	for _, role := range []string{"source", "edit", "reference"} {
		if !protocol.PictureOf(it, role).Bare {
			t.Errorf("%s is %+v, want it bare", role, it.Picture(role))
		}
	}
}

// TestGEditMeansAsAuthors: result files in the form of the older program give the means of its calculate_statistics.py.
func TestGEditMeansAsAuthors(t *testing.T) {
	for n, f := range benchtest.Authors[authorsGEditMeans](t, "gedit_means") {
		dir, lines := t.TempDir(), ""
		for _, sample := range f.Data {
			lines += string(sample) + "\n"
		}
		var files []string
		for name, text := range f.Files {
			files = append(files, benchtest.PutFile(t, dir, name, []byte(text)))
		}
		s := benchtest.LoadSet(t, GEditBench, protocol.Options{Data: benchtest.PutFile(t, dir, "d.jsonl",
			[]byte(lines))})
		numbers := benchtest.ByRule(benchtest.NumbersOf(benchtest.Must[[]protocol.Editor](t)(
			s.(protocol.Mixed).ReadAll(files))[0].Predictions))
		for name, want := range f.Expect {
			if got, ok := numbers[name]; want == nil && ok && !math.IsNaN(got) ||
				want != nil && !(math.Abs(got-*want) <= 1e-9) {
				t.Errorf("file %d: %s is %v, want %v (null: undefined)", n, name, got, want)
			}
		}
	}
}

// Impossible values of a number are refused with its name, and so is a name that the benchmark does not have.
func TestGradedRefusals(t *testing.T) {
	brush := benchtest.LoadSet(t, MagicBrush, protocol.Options{Data: benchtest.GradedFolder(t, 2)})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "basic_edit.json"),
		[]byte(`{"1": {"id": "a.png", "prompt": "p", "edit_type": "add"}, "2": {"id": "b.png", "prompt": "p", `+
			`"edit_type": "add"}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	edit := benchtest.LoadSet(t, ImgEditBench, protocol.Options{Data: dir})
	for row, tt := range map[string]struct {
		set  protocol.Set
		want string
	}{
		`{"id": "7/1", "l1": 6}`:         {brush, "l1 is 6"},
		`{"id": "7/1", "l1": -0.1}`:      {brush, "l1 is -0.1"},
		`{"id": "7/1", "clip_i": 93}`:    {brush, "clip_i is 93"},
		`{"id": "7/1", "clip_t": 30}`:    {brush, "clip_t is 30"},
		`{"id": "7/1", "clipi": 0.9}`:    {brush, `"clipi" is not a number of magicbrush`},
		`{"id": "7/1", "score": 99}`:     {brush, "score is 99"},
		`{"id": "1", "score": 99}`:       {edit, "score is 99"},
		`{"id": "1", "published": 5.01}`: {edit, "published is 5.01"},
		`{"id": "1", "Score": 3}`:        {edit, `"Score" is not a number of imgedit-bench`},
	} {
		if _, err := tt.set.Read(benchtest.Write(t, "p.jsonl", row)); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", row, err, tt.want)
		}
	}
	for _, row := range []string{`{"id": "7/1", "lpips": 0.1, "by": {"lpips": "v1"}}`,
		`{"id": "7/1", "l1": 1, "clip_i": -1, "score": 10}`, `{"id": "7/1", "score": 99, "of": "0123"}`} {
		if _, err := brush.Read(benchtest.Write(t, "p.jsonl", row)); err != nil {
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

// The column n is the number of samples that the means of a kind cover.
func TestKindsCount(t *testing.T) {
	dir := t.TempDir()
	text := `{"1": {"id": "a", "prompt": "p", "edit_type": "add"}, "2": {"id": "b", "prompt": "p", "edit_type": "add"}, ` +
		`"3": {"id": "c", "prompt": "p", "edit_type": "cut"}}`
	if err := os.WriteFile(filepath.Join(dir, "basic_edit.json"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	s := benchtest.LoadSet(t, ImgEditBench, protocol.Options{Data: dir})
	rows := `{"id": "1", "published": 3, "score": 2}` + "\n" + `{"id": "2", "score": 4}`
	p := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl", rows)))
	got := ""
	for _, row := range p.Result().Tables[0].Rows {
		got += row.Name + " " + row.Cells[0].Text + "; "
	}
	if got != "add 1 to 2; cut 0; " {
		t.Errorf("%s", got)
	}
}

// A number on half of the samples has the share in its key, in every object of the JSON.
func TestSharesInJSON(t *testing.T) {
	s := benchtest.LoadSet(t, MagicBrush, protocol.Options{Data: benchtest.GradedFolder(t, 2)})
	p := benchtest.Must[protocol.Predictions](t)(s.Read(benchtest.Write(t, "p.jsonl",
		`{"id": "7/1", "l1": 0.5, "dino": 0.25}`+"\n"+
			`{"id": "7/2", "dino": 0.25}`)))
	raw := benchtest.Must[[]byte](t)(json.Marshal(p.Result().JSON))
	var v struct {
		Parts map[string]map[string]float64 `json:"parts"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	single := v.Parts["single turn"]
	if _, whole := single["l1"]; whole || single["l1 (50% of 2)"] != 0.5 || single["dino"] != 0.25 {
		t.Errorf("%s", raw)
	}
}

// Samples with several sources are asked about with all of them, frames in the order of their positions.
func TestKRISSources(t *testing.T) {
	for _, tt := range []struct {
		category, names, kind, sources string
	}{
		{"temporal_prediction", "2-1.jpg 2-4.jpg 2-2.jpg", "frame 3", "2-1.jpg 2-2.jpg 2-4.jpg"},
		{"temporal_prediction", "9-2.png 9-3.png 9-4.png", "frame 1", "9-2.png 9-3.png 9-4.png"},
		{"temporal_prediction", "9-2.png 9-2.png 9-4.png", "", ""},
		{"temporal_prediction", "9-2.png 9-3.png 9-5.png", "", ""},
		{"temporal_prediction", "9-1.png 9-2.png", "", ""},
		{"multi-element_composition", "1-1.jpg 1-2.jpg", "2 elements", "1-1.jpg 1-2.jpg"},
		{"multi-element_composition", "1 2 3 4 5 6", "", ""},
		{"color_change", "1 2 3", "", ""},
	} {
		kind, sources := krisSources(tt.category, strings.Fields(tt.names))
		if kind != tt.kind || strings.Join(sources, " ") != tt.sources {
			t.Errorf("%+v: %s, %v", tt, kind, sources)
		}
	}
}

// authorsKRIS is a part of authors.json.
type authorsKRIS []struct {
	Annotations, Results map[string]json.RawMessage
	Expect               map[string]float64
	Used, Of             int
}

// authorsMagicBrush is a part of authors.json.
type authorsMagicBrush [][]struct {
	Edit, Target []byte
	Expect       map[string]float64
}

// authorsGEdit is a part of authors.json.
type authorsGEdit [][]struct {
	Source, Edit []byte
	Expect       [2]benchtest.ShownPicture
}

// authorsGEditMeans is a part of authors.json.
type authorsGEditMeans []struct {
	Data   []json.RawMessage
	Files  map[string]string
	Expect map[string]*float64
}

// TestImgEditText: lines end, and are stripped, where Python's are, and digits are those of any script. The authors'
// function returned these numbers.
func TestImgEditText(t *testing.T) {
	for text, want := range map[string]float64{"a: 5\x1f\n\x1fb: 4\u2028c: 3\x1c": 4, "a: 5\x1fb: 4\nc: 3": 3,
		"a: 5\r\x1db: 4\vc: 3\u0085": 4,
		"a: ５\nb: ٤\nc: 1२":          7, "a: 𝟝\nb: 4½\nc: 五\nd: \ne: 4": 4.5} {
		if got, _, ok := imgEditScore(text); !ok || got != want {
			t.Errorf("%q: got %v, %t, want %v", text, got, ok, want)
		}
	}
}
