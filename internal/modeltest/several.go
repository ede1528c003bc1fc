package modeltest

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/model"
	"assay/model/batch"
)

// several compares edits with several sources, some repeated, with transformers: tokens, scores, losses and the
// gradient with respect to pixel_values. It also compares each edit alone with the same edit in batches and in groups
// that share all sources.
func (f Family) several(t *testing.T) {
	f.Cases = [][2]string{{"cases_several.json", "expect_several.safetensors"}}
	t.Run("scores", func(t *testing.T) { each(t, f, openScorer, severalScores) })
	t.Run("losses", func(t *testing.T) {
		open := func(t *testing.T, dir string) *model.Tuner { return openTuner(t, dir, model.TuneOptions{}) }
		each(t, f, open, func(t *testing.T, r *reference, u *model.Tuner) { r.step(t, u) })
	})
	t.Run("gradients", func(t *testing.T) { each(t, f, openScorer, f.severalGradients) })
	t.Run("batch", func(t *testing.T) { f.batch(t, openScorer) })
	t.Run("groups", func(t *testing.T) { each(t, f, openScorer, severalGroups) })
	t.Run("shared gradients", func(t *testing.T) { f.sharedGradients(t, "answer", model.TuneOptions{}) })
	t.Run("numbered", f.numbered)
}

func severalScores(t *testing.T, r *reference, s *model.Scorer) {
	if info := s.Info(); info.Sources != edit.Any {
		t.Errorf("the scorer takes %d sources, want any number", info.Sources)
	}
	sample := r.sample(t, s)
	if !slices.Equal(sample.IDs, r.InputIDs) || sample.ScoreIndex != r.ScoreIndex {
		t.Errorf("tokens differ:\n got %v\nwant %v", sample.IDs, r.InputIDs)
	}
	r.checkSizes(t, sample.Pictures)
	scores, err := s.Score01(context.Background(), []*batch.Sample{sample})
	if err != nil {
		t.Fatal(err)
	}
	checkScore(t, s, scores[0], r)
}

// severalGradients compares the gradient with respect to pixel_values with transformers' gradient, and the gradients
// of the pictures of edits in a batch with those of each edit alone.
func (f Family) severalGradients(t *testing.T, r *reference, s *model.Scorer) {
	sample := r.sample(t, s)
	if r.expect[r.name("d_pixel_values")] != nil {
		f.checkPixelGradient(t, r, s, sample, "d_pixel_values")
	}
	e := r.edit(t)
	one, err := s.Gradients(context.Background(), []*edit.Edit{e})
	if err != nil {
		t.Fatal(err)
	}
	checkScore(t, s, one[0].Score01, r)
	if len(one[0].Sources) != len(e.Sources) {
		t.Fatalf("%d gradients of sources, want %d", len(one[0].Sources), len(e.Sources))
	}
	both := *e
	both.Output = flipped(e.Output)
	both.Sources = slices.Clone(e.Sources)
	last := len(both.Sources) - 1
	both.Sources[last] = flipped(both.Sources[last])
	TogetherAsAlone(t, s, []*edit.Edit{e, &both, edit.New(e.Sources[last], e.Output, e.Instruction)})
	for i, g := range append(slices.Clone(one[0].Sources), one[0].Output) {
		role, p := "edit", e.Output.(*data.Picture)
		if i < len(e.Sources) {
			role, p = edit.SourceRole(i), e.Sources[i].(*data.Picture)
		}
		if g.Width != p.Width || g.Height != p.Height || slices.Max(g.Values) <= 0 {
			t.Errorf("%s: a gradient of %dx%d pixels, want a nonzero one of %dx%d", role, g.Width, g.Height, p.Width, p.Height)
		}
	}
}

func flipped(p edit.Picture) edit.Picture { return p.(*data.Picture).FlipHorizontal() }

// severalGroups scores edits with the same list of sources, all of which are in the common prefix, and one whose last
// source differs: each has the score that it has alone.
func severalGroups(t *testing.T, r *reference, s *model.Scorer) {
	e, rng := r.edit(t), rand.New(rand.NewPCG(1, uint64(r.ID)))
	var edits []*edit.Edit
	for range 5 {
		p := e.Output.(*data.Picture).FlipVertical()
		p.Pix[rng.IntN(len(p.Pix))] ^= 0x55
		edits = append(edits, &edit.Edit{Sources: e.Sources, Output: p, Instruction: e.Instruction})
	}
	samples := prepareAll(t, s, edits)
	rows, apart := s.Rows(samples)
	text := len(r.InputIDs[r.ImageTokens[len(r.ImageTokens)-1]:]) // rows of one edit, without its own picture
	if saved := apart - rows; saved < 4*(text-len(r.InputIDs)+r.firstTokens()) || saved <= 0 {
		t.Errorf("%d rows together, %d one by one: want the sources' %d tokens once", rows, apart, r.firstTokens())
	}
	other := *edits[0]
	other.Sources = slices.Clone(e.Sources)
	other.Sources[len(other.Sources)-1] = flipped(other.Sources[len(other.Sources)-1])
	samples = append(samples, prepareAll(t, s, []*edit.Edit{&other})...)
	together := scoreTogether(t, s, samples)
	if together[5] == together[0] {
		t.Errorf("another last source: got the same score %v, want a different one", together[5])
	}
}

// firstTokens returns the number of tokens of the case's sources.
func (r *reference) firstTokens() (n int) {
	for _, k := range r.ImageTokens[:len(r.ImageTokens)-1] {
		n += k
	}
	return n
}

// numbered checks that a number precedes each picture, or that a template that would move it is refused.
func (f Family) numbered(t *testing.T) {
	f.eachFile(t, func(t *testing.T, rs []*reference) {
		r := rs[0]
		p, err := model.LoadScorerState(r.scorer())
		if err != nil {
			t.Fatal(err)
		}
		usual := openScorer(t, r.scorer())
		p.Config.NumberPictures = "Picture {n}: "
		s, err := model.NewScorer(p, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		got, err := s.Sample(r.edit(t), model.Ask{})
		if err != nil {
			if !strings.Contains(err.Error(), `"Picture 1: " is not before picture 1`) {
				t.Error(err)
			}
			return
		}
		before, err := usual.Sample(r.edit(t), model.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		numbers := (len(got.IDs) - len(before.IDs)) / len(got.Pictures) // tokens of each
		for i, at := range got.Tokens.Pictures {
			if want := before.Tokens.Pictures[i] + (i+1)*numbers; at != want || numbers == 0 {
				t.Errorf("picture %d starts at token %d, want %d", i+1, at, want)
			}
		}
		a, errA := usual.Fingerprint()
		b, errB := s.Fingerprint()
		if errA != nil || errB != nil || a == b {
			t.Errorf("fingerprints %s and %s (%v, %v): want different ones", a, b, errA, errB)
		}
	})
}

// OneSource checks that a scorer for one source refuses an edit with two, with the right error.
func OneSource(t *testing.T, dir string) {
	t.Helper()
	s := openScorer(t, dir)
	p := picture(t, filepath.Join("..", "..", "testdata", "oracle", "images", "coffee.png"))
	e := &edit.Edit{Sources: []edit.Picture{p, p}, Output: p, Instruction: "x"}
	const want = "the edit has 2 sources, and this judge looks at 1"
	if _, err := s.Sample(e, model.Ask{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Sample: got %v, want an error with %q", err, want)
	}
	if _, err := s.Gradients(t.Context(), []*edit.Edit{e}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Gradients: got %v, want an error with %q", err, want)
	}
}
