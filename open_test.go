package assay

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/chat"
	"assay/edit"
	"assay/ort"
	"assay/textjudge"
)

// says is a fake model that always gives the same answer.
type says string

func (s says) Chat(context.Context, []chat.Message, chat.Options) (*chat.Answer, error) {
	return &chat.Answer{Text: string(s), Finish: chat.FinishStop}, nil
}
func (says) Fingerprint() string { return "says" }
func (says) Close() error        { return nil }

const numberJudge = `format: 1
kind: text
name: number
rule: its own
about: a number from 0 to 4
questions:
  - name: q
    pictures: [source, edit]
    prompt: q.jinja
    answer: {value: {number: grade, range: [0, 4]}}
score: {by: mean, of: [grade]}
score_range: [0, 4]
`

// TestOpenAny: Open opens every kind of judge, by the name that the command line accepts.
func TestOpenAny(t *testing.T) {
	own := t.TempDir()
	for name, text := range map[string]string{"judge.yaml": numberJudge, "q.jinja": "How good is {{ instruction }}?"} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const viescore = `{"score": [8, 8], "reasoning": "fine"}`
	for _, c := range []struct {
		what, name string
		o          Options
		value      float64 // 0: any
		gradients  bool
		err        string // of Open; "": none
	}{
		{what: "a scorer", name: "backbones/tiny-scorer", gradients: true},
		{what: "a folder of a text judge", name: own, o: Options{Model: says("3")}, value: 3},
		{what: "a file of a text judge", name: filepath.Join(own, "judge.yaml"), o: Options{Model: says("1")}, value: 1},
		{what: "one that ships", name: "viescore", o: Options{Model: says(viescore)}, value: 8},
		{what: "a text judge over a checkpoint", name: own, o: Options{Backbone: "backbones/tiny",
			Settings: textjudge.Settings{Constrained: true}}},
		{what: "a text judge without a model", name: own, err: "Options.Model or Options.Backbone"},
		{what: "a dimension of a text judge", name: own, o: Options{Model: says("3"), Dimension: "quality"},
			err: "Options.Dimension"},
		{what: "a judge of pairs", name: "unifiedreward-edit/pair", o: Options{Model: says("3")}, err: "edit2"},
		{what: "nothing", name: filepath.Join(own, "nowhere"), err: "nowhere"},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.o.Device = "cpu"
			s, err := Open(t.Context(), c.name, c.o)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("got the error %v, want one with %q", err, c.err)
			}
			if err != nil {
				return
			}
			defer s.Close()
			e := readCoffee(t)
			score, err := s.Score(t.Context(), e)
			if err != nil || c.value != 0 && score.Value != c.value {
				t.Errorf("got the score %g (%v), want %g", score.Value, err, c.value)
			}
			for all, err := range s.ScoreAll(t.Context(), each(e)) {
				if err != nil || all.Value != score.Value {
					t.Errorf("ScoreAll: got %g (%v), want %g", all.Value, err, score.Value)
				}
			}
			if _, err := s.Gradient(t.Context(), e); (err == nil) != c.gradients {
				t.Errorf("got the error %v of a gradient, want gradients: %v", err, c.gradients)
			}
		})
	}
}

// TestOpenWithoutRuntime: if there is no ONNX Runtime, Open fails at once. A judge that asks a model elsewhere does
// not need it.
func TestOpenWithoutRuntime(t *testing.T) {
	const child = "ASSAY_TEST_NO_RUNTIME"
	if os.Getenv(child) == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestOpenWithoutRuntime$", "-test.v")
		c.Env = append(os.Environ(), child+"=1", ort.LibraryEnv+"="+filepath.Join(t.TempDir(), "absent"))
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("got %v, want a test that passes\n%s", err, out)
		}
		return
	}
	for _, o := range []Options{{}, {Backbone: "backbones/tiny"}} {
		for _, name := range []string{"backbones/tiny-scorer", "viescore"} {
			if _, err := Open(t.Context(), name, o); err == nil || !strings.Contains(err.Error(), ort.LibraryEnv) {
				t.Errorf("Open(%s, %+v): got the error %v, want one about %s", name, o, err, ort.LibraryEnv)
			}
		}
	}
	s, err := Open(t.Context(), "viescore", Options{Model: says(`{"score": [8, 8]}`)})
	if err != nil {
		t.Fatalf("a judge over a model elsewhere: got %v, want none", err)
	}
	if _, _, err := edit.ScoreAll(t.Context(), s.Judge(), readCoffee(t)); err != nil {
		t.Error(err)
	}
}
