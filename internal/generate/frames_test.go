package generate

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/oracle"
	"assay/model"
	"assay/model/language"
	"assay/model/text"
)

const knowsFrames = "../../backbones/tiny" // its pairs are two frames of one picture

// framed is a case of tools/oracle/frames.py: transformers' answer about two frames.
type framed struct {
	Pictures []string
	Question string
	NewIDs   []int64 `json:"new_ids"`
	Text     string
	LogProbs []float64 `json:"log_probs"`
}

func eachFramed(t *testing.T, f func(t *testing.T, c *framed, pictures []*data.Picture)) {
	all := oracle.Read[struct{ Cases []framed }](t, filepath.Join("testdata", "frames.json"))
	for i := range all.Cases {
		c := &all.Cases[i]
		t.Run(c.Pictures[1], func(t *testing.T) {
			var pictures []*data.Picture
			for _, name := range c.Pictures {
				p, err := data.Open(filepath.Join("../../testdata/oracle/images", name+".png"), data.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				pictures = append(pictures, p)
			}
			f(t, c, pictures)
		})
	}
}

// TestFrames: two pictures of a message are shown as the frames of one, and the answer matches transformers.
func TestFrames(t *testing.T) {
	m, err := Open(knowsFrames, Options{Pair: model.Frames})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	greedy := chat.Options{Temperature: number(0.0), LogProbs: true}
	eachFramed(t, func(t *testing.T, c *framed, pictures []*data.Picture) {
		question := []chat.Part{{Image: pictures[0]}, {Image: pictures[1]}, {Text: c.Question}}
		a, err := m.Chat(context.Background(), []chat.Message{{Role: "user", Content: question}}, greedy)
		if err != nil {
			t.Fatal(err)
		}
		if a.Text != c.Text || !slices.Equal(a.TokenIDs, c.NewIDs) {
			t.Errorf("got %q, tokens %v, want %q, %v", a.Text, a.TokenIDs, c.Text, c.NewIDs)
		}
		for i, got := range a.LogProbs {
			if want := c.LogProbs[i]; !(math.Abs(got-want) <= 1e-4) {
				t.Errorf("token %d: got log probability %g, want %g", i, got, want)
			}
		}
		_, err = m.Chat(context.Background(), []chat.Message{{Role: "user", Content: question[1:]}}, greedy)
		if want := "1 pictures in a row"; !errors.Is(err, chat.ErrRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("one picture: got error %v, want one of the request with %q", err, want)
		}
	})
}

// TestFramesFingerprint: the fingerprint depends on how pictures are shown.
func TestFramesFingerprint(t *testing.T) {
	prints := map[string]string{}
	for _, pair := range []string{"", model.Sequence, model.Frames} {
		m, err := Open(knowsFrames, Options{Pair: pair})
		if err != nil {
			t.Fatal(err)
		}
		prints[pair] = m.Fingerprint()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if prints[""] != prints[model.Sequence] || prints[""] == prints[model.Frames] {
		t.Errorf("got fingerprints %v, want the first two equal, and another one of frames", prints)
	}
}

// TestFramesRefused: a backbone without frames and a pair mode that messages do not have are refused.
func TestFramesRefused(t *testing.T) {
	for _, c := range []struct{ backbone, pair, want string }{
		{"../../testdata/oracle/llavanext/backbone", model.Frames, `cannot show two pictures as "frames"`},
		{knowsFrames, model.Concat, `pair: "concat": messages show pictures as sequence or frames`},
	} {
		t.Run(c.pair, func(t *testing.T) {
			m, err := Open(c.backbone, Options{Pair: c.pair})
			if err == nil {
				m.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestFramesLearnt: the loss of an answer about two frames matches transformers.
func TestFramesLearnt(t *testing.T) {
	tuner, err := language.NewTuner(knowsFrames, language.TuneOptions{Options: model.Options{Pair: model.Frames}})
	if err != nil {
		t.Fatal(err)
	}
	defer tuner.Close()
	eachFramed(t, func(t *testing.T, c *framed, pictures []*data.Picture) {
		ask := []text.Content{{Image: true}, {Image: true}, {Text: c.Question}}
		messages := []text.Message{{Role: "user", Content: ask}, {Role: "assistant", Content: []text.Content{{Text: c.Text}}}}
		s, err := tuner.Prepare(language.Conversation{Messages: messages, Pictures: []edit.Picture{pictures[0], pictures[1]}})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := tuner.CheckText(messages); err != nil || n != len(c.NewIDs) || n != s.Targets() {
			t.Errorf("got %d tokens to learn, and %d by the text (error %v), want %d", s.Targets(), n, err, len(c.NewIDs))
		}
		one := language.Conversation{Messages: messages[:1], Pictures: []edit.Picture{pictures[0]}}
		if _, err := tuner.Question(one); err == nil {
			t.Error("a prompt about two pictures with one: got no error, want one")
		}
		r, err := tuner.Measure(context.Background(), []*language.TextSample{s})
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for _, p := range c.LogProbs {
			want -= p
		}
		if got := r.Loss[0]; !(math.Abs(got-want) <= 2e-4) {
			t.Errorf("got loss %g, want %g", got, want)
		}
	})
}
