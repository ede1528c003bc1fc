package textjudge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/chat"
	"assay/edit"
)

// shots writes a table of examples about pictures of one colour each, with the given answers.
func shots(t *testing.T, answers ...string) string {
	t.Helper()
	dir := t.TempDir()
	var lines []string
	for i, answer := range answers {
		name := fmt.Sprintf("%d.png", i)
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = errors.Join(plain(byte(10*i)).EncodePNG(f), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf(`{"messages": [{"role": "user", "content": [{"type": "image", "image": %q}, `+
			`{"type": "text", "text": "statement %d"}]}, {"role": "assistant", "content": %q}]}`, name, i, answer))
	}
	path := filepath.Join(dir, "shots.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFewShot: examples are earlier turns with their own pictures, each answer in turn. A picture of an example stops
// the run.
func TestFewShot(t *testing.T) {
	path := shots(t, "Correct", "Correct", "Correct", "Incorrect", "Incorrect")
	var got []string
	m := scripted(func(m []chat.Message, _ chat.Options) (chat.Answer, error) {
		got = nil
		for _, turn := range m {
			text := turn.Role
			for _, p := range turn.Content {
				if p.Image != nil {
					text += fmt.Sprintf(" %d", p.Image.Pix[0])
				} else if turn.Role == "assistant" || len(p.Text) < 20 {
					text += " " + p.Text
				}
			}
			got = append(got, text)
		}
		return chat.Answer{Text: "Correct"}, nil
	})
	bare := open(t, "esj", m, Settings{})
	j := open(t, "esj", m, Settings{FewShot: path, Examples: 3})
	if a, b := bare.fingerprint, j.fingerprint; a == b {
		t.Error("got the fingerprint of a judge without examples")
	}
	score := func(color byte) error {
		in, err := j.Prepare(edit.New(plain(1), plain(color), "It is sad."))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = j.Score(t.Context(), []edit.Inputs{in})
		return err
	}
	if err := score(99); err != nil {
		t.Fatal(err)
	}
	want := []string{"user 0 statement 0", "assistant Correct", "user 30 statement 3", "assistant Incorrect",
		"user 10 statement 1", "assistant Correct", "user 99"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got the turns %q, want %q", got, want)
	}
	var exam *ExamError
	if err := score(30); !errors.As(err, &exam) || !strings.Contains(exam.Example, "row 4") {
		t.Errorf("got %v for a picture of an example, want an ExamError of row 4", err)
	}
	for what, s := range map[string]Settings{
		"too few examples":            {FewShot: path, Examples: 6},
		"answers that no judge reads": {FewShot: shots(t, "Maybe"), Examples: 1},
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := Open("esj", m, s); err == nil {
				t.Error("got no error")
			}
		})
	}
}

// TestTag: a value in a tag is read if the tag occurs once.
func TestTag(t *testing.T) {
	r, err := OpenReader("esj/cot")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]float64{
		"<think>no</think><answer> Correct </answer>": 1, "<answer>Incorrect</answer>.": 0, "Correct": -1,
		"<answer>Correct": -1, "<answer>Correct</answer><answer>Correct</answer>": -1, "<answer>Maybe</answer>": -1,
	} {
		t.Run(text, func(t *testing.T) {
			got := -1.0
			if numbers, err := r.Read(text); err == nil {
				got = numbers["correct"]
			}
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
