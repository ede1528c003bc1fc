package scoring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/table"
)

// redJudge scores an edit by the red of its first pixel, 0..1, and counts its calls.
type redJudge struct {
	print  string
	asked  int
	cancel func() // called by the first batch; nil: not
}

func (s *redJudge) Info() edit.Info              { return edit.Info{Range: edit.Range{0, 10}, Sources: 1} }
func (s *redJudge) Fingerprint() (string, error) { return s.print, nil }
func (s *redJudge) Close() error                 { return nil }

// red is the inputs of the judge.
type red float64

func (red) Size(edit.Inputs) int { return 1 }

func (s *redJudge) Prepare(e *edit.Edit) (edit.Inputs, error) {
	if strings.TrimSpace(e.Instruction) == "" {
		return nil, errors.New("the instruction is empty")
	}
	p, err := edit.Decode(e.Output)
	if err != nil {
		return nil, fmt.Errorf("edit: %w", err)
	}
	return red(float32(p.Pix[0]) / 255), nil
}

func (s *redJudge) Score(_ context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	s.asked += len(inputs)
	scores := make([]edit.Score, len(inputs))
	for i, in := range inputs {
		scores[i].Value = float64(in.(red))
		s.Info().Range.Scale(&scores[i])
	}
	if s.cancel != nil {
		s.cancel()
	}
	return scores, make([]error, len(inputs)), nil
}

// options returns the options of a table.
func options(in, out string) Options { return Options{Options: table.Options{In: in, Out: out}} }

// writePicture writes a picture of one colour.
func writePicture(t *testing.T, path string, red byte) {
	t.Helper()
	p := data.NewPicture(4, 4)
	for i := 0; i < len(p.Pix); i += 3 {
		p.Pix[i] = red
	}
	if err := p.WritePNG(path); err != nil {
		t.Fatal(err)
	}
}

// writeTable writes a table of six edits of one source, the fourth of which is missing.
func writeTable(t *testing.T) (in string) {
	t.Helper()
	dir := t.TempDir()
	writePicture(t, filepath.Join(dir, "source.png"), 0)
	var b strings.Builder
	for i := range 6 {
		name := fmt.Sprintf("edit%d.png", i)
		if i != 3 {
			writePicture(t, filepath.Join(dir, name), byte(51*i))
		}
		fmt.Fprintf(&b, `{"id": "%d", "source": "source.png", "edit": %q, "instruction": "more red", "kept": %d}`+"\n", i,
			name, i)
	}
	in = filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(in, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return in
}

// checkScores checks that the scores are the edits' red, and that the missing one has an error.
func checkScores(t *testing.T, out string, changed map[int]float64) {
	t.Helper()
	scored, err := data.OpenTable(out)
	if err != nil {
		t.Fatal(err)
	}
	defer scored.Close()
	scores, err := Read(scored)
	if err != nil || len(scores.Lines) != 6 {
		t.Fatalf("Read = %d rows, %v; want 6", len(scores.Lines), err)
	}
	for i := range 6 {
		want := float64(float32(51*i) / 255)
		if v, ok := changed[i]; ok {
			want = v
		}
		switch line := scores.Lines[i]; {
		case i == 3 && !strings.Contains(line.Error, "edit3.png"):
			t.Errorf("row 3 has the error %q, want edit3.png named", line.Error)
		case i != 3 && (line.Error != "" || line.Value.Score01 != want):
			t.Errorf("row %d: %+v, want %g", i, line, want)
		}
		rec, err := scored.Record(i)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := rec.Get("kept"); fmt.Sprintf("%s", v) != fmt.Sprint(i) {
			t.Errorf("row %d keeps %v", i, v)
		}
	}
}

func TestTable(t *testing.T) {
	in := writeTable(t)
	out, pairs := filepath.Join(filepath.Dir(in), "out.jsonl"), filepath.Join(filepath.Dir(in), "pairs.jsonl")
	last := 0
	o := options(in, out)
	o.Preferences, o.Margin = pairs, 5
	o.Progress = func(done, total int) { last = 10*done + total }
	r, err := Table(context.Background(), &redJudge{}, o)
	if err != nil {
		t.Fatal(err)
	}
	// 10 is above 0, 2 and 4 by more than 5
	if r.Rows != 6 || r.Scored != 5 || r.Failed != 1 || r.Preferences != 3 || last != 66 {
		t.Errorf("%+v, progress %d", r, last)
	}
	checkScores(t, out, nil)
	if _, err := os.Stat(out + ".progress"); !errors.Is(err, os.ErrNotExist) {
		t.Error("the progress is left behind")
	}
	plain, err := data.OpenTable(in)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := Read(plain); !errors.Is(err, ErrNoScores) {
		t.Errorf("a table without scores: %v", err)
	}
}

// TestTableResumes: rows scored before an interruption are not scored again, unless they changed since. A truncated
// line is ignored, and the progress of another scorer is refused.
func TestTableResumes(t *testing.T) {
	in := writeTable(t)
	dir := filepath.Dir(in)
	o := options(in, filepath.Join(dir, "out.jsonl"))
	ctx, cancel := context.WithCancel(context.Background())
	s := &redJudge{print: "a", cancel: cancel}
	_, err := Table(ctx, s, o)
	var stopped *table.InterruptedError
	if !errors.As(err, &stopped) || !errors.Is(err, context.Canceled) || stopped.Done != 5 || s.asked != 5 {
		t.Fatalf("Table = %v after %d edits, want 5 rows kept", err, s.asked)
	}
	f, err := os.OpenFile(stopped.Journal, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"row":2,"of":"`)
	f.Close()
	if _, err := Table(context.Background(), &redJudge{print: "b"}, o); err == nil ||
		!strings.Contains(err.Error(), "another run") {
		t.Errorf("the progress of another scorer: %v", err)
	}
	writePicture(t, filepath.Join(dir, "edit1.png"), 255)
	s = &redJudge{print: "a"}
	r, err := Table(context.Background(), s, o)
	if err != nil || s.asked != 1 || r.Scored != 5 {
		t.Fatalf("%v: %d samples were scored again, want 1", err, s.asked)
	}
	checkScores(t, o.Out, map[int]float64{1: 1})
}

// TestOlderScores: columns of an earlier scorer with other dimensions are copied with a warning, in a table that was
// scored before.
func TestOlderScores(t *testing.T) {
	for name, test := range map[string]struct{ more, want string }{
		"scored before": {`"score01": 0.5, "score_a": 0.5, "sigma": 0.1, "class_b": "good", "label_a": 1`,
			"class_b, score_a, sigma"},
		"never scored":  {`"score_quality": 0.5, "sigma": 0.1`, ""},
		"nothing in it": {`"score01": 0.5, "score_quality": null, "my_score": 2`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, warned := t.TempDir(), ""
			o := options(filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl"))
			writePicture(t, filepath.Join(dir, "a.png"), 9)
			o.Warn = func(text string) { warned = text }
			row := `{"source": "a.png", "edit": "a.png", "instruction": "x", ` + test.more + "}\n"
			if err := os.WriteFile(o.In, []byte(row), 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := Table(t.Context(), &redJudge{print: "a"}, o); err != nil {
				t.Fatal(err)
			}
			want := ""
			if test.want != "" {
				want = o.In + " was scored before, and columns that this scorer does not write are copied: " + test.want
			}
			if warned != want {
				t.Errorf("got warning %q, want %q", warned, want)
			}
		})
	}
}
