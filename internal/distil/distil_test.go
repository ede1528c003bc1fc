package distil

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/store"
	"assay/internal/strictyaml"
	"assay/internal/trainer"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
	"assay/textjudge"
)

// answerer answers every pass with its own score, by the seed. It fails or is interrupted where told to.
type answerer struct {
	asked  int
	answer func(n int, o chat.Options) (string, error)
}

func (m *answerer) Chat(_ context.Context, _ []chat.Message, o chat.Options) (*chat.Answer, error) {
	m.asked++
	text, err := m.answer(m.asked, o)
	if err != nil {
		return nil, err
	}
	return &chat.Answer{Text: text, Finish: chat.FinishStop}, nil
}

func (m *answerer) Fingerprint() string { return "a model" }
func (m *answerer) Close() error        { return nil }

const judgeYAML = `format: 1
kind: text
name: slow
rule: slow-1
questions:
  - name: good
    pictures: [source, edit]
    prompt: ask.jinja
    answer: {object: {why: {text: true}, score: {number: score, range: [0, 10]}}}
scale: [0, 10]
score: {by: mean, of: [score]}
score_range: [0, 10]
passes: 3
repeats: 0
seed: 1
options: {max_new_tokens: 20, temperature: 1}
`

// wordsTeacher opens a judge with three passes on a model.
func wordsTeacher(t *testing.T, m *answerer) *Words {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "judge.yaml"), judgeYAML)
	put(t, filepath.Join(dir, "ask.jinja"), "{{ instruction }}")
	s, err := store.Open(filepath.Join(dir, "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	kept, err := chat.Keep(m, s)
	if err != nil {
		t.Fatal(err)
	}
	j, err := textjudge.Open(dir, kept, textjudge.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return &Words{Judge: j, Model: kept, Workers: 1}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// edits writes a table of edits of a photograph of one shade.
func edits(t *testing.T, dir, name string, shade uint8, n int) string {
	t.Helper()
	picture := func(file string, at uint8) {
		m := image.NewGray(image.Rect(0, 0, 8, 8))
		m.Set(1, 1, color.Gray{at})
		f, err := os.Create(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := png.Encode(f, m); err != nil {
			t.Fatal(err)
		}
	}
	picture(name+".png", shade)
	var lines strings.Builder
	for i := range n {
		picture(fmt.Sprintf("%s-%d.png", name, i), shade+uint8(i)+1)
		fmt.Fprintf(&lines, `{"id": "%s%d", "source": "%s.png", "edit": "%s-%d.png", "instruction": "do it"}`+"\n", name, i,
			name, name, i)
	}
	path := filepath.Join(dir, name+".jsonl")
	put(t, path, lines.String())
	return path
}

func newRun(t *testing.T, teacher Teacher, o Options) *run {
	t.Helper()
	print, err := teacher.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	o.Note, o.Warn = func(string) {}, func(string) {}
	return &run{Options: o, teacher: teacher, print: print, state: state{Stages: map[string]string{}},
		shown: map[*data.Table]string{}}
}

func (r *run) labelled(t *testing.T, path string) ([]Rated, error) {
	t.Helper()
	table, err := data.OpenTable(path)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	return r.label(t.Context(), table, labelsFile)
}

// TestLabels: each pass is a rating, the text comes from the pass nearest to the mean, and an edit with a failed pass
// has no label instead of a label of 0.
func TestLabels(t *testing.T) {
	dir := t.TempDir()
	m := &answerer{}
	m.answer = func(n int, o chat.Options) (string, error) {
		if n == 5 { // the second pass of the second edit
			return "no idea", nil
		}
		return fmt.Sprintf(`{"why": "pass %d", "score": %d}`, o.Seed, []int{0, 1, 4, 10}[o.Seed]), nil
	}
	r := newRun(t, wordsTeacher(t, m), Options{Out: dir, Reasons: true})
	rated, err := r.labelled(t, edits(t, dir, "a", 10, 3))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(rated[0].Ratings, rated[2].Ratings); got != "[0.1 0.4 1] [0.1 0.4 1]" {
		t.Errorf("got ratings %s, want 0.1, 0.4 and 1", got)
	}
	if rated[1].Err == nil || len(rated[1].Ratings) != 0 {
		t.Errorf("an edit with an unreadable pass: got %+v, want an error and no ratings", rated[1])
	}
	e, err := data.OpenEdits(filepath.Join(dir, labelsFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	first, err := e.Read(0)
	if err != nil || first.Label == nil ||
		fmt.Sprintf("%v %v %s", *first.Label, first.Ratings, first.Why) != "0.5 [0.1 0.4 1] pass 2" {
		t.Errorf("got %+v, %v; want label 0.5, its ratings, and the words of pass 2", first, err)
	}
	second, err := e.Read(1)
	if err != nil || second.Label != nil || len(second.Ratings) != 0 {
		t.Errorf("got %+v, %v; want no label", second, err)
	}
}

// TestResume: questions answered before a cap or a crash are not asked again.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	capped := true
	m := &answerer{}
	m.answer = func(n int, o chat.Options) (string, error) {
		if n == 5 && capped {
			return "", fmt.Errorf("%w: %w", chat.ErrUnavailable, chat.ErrCap)
		}
		return `{"score": 5}`, nil
	}
	r := newRun(t, wordsTeacher(t, m), Options{Out: dir})
	path := edits(t, dir, "a", 10, 3)
	if _, err := r.labelled(t, path); !errors.Is(err, chat.ErrCap) {
		t.Fatalf("got error %v, want that of the cap", err)
	}
	if _, err := os.Stat(filepath.Join(dir, labelsFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a table of labels of half of the edits is there: %v", err)
	}
	capped = false
	if rated, err := r.labelled(t, path); err != nil || len(rated) != 3 || rated[2].Mean() != 0.5 {
		t.Fatalf("got %+v, %v; want three edits of 0.5", rated, err)
	}
	if m.asked != 10 {
		t.Errorf("got %d requests, want 10: nine answers, and the one that was refused", m.asked)
	}
	if _, err := r.labelled(t, path); err != nil || m.asked != 10 {
		t.Errorf("a stage that is done: got %d requests, %v; want no more", m.asked, err)
	}
	put(t, path, strings.ReplaceAll(string(must(os.ReadFile(path))), "do it", "do that"))
	if _, err := r.labelled(t, path); err != nil || m.asked != 19 {
		t.Errorf("another table: got %d requests, %v; want 19", m.asked, err)
	}
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

// TestHeldOut refuses held-out edits of a photograph that is in the training table.
func TestHeldOut(t *testing.T) {
	dir := t.TempDir()
	a, b := edits(t, dir, "a", 10, 2), edits(t, dir, "b", 90, 2)
	r := newRun(t, People{}, Options{In: a, HeldOut: b, Out: dir})
	if train, held, err := r.tables(); err != nil {
		t.Errorf("other photographs: got error %v, want none", err)
	} else {
		train.Close()
		held.Close()
	}
	r.HeldOut = edits(t, dir, "c", 10, 2) // the same picture under another name
	if _, _, err := r.tables(); exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), "shows a source that") {
		t.Errorf("the same photograph: got error %v, want wrong usage", err)
	}
}

// TestConfiguration: distil completes a configuration, which train can read.
func TestConfiguration(t *testing.T) {
	backbone, err := filepath.Abs("../../backbones/tiny")
	if err != nil {
		t.Fatal(err)
	}
	started, err := filepath.Abs("../../backbones/tiny-scorer")
	if err != nil {
		t.Fatal(err)
	}
	valued := t.TempDir() // a scorer whose head returns the score itself
	text, classes, _ := strings.Cut(string(must(os.ReadFile(filepath.Join(started, "scorer.yaml")))), "  kind: class")
	_, rest, _ := strings.Cut(classes, "score_token:")
	put(t, filepath.Join(valued, "scorer.yaml"), text+"  kind: regression\nscore_token:"+rest)
	for name, c := range map[string]struct {
		yaml string
		o    Options
		want []string
	}{
		"plain": {"", Options{}, []string{"classes", "votes: soft", "kind: classification", "0.1"}},
		"classes": {"head: {kind: classification, values: [0, 1]}", Options{Reasons: true},
			[]string{"votes: soft", "kind: text", "[SCORE]. [WHY]"}},
		"regression": {"head: {kind: regression}", Options{}, []string{"kind: l1"}},
		"order":      {"", Options{Order: true}, []string{"bradley_terry"}},
		"own losses": {"losses: [{kind: mse, votes: soft}]", Options{}, []string{"kind: mse"}},
		"own values": {"head: {values: [0, 0.7]}", Options{}, []string{"votes: soft", "0.7"}},
		"answers": {"answer: ['It is [SCORE].', 'So: [SCORE], [WHY]']", Options{Reasons: true},
			[]string{"- It is [SCORE]. [WHY]\n", `- "So: [SCORE], [WHY]"`}},
		"init":            {"init: " + started, Options{}, []string{"kind: classes", "votes: soft"}},
		"reasons of init": {"init: " + started, Options{Reasons: true}, []string{`answer: "[SCORE] [WHY]"`, "kind: text"}},
		"answer for init": {"init: " + started + "\nanswer: Yes [SCORE]", Options{Reasons: true},
			[]string{"Yes [SCORE] [WHY]"}},
		"init with values": {"init: " + valued, Options{}, []string{"kind: l1"}},
		"columns": {"data: {columns: {group: photo, label: mine, why: because}}", Options{},
			[]string{"columns:\n    group: photo\n  train:"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.o.Config, c.o.Out = filepath.Join(dir, "student.yaml"), filepath.Join(dir, "out")
			if !strings.Contains(c.yaml, "data:") {
				c.yaml += "\ndata: {train: elsewhere.jsonl}"
			}
			put(t, c.o.Config, "backbone: "+backbone+"\n"+c.yaml+"\n")
			text, err := newRun(t, People{}, c.o).configuration()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range append(c.want, filepath.Join(dir, "out/labels.jsonl"), filepath.Join(dir, "out/run")) {
				if !strings.Contains(string(text), want) {
					t.Errorf("got\n%s\nwant %q in it", text, want)
				}
			}
			path := filepath.Join(dir, "train.yaml")
			put(t, path, string(text))
			if _, err := config.Load(path); err != nil {
				t.Errorf("train reads it: got error %v, want none", err)
			}
		})
	}
}

// TestConfigurationData: tables of other labels are not validated on, and paths are those of the user's file.
func TestConfigurationData(t *testing.T) {
	backbone, err := filepath.Abs("../../backbones/tiny")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := Options{Config: filepath.Join(dir, "student.yaml"), Out: filepath.Join(dir, "out")}
	for validation, want := range map[string]float64{"a.jsonl": 0, "[a.jsonl, b.jsonl]": 0, "0.25": 0.25, "0": 0} {
		t.Run(validation, func(t *testing.T) {
			put(t, o.Config, "backbone: "+backbone+"\ndata: {train: elsewhere.jsonl, validation: "+validation+"}\n"+
				"validate: {by: benchmark, benchmark: {name: genai-bench, ratings: r.jsonl, images: pictures}}\n")
			text, err := newRun(t, People{}, o).configuration()
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Data struct {
					Validation any `yaml:"validation"`
				} `yaml:"data"`
				Validate struct {
					Benchmark map[string]string `yaml:"benchmark"`
				} `yaml:"validate"`
			}
			if err := yaml.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if f, _ := strictyaml.Float(got.Data.Validation); f != want {
				t.Errorf("got data.validation %v, want %g", got.Data.Validation, want)
			}
			b := got.Validate.Benchmark
			if b["ratings"] != filepath.Join(dir, "r.jsonl") || b["images"] != filepath.Join(dir, "pictures") ||
				b["name"] != "genai-bench" {
				t.Errorf("got benchmark %v, want its paths below %s", b, dir)
			}
		})
	}
}

// TestReport: agreement and disputes of a group of three edits by hand.
func TestReport(t *testing.T) {
	rows := []row{
		{group: "g", ratings: []float64{0, 0.5}, teacher: 0.25, student: 0.1, truth: 0},
		{group: "g", ratings: []float64{0.5, 0.25}, teacher: 0.375, student: 0.7, truth: 0.5},
		{group: "g", ratings: []float64{1, 0}, teacher: 0.5, student: 0.6, truth: 1},
		{group: "h", ratings: []float64{1, 1}, teacher: 1, student: 1, truth: 0.9},
	}
	a := agreement(rows, studentOf, truthOf, Apart)
	if a.Pairs != 3 || *a.PairAccuracy != 2.0/3 {
		t.Errorf("got %+v, want 2 of 3 pairs", a)
	}
	agreed, disputed := disputes(rows)
	if agreed.Pairs != 0 || agreed.Teacher != nil || disputed.Pairs != 3 || *disputed.Teacher != 1 ||
		*disputed.One != 0.5 || *disputed.Student != 2.0/3 {
		raw, _ := json.Marshal([]Order{agreed, disputed})
		t.Errorf("got %s, want all three disputed: teacher 1, one pass 1/2, student 2/3", raw)
	}
}

// TestReportOfManyPasses: six passes that agree count as agreed, although six times 1/6 is less than 1 in floating
// point.
func TestReportOfManyPasses(t *testing.T) {
	const n = 6
	low, high := make([]float64, n), make([]float64, n)
	for i := range high {
		high[i] = 1
	}
	agreed, disputed := disputes([]row{{ratings: low, truth: 0}, {ratings: high, teacher: 1, student: 1, truth: 1}})
	if agreed.Pairs != 1 || *agreed.One != 1 || disputed.Pairs != 0 {
		t.Errorf("got %d pairs agreed, %d disputed; want the one pair agreed", agreed.Pairs, disputed.Pairs)
	}
}

// TestTruths: ids must be unique, numbers from 0 to 1 and columns present; otherwise the truth is refused before
// anything is asked.
func TestTruths(t *testing.T) {
	dir := t.TempDir()
	held := edits(t, dir, "a", 10, 2)
	twice := filepath.Join(dir, "twice.jsonl")
	put(t, twice, strings.ReplaceAll(string(must(os.ReadFile(held))), `"id": "a1"`, `"id": "a0"`))
	for name, c := range map[string]struct{ held, truth, want string }{
		"good":            {held, `{"id": "a0", "label": 0.5, "kind": "x"}`, ""},
		"a part":          {held, `{"id": "a1", "label": null}` + "\n" + `{"id": "a0", "label": 1, "kind": "x"}`, ""},
		"an id twice":     {held, `{"id": "a0", "label": 0}` + "\n" + `{"id": "a0", "label": 1}`, "duplicate id"},
		"an edit twice":   {twice, `{"id": "a0", "label": 0.5, "kind": "x"}`, "duplicate id"},
		"percent":         {held, `{"id": "a0", "label": 50, "kind": "x"}`, "0 to 1, not 50"},
		"no label":        {held, `{"id": "a0", "kind": "x"}`, `no column "label"`},
		"no kind":         {held, `{"id": "a0", "label": 0.5}`, `no column "kind" (--by)`},
		"of other edits":  {held, `{"id": "b0", "label": 0.5, "kind": "x"}`, "any held-out edit"},
		"a word as label": {held, `{"id": "a0", "label": "good", "kind": "x"}`, "want a number"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "truth.jsonl")
			put(t, path, c.truth+"\n")
			r := newRun(t, People{}, Options{Truth: path, Column: "label", By: []string{"kind"}})
			table, err := data.OpenTable(c.held)
			if err != nil {
				t.Fatal(err)
			}
			defer table.Close()
			err = r.readTruths(table)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case c.want != "" && (exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got error %v, want wrong usage with %q", err, c.want)
			}
		})
	}
}

// TestPeople: ratings on another scale are refused, not clipped, unless only their order counts.
func TestPeople(t *testing.T) {
	dir := t.TempDir()
	path := edits(t, dir, "a", 10, 2)
	for ratings, wrong := range map[string]bool{"[0, 0.5, 1]": false, "[0, 1, 7]": true, "[-0.1]": true} {
		t.Run(ratings, func(t *testing.T) {
			rated := filepath.Join(dir, "rated.jsonl")
			put(t, rated, strings.ReplaceAll(string(must(os.ReadFile(path))), `"do it"`, `"do it", "ratings": `+ratings))
			for _, order := range []bool{false, true} {
				_, _, err := People{Order: order}.Rate(t.Context(), rated, "")
				if want := wrong && !order; want != (exit.Code(err) == exit.Wrong) || !want && err != nil {
					t.Errorf("order alone %v: got error %v, want one: %v", order, err, want)
				}
			}
		})
	}
}

// TestChangedPicture: an edit whose picture changed under the same name is rated again.
func TestChangedPicture(t *testing.T) {
	dir := t.TempDir()
	a, b := edits(t, dir, "a", 10, 2), edits(t, dir, "b", 90, 2)
	m := &answerer{answer: func(int, chat.Options) (string, error) { return `{"score": 5}`, nil }}
	r := newRun(t, wordsTeacher(t, m), Options{In: a, HeldOut: b, Out: t.TempDir()})
	rate := func() {
		t.Helper()
		train, held, err := r.tables()
		if err != nil {
			t.Fatal(err)
		}
		defer train.Close()
		defer held.Close()
		if _, err := r.label(t.Context(), train, labelsFile); err != nil {
			t.Fatal(err)
		}
	}
	rate()
	if rate(); m.asked != 6 {
		t.Errorf("got %d requests, want 6: three passes of two edits, once", m.asked)
	}
	put(t, filepath.Join(dir, "a-1.png"), string(must(os.ReadFile(filepath.Join(dir, "b-1.png")))))
	if rate(); m.asked != 9 {
		t.Errorf("another picture: got %d requests, want 9", m.asked)
	}
}

// benchmark is a benchmark of one file.
type benchmark string

func (b benchmark) Measure(context.Context, edit.Judge) (float64, error) { return 0, nil }
func (b benchmark) Lower() bool                                          { return false }
func (b benchmark) String() string                                       { return "a benchmark" }

func (b benchmark) Fingerprint() (map[string]string, error) {
	return map[string]string{"ratings": string(must(os.ReadFile(string(b))))}, nil
}

// headsYAML is a scorer of format 2, beside its backbone.
const headsYAML = `format: 2
backbone: tiny
passes:
  - {pictures: [frames], prompt: 'done? [INSTRUCTION]', position: last, heads: [good]}
heads: {good: {hidden: [4], outputs: value}}
score: {fusion: mean, of: [good]}
`

// TestTrainedAgain: the student is trained again after any file changed that the training reads, under the same name
// and with the same ratings.
func TestTrainedAgain(t *testing.T) {
	dir := t.TempDir()
	a, b := edits(t, dir, "a", 10, 2), edits(t, dir, "b", 90, 2)
	put(t, a, strings.ReplaceAll(string(must(os.ReadFile(a))), `"do it"`, `"do it", "ratings": [0.5]`))
	for _, name := range []string{"tiny", "tiny-scorer"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS("../../backbones/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(dir, "ratings.json"), "{}")
	put(t, filepath.Join(dir, "heads.yaml"), headsYAML)
	const measured = "validate: {by: benchmark, benchmark: {name: own, ratings: ratings.json}}\n"
	for changed, yaml := range map[string]string{
		"a-1.png":                      "backbone: tiny\n",
		"tiny/model.safetensors":       "backbone: tiny\n",
		"tiny-scorer/head.safetensors": "init: tiny-scorer\nlosses: [{kind: classes}]\n",
		"heads.yaml":                   "scorer: heads.yaml\nlosses: [{kind: l1}]\n",
		"ratings.json":                 "backbone: tiny\n" + measured,
	} {
		t.Run(changed, func(t *testing.T) {
			o := Options{In: a, HeldOut: b, Out: t.TempDir(), Config: filepath.Join(dir, "student.yaml")}
			put(t, o.Config, yaml)
			o.Train.Benchmark = func(c *config.BenchmarkConfig) (trainer.Benchmark, error) { return benchmark(c.Ratings), nil }
			trainings := 0
			o.Train.Factory = func(context.Context, *config.Config) (models.Model, error) {
				trainings++
				return nil, errors.New("trained")
			}
			r := newRun(t, People{}, o)
			train := func(want int) {
				t.Helper()
				table, held, err := r.tables()
				if err != nil {
					t.Fatal(err)
				}
				defer table.Close()
				defer held.Close()
				if _, err := r.label(t.Context(), table, labelsFile); err != nil {
					t.Fatal(err)
				}
				text, err := r.configuration()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.train(t.Context(), table, text); trainings != want {
					t.Fatalf("got %d trainings, %v, want %d", trainings, err, want)
				}
				if r.state.Stages["train"] == "" { // as if it had not failed
					r.state.Stages["train"] = r.state.Stages["training"]
					if err := os.MkdirAll(r.path("run/scorer"), 0o777); err != nil {
						t.Fatal(err)
					}
				}
			}
			train(1)
			train(1)
			path := filepath.Join(dir, changed)
			before := must(os.ReadFile(path))
			defer put(t, path, string(before))
			if after := string(before) + "\n"; filepath.Ext(path) != ".safetensors" {
				put(t, path, after)
			} else { // of the same length
				put(t, path, string(append(before[:len(before)-1:len(before)-1], before[len(before)-1]^1)))
			}
			train(2)
		})
	}
}

// TestEmptyTable: an empty table is refused.
func TestEmptyTable(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none.jsonl")
	put(t, none, "")
	r := newRun(t, People{}, Options{In: edits(t, dir, "a", 10, 2), HeldOut: none})
	if _, _, err := r.tables(); exit.Code(err) != exit.Wrong {
		t.Errorf("got error %v, want wrong usage", err)
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// TestBegin: the run of a training on other labels is deleted before the next one starts.
func TestBegin(t *testing.T) {
	r := newRun(t, People{}, Options{Out: t.TempDir()})
	left := r.path("run/scorer")
	if err := os.MkdirAll(left, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of    string
		stays bool
	}{{"one", true}, {"one", true}, {"another", false}} {
		if err := errors.Join(r.begin(c.of), r.finish("train", "one")); err != nil {
			t.Fatal(err)
		}
		if exists(left) != c.stays {
			t.Errorf("%s: got the scorer there: %v, want %v", c.of, exists(left), c.stays)
		}
	}
	if err := r.begin("one"); err != nil || r.done("train", "one") {
		t.Errorf("got %v, done %v; want the stage undone, as its scorer is gone", err, r.done("train", "one"))
	}
}

// TestSpeed: another teacher's time is not this one's.
func TestSpeed(t *testing.T) {
	r := newRun(t, People{}, Options{})
	r.state.Speed, r.state.Timed = Speed{Teacher: 3}, "another"
	if got := r.speed(1); got != (Speed{Student: 1}) {
		t.Errorf("got %+v, want the student's alone", got)
	}
}

// TestRefusedConfiguration: a configuration that train would refuse, or that leaves out what the teacher is paid for,
// is refused before the teacher is asked. The error names the user's file and no temporary one.
func TestRefusedConfiguration(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tiny", "tiny-scorer"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS("../../backbones/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "heads"), 0o777); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "heads", "scorer.yaml"), strings.Replace(headsYAML, "tiny", "../tiny", 1))
	const text, term = "backbone: tiny\n", "{kind: text}"
	for name, c := range map[string]struct {
		yaml    string
		reasons bool
		want    string // "": none
	}{
		"an unknown key":         {text + "no_such_key: 1\n", false, "no_such_key: unknown key"},
		"reasons, own losses":    {text + "losses: [{kind: l1}]\n", true, term},
		"reasons, no weight":     {text + "losses: [{kind: l1}, {kind: text, weight: 0}]\n", true, term},
		"reasons and their term": {text + "losses: [{kind: l1}, {kind: text}]\n", true, ""},
		"reasons, own loss":      {text + "loss: {text: 0, score: 1}\n", true, term},
		"reasons and their loss": {text + "loss: {text: 0.1, score: 1}\n", true, ""},
		"own losses alone":       {text + "losses: [{kind: l1}]\n", false, ""},
		"train_split":            {text + "data: {train_split: a}\n", false, "data.train_split: leave it out"},
		"validation_split":       {text + "data: {validation_split: a}\n", false, "data.validation_split: leave it out"},
		"cache":                  {text + "cache: {vision: disk}\n", false, "cache: leave it out"},
		"init":                   {"init: tiny-scorer\n", false, ""},
		"init, another head":     {"init: tiny-scorer\nhead: {kind: regression}\n", false, "head: the scorer of init"},
		"init, format 2":         {"init: heads\n", false, "losses: a scorer with several heads"},
		"format 2, own losses":   {"init: heads\nlosses: [{kind: l1}]\n", false, ""},
		"format 2 and reasons":   {"init: heads\nlosses: [{kind: l1}]\n", true, "leave out --reasons"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "student.yaml")
			put(t, path, c.yaml)
			_, plan, err := Run(t.Context(), People{}, Options{Config: path, In: edits(t, dir, "a", 10, 2), Reasons: c.reasons,
				HeldOut: edits(t, dir, "b", 90, 2), Out: filepath.Join(dir, "out"), DryRun: true})
			if c.want == "" && (err != nil || plan == nil) {
				t.Errorf("got plan %v, error %v, want a plan", plan, err)
			}
			if c.want != "" && (exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "distil-")) {
				t.Errorf("got error %v, want wrong usage with %q and %s", err, c.want, path)
			}
		})
	}
}

// TestUnreadableConfiguration: a configuration that train would refuse is refused before the teacher is asked.
func TestUnreadableConfiguration(t *testing.T) {
	dir := t.TempDir()
	m := &answerer{answer: func(int, chat.Options) (string, error) { return `{"score": 5}`, nil }}
	path := filepath.Join(dir, "student.yaml")
	put(t, path, "backbone: "+dir+"\nno_such_key: 1\n")
	_, _, err := Run(t.Context(), wordsTeacher(t, m), Options{Config: path, In: edits(t, dir, "a", 10, 2),
		HeldOut: edits(t, dir, "b", 90, 2), Out: filepath.Join(dir, "out"), Note: func(string) {}, Warn: func(string) {}})
	if exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), "no_such_key: unknown key") || m.asked > 0 {
		t.Errorf("got error %v after %d requests, want wrong usage before any", err, m.asked)
	}
}
