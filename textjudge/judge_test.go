package textjudge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/oracle"
)

// scripted is a model that answers by a function.
type scripted func(m []chat.Message, o chat.Options) (chat.Answer, error)

func (s scripted) Chat(ctx context.Context, m []chat.Message, o chat.Options) (*chat.Answer, error) {
	a, err := s(m, o)
	if a.Finish == "" {
		a.Finish = chat.FinishStop
	}
	return &a, err
}

func (s scripted) Fingerprint() string { return "scripted" }
func (s scripted) Close() error        { return nil }

// always says the same.
func always(text string) scripted {
	return func([]chat.Message, chat.Options) (chat.Answer, error) { return chat.Answer{Text: text}, nil }
}

func open(t *testing.T, name string, m chat.Model, s Settings) *Judge {
	t.Helper()
	j, err := Open(name, m, s)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// plain is a picture of one colour.
func plain(v byte) *data.Picture {
	p := &data.Picture{Width: 8, Height: 8, Pix: make([]byte, 192)}
	for i := range p.Pix {
		p.Pix[i] = v
	}
	return p
}

// ask asks a judge about an edit whose pictures have one colour each, or a judge of pairs about that edit and
// another.
func ask(t *testing.T, j *Judge) (*Result, error) {
	t.Helper()
	e := edit.New(plain(1), plain(2), "make it red")
	e.Pictures = map[string]edit.Picture{"edit2": plain(3), "reference": plain(4)}
	if j.Config.Pair {
		return j.Ask(t.Context(), e, edit.New(plain(1), plain(3), "make it red"))
	}
	return j.Ask(t.Context(), e)
}

// editscoreCases are the texts and rows of the fixtures.
type editscoreCases struct {
	Texts []struct {
		Name, Text, Error string
		Score             []float64
	}
	Rows []struct {
		Passes []map[string]string
		Expect []struct {
			Rule, Average, Error string
			Following            float64 `json:"prompt_following"`
			Consistency          float64
			Semantic             float64
			Perceptual           float64
			Overall              float64
			Reward               float64
		}
	}
}

// TestReading: the shipped grammar reads every text as the fixtures do, or refuses it if they do.
func TestReading(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		cases := oracle.Read[editscoreCases](t, filepath.Join(oracle.Released(t, folder), "editscore/cases.json"))
		answer := open(t, "editscore", always(""), Settings{}).Config.Questions[0].Answer
		for _, c := range cases.Texts {
			got, err := answer.Read(c.Text)
			if (err != nil) != (c.Error != "") {
				t.Errorf("%s: %v, error %v, want %v, error %q", c.Name, got, err, c.Score, c.Error)
				continue
			}
			if err == nil && (got["prompt_following"] != c.Score[0] || got["consistency"] != c.Score[1]) {
				t.Errorf("%s: %v, want %v", c.Name, got, c.Score)
			}
		}
	})
}

// TestRules: both rules and both averages return the fixtures' numbers, or an error where they have one.
func TestRules(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		cases := oracle.Read[editscoreCases](t, filepath.Join(oracle.Released(t, folder), "editscore/cases.json"))
		names := map[string]string{"edited": "editscore", "both": "editscore/both"}
		for i, row := range cases.Rows {
			for _, e := range row.Expect {
				what := fmt.Sprintf("row %d, rule %s, average %s", i, e.Rule, e.Average)
				s := Settings{Passes: len(row.Passes), Average: e.Average}
				m := scripted(func(m []chat.Message, o chat.Options) (chat.Answer, error) {
					question := "PQ"
					if text := m[0].Content[len(m[0].Content)-1].Text; strings.Contains(text, "make it red") {
						question = "SC"
					}
					return chat.Answer{Text: row.Passes[(int(o.Seed)-42)%len(row.Passes)][question]}, nil
				})
				r, err := ask(t, open(t, names[e.Rule], m, s))
				if e.Error != "" {
					var unread *AnswerError
					if !errors.As(err, &unread) || r.Score != 0 || len(r.Answers) == 0 || unread.Tries != 3 {
						t.Errorf("%s: %v, %v, want an error", what, r, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				for name, want := range map[string]float64{
					"prompt_following": e.Following, "consistency": e.Consistency, "semantic": e.Semantic,
					"perceptual": e.Perceptual,
				} {
					if got := r.Dimensions[name]; !(math.Abs(got-want) < 1e-6) {
						t.Errorf("%s: %s %v, want %v", what, name, got, want)
					}
				}
				if !(math.Abs(r.Score-e.Overall) < 1e-6) || !(math.Abs(r.Score01-e.Reward) < 1e-6) {
					t.Errorf("%s: %v, %v, want %v, %v", what, r.Score, r.Score01, e.Overall, e.Reward)
				}
			}
		}
	})
}

// TestShipped: every judge that ships can be opened, shows its pictures in order, and scores an answer.
func TestShipped(t *testing.T) {
	names := map[string]string{}
	answers := map[string]string{"unifiedreward-edit/pair": "Cleaner. Image 1 is better.", "esj": "Correct",
		"imgedit": `{"compliance": 3, "seamlessness": 2, "fidelity": 3}`, "aim/sc": `{"scores": [5, 10], "reason": "so"}`,
		"aim/emotion": `{"emotion": "awe"}`, "aim/vad": `{"valence": 1, "arousal": 5.5, "dominance": 9}`,
		"fed/pq": `{"score": 7.5, "reason": "so"}`, "esj/cot": "<think>Incorrect?</think> <answer>Correct</answer>"}
	answers["aim/pq"], answers["aim/gtc"] = answers["aim/sc"], answers["aim/sc"]
	answers["fed/sc"], answers["fed/gta"] = answers["fed/pq"], answers["fed/pq"]
	for _, name := range Shipped() {
		text := answers[name]
		if text == "" {
			text = `{"score": [5, 10], "reasoning": "so"}`
		}
		var mu sync.Mutex
		shown := 0
		m := scripted(func(m []chat.Message, _ chat.Options) (chat.Answer, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range m[0].Content {
				if p.Image != nil {
					shown++
				}
			}
			return chat.Answer{Text: text}, nil
		})
		if authorsAlone(name) {
			continue
		}
		j := open(t, name, m, Settings{})
		if other := names[j.Config.Name]; other != "" || j.Asks != "own" {
			t.Errorf("%s: asks %s prompts, and %q has the same name", name, j.Asks, other)
		}
		names[j.Config.Name] = name
		r, err := ask(t, j)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		pictures := 0
		for _, q := range j.Config.Questions {
			pictures += len(q.Pictures)
		}
		if j.Config.Pair {
			pictures *= 2
		}
		if shown != pictures || !(r.Score01 >= 0 && r.Score01 <= 1) {
			t.Errorf("%s: %d pictures shown, want %d; score %v", name, shown, pictures, r.Score01)
		}
	}
}

// TestWithoutScore: a judge that names a class, or only returns numbers, is not a scorer.
func TestWithoutScore(t *testing.T) {
	for _, c := range []struct {
		judge, answer string
		want          any // nil: the answer cannot be read
	}{
		{"aim/emotion", `{"emotion": "awe", "confidence": 0.9, "reasoning": "so"}`, "awe"},
		{"aim/emotion", `{"emotion": "joy"}`, nil},
		{"aim/emotion", `{"emotion": "Awe"}`, nil},
		{"aim/emotion", `{"reasoning": "awe"}`, nil},
		{"aim/vad", `{"valence": 1, "arousal": 5.5, "dominance": 9}`,
			map[string]float64{"valence": 1, "arousal": 5.5, "dominance": 9}},
		{"aim/vad", `{"valence": 0.5, "arousal": 5.5, "dominance": 9}`, nil},
		{"aim/vad", `{"valence": 1, "arousal": 5.5}`, nil},
		{"aim/sc", `{"scores": [7.5, 8], "reason": "so"}`, 7.5},
	} {
		t.Run(c.judge+" "+c.answer, func(t *testing.T) {
			j := open(t, c.judge, always(c.answer), Settings{})
			scores, errs, err := edit.ScoreAll(t.Context(), j, edit.New(plain(1), plain(2), "make it red"))
			if err != nil || (errs[0] == nil) != (c.want != nil) {
				t.Fatalf("got the errors %v, %v, want one: %v", errs[0], err, c.want == nil)
			}
			if got := scores[0].Plain(); c.want != nil && !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if _, err := j.Scorer(1); (err == nil) != j.Config.Scores() {
				t.Errorf("as a scorer: got the error %v, want one: %v", err, !j.Config.Scores())
			}
		})
	}
}

// TestReference: the target serves as the reference of an edit that has none.
func TestReference(t *testing.T) {
	var shown []byte
	m := scripted(func(m []chat.Message, _ chat.Options) (chat.Answer, error) {
		for _, p := range m[0].Content {
			if p.Image != nil {
				shown = append(shown, p.Image.Pix[0])
			}
		}
		return chat.Answer{Text: `{"score": 4, "reason": "so"}`}, nil
	})
	j := open(t, "fed/gta", m, Settings{})
	e := edit.New(plain(1), plain(2), "smile")
	if _, err := j.Ask(t.Context(), e); err == nil || !strings.Contains(err.Error(), `no picture "reference"`) {
		t.Errorf("without one: got the error %v", err)
	}
	e.Set("target", plain(3))
	if r, err := j.Ask(t.Context(), e); err != nil || r.Score != 4 || string(shown) != "\x03\x02" {
		t.Errorf("got %+v (%v) of the pictures %v, want 4 of 3, 2", r, err, shown)
	}
	e.Set("reference", plain(5))
	if _, err := j.Ask(t.Context(), e); err != nil || shown[2] != 5 {
		t.Errorf("got the pictures %v (%v), want 5 third", shown, err)
	}
}

// TestPair: both orders are asked; an edit that wins both is preferred, and a judge that always prefers the first one
// shown prefers none.
func TestPair(t *testing.T) {
	better := func(second bool) string {
		if second {
			return "Image 2 is better"
		}
		return "Image 1 is better."
	}
	for name, c := range map[string]struct {
		second func(first byte) bool // says the second, shown the first
		score  float64
		agree  bool
	}{
		"edit":        {func(first byte) bool { return first == 3 }, 1, true},
		"edit2":       {func(first byte) bool { return first == 2 }, 0, true},
		"first shown": {func(byte) bool { return false }, 0.5, false},
	} {
		m := scripted(func(m []chat.Message, _ chat.Options) (chat.Answer, error) {
			return chat.Answer{Text: better(c.second(m[0].Content[1].Image.Pix[0]))}, nil
		})
		r, err := ask(t, open(t, "unifiedreward-edit/pair", m, Settings{}))
		if err != nil || r.Score != c.score || *r.Agree != c.agree || len(r.Answers) != 2 || !r.Answers[1].Swapped {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestRepeats: an answer that is unreadable or was cut off is requested again with a seed that no pass has.
func TestRepeats(t *testing.T) {
	seeds := map[uint64]int{}
	m := scripted(func(_ []chat.Message, o chat.Options) (chat.Answer, error) {
		seeds[o.Seed]++
		a := chat.Answer{Text: `{"score": [10, 20]}`}
		switch o.Seed {
		case 42, 44:
			a.Text = "no"
		case 43:
			a.Finish = chat.FinishLength
		}
		return a, nil
	})
	r, err := ask(t, open(t, "editscore", m, Settings{Passes: 2}))
	if err != nil || r.Score != 4 {
		t.Fatalf("%v, %v", r, err)
	}
	// pass 0: 42, 44, 46; pass 1: 43, 45; two questions each
	for seed, want := range map[uint64]int{42: 2, 43: 2, 44: 2, 45: 2, 46: 2} {
		if seeds[seed] != want {
			t.Errorf("seed %d is used %d times, want %d", seed, seeds[seed], want)
		}
	}
	if len(r.Answers) != 10 || r.Answers[0].Error == "" || r.Answers[0].Text != "no" {
		t.Errorf("answers: %+v", r.Answers)
	}
}

// TestConfigProblems: all problems of a judge.yaml are reported at once, with their lines.
func TestConfigProblems(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "judge.yaml", `format: 2
kind: texts
name: x
rule: r
questions:
  - name: a
    pictures: [source, edits]
    prompt: a.jinja
    answer:
      object: {score: {list: [a, b]}, c: {choice: {yes: 1}}}
scale: [1, 0]
score: {by: median, of: [a, z]}
score_range: [1]
average: middle
options: {temperature: 0}
passes: 2
`)
	_, err := Open(dir, always(""), Settings{})
	for _, want := range []string{
		"judge.yaml:1:1: format", "kind", "pictures", "range", ".as", "scale", "median", `"z"`, "score_range", "average",
		"passes",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named:\n%v", want, err)
		}
	}
	const classes = `format: 1
kind: text
name: x
rule: r
questions:
  - {name: a, pictures: [edit], prompt: a.jinja, answer: {object: {a: {classes: [b, c]}, d: %s}}}
%s`
	for _, c := range []struct{ name, value, more, want string }{
		{"class and number", "{number: e, range: [0, 1]}", "", "classes: want one such answer"},
		{"two classes", "{classes: [b]}", "", "classes: want one such answer"},
		{"several passes", "{text: true}", "passes: 2", "classes: want one such answer"},
		{"a range of no score", "{text: true}", "score_range: [0, 1]", "score: is required"},
		{"one class", "{text: true}", "", "a.jinja"}, // which is not there
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, dir, "judge.yaml", fmt.Sprintf(classes, c.value, c.more))
			if _, err := Open(dir, always(""), Settings{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := Open("nobody", always(""), Settings{}); err == nil || !strings.Contains(err.Error(), "viescore/1shot") {
		t.Errorf("an unknown name: %v", err)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestReleasedPrompts: prompts are read from a copy of the code; a text that differs from the published one causes a
// warning. The published prompts are looked for in the folders in ASSAY_PROMPTS, as judge=folder.
func TestReleasedPrompts(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "viescore/vie_prompts.py", `_context_no_delimit = """Context"""
_prompts_0shot_two_image_edit_rule = """Rule"""
_prompts_0shot_tie_rule_SC = """Do: <instruction>"""
_prompts_0shot_rule_PQ = "Quality"
`)
	var asked []string
	m := scripted(func(m []chat.Message, _ chat.Options) (chat.Answer, error) {
		asked = append(asked, m[0].Content[len(m[0].Content)-1].Text)
		return chat.Answer{Text: `{"score": [5, 10]}`}, nil
	})
	j := open(t, "viescore", m, Settings{Copy: dir})
	if _, err := ask(t, j); err != nil {
		t.Fatal(err)
	}
	if j.Asks != "altered" || len(j.Warnings) != 1 ||
		!strings.Contains(j.Warnings[0], "2 of 2 prompts of VIEScore are not") ||
		strings.Join(asked, "|") != "Context\nRule\nDo: make it red|Context\nQuality" {
		t.Errorf("%q, warnings %q", asked, j.Warnings)
	}
	if own := open(t, "viescore", m, Settings{}); own.fingerprint == j.fingerprint {
		t.Error("other prompts, the same fingerprint")
	}
	for _, pair := range filepath.SplitList(os.Getenv("ASSAY_PROMPTS")) {
		name, folder, _ := strings.Cut(pair, "=")
		if j := open(t, name, m, Settings{Copy: folder}); len(j.Warnings) > 0 || j.Asks != "published" {
			t.Errorf("%s: %q", name, j.Warnings)
		}
	}
}

// TestAllSources: the role sources shows every source of an edit, each after its caption; a question that shows two
// sources refuses three.
func TestAllSources(t *testing.T) {
	var shown []string
	m := scripted(func(m []chat.Message, _ chat.Options) (chat.Answer, error) {
		shown = nil
		for _, p := range m[0].Content {
			if p.Image != nil {
				shown = append(shown, fmt.Sprint(p.Image.Pix[0]))
			} else {
				shown = append(shown, p.Text)
			}
		}
		return chat.Answer{Text: "3"}, nil
	})
	judge := func(pictures, captions string) *Judge {
		dir := t.TempDir()
		write(t, dir, "a.jinja", "Rate it.")
		write(t, dir, "judge.yaml", `{format: 1, kind: text, name: n, rule: value, questions: [{name: q, prompt: a.jinja,
			pictures: [`+pictures+`], captions: [`+captions+`], answer: {value: {number: v, range: [0, 5]}}}],
			score: {by: mean, of: [v]}, score_range: [0, 5]}`)
		return open(t, dir, m, Settings{})
	}
	e := &edit.Edit{Sources: []edit.Picture{plain(1), plain(2), plain(3)}, Output: plain(9), Instruction: "x"}
	all := judge("sources, edit", `"Image {n}:", "Edit:"`)
	if info := all.Info(); info.Sources != edit.Any {
		t.Errorf("got a judge of %d sources, want any number", info.Sources)
	}
	if _, err := all.Ask(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(shown, " "), "Image 1: 1 Image 2: 2 Image 3: 3 Edit: 9 Rate it."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	two := judge("source, source2, edit", `"a", "b", "c"`)
	const want = "the edit has 3 sources, and this judge looks at 2"
	if _, err := two.Ask(t.Context(), e); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}

// TestTableOfSources: a list of sources fills the roles of a question.
func TestTableOfSources(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a.png", "b.png", "c.png"} {
		if err := plain(byte(i + 1)).WritePNG(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "t.jsonl", `{"sources": ["a.png", "b.png"], "edit": "c.png", "instruction": "x"}
{"sources": ["a.png", "b.png", "a.png"], "edit": "c.png", "instruction": "x"}
`)
	in, err := data.OpenTable(filepath.Join(dir, "t.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	two := []string{"edit", "source", "source2"}
	if e, err := readEdit(in, two, 0); err != nil || len(e.Sources) != 2 {
		t.Errorf("two sources: got %d (%v), want both", len(e.Sources), err)
	}
	const want = "the edit has 3 sources, and this judge looks at 2"
	if _, err := readEdit(in, two, 1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("three sources: got error %v, want one with %q", err, want)
	}
	if e, err := readEdit(in, []string{"edit", "sources"}, 1); err != nil || len(e.Sources) != 3 {
		t.Errorf("all sources: got %d (%v), want 3", len(e.Sources), err)
	}
}
