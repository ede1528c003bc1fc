package modeltest

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"assay/data"
	"assay/internal/oracle"
	"assay/model"
)

// GradientsTogether checks that gradients of many pairs at once are, bit for bit, those of each pair alone.
func GradientsTogether(t *testing.T, family, scorer string) {
	oracle.Each(t, func(t *testing.T, folder string) {
		dir := filepath.Join(folder, family)
		s, err := model.OpenScorer(filepath.Join(dir, scorer), model.Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var pairs []model.Pair
		for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(dir, "cases.json")) {
			source, err := data.Open(filepath.Join(dir, c.Source), data.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			edit, err := data.Open(filepath.Join(dir, c.Edited), data.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			pairs = append(pairs, model.Pair{Source: source, Edit: edit, Instruction: c.Instruction},
				model.Pair{Source: source, Edit: edit.FlipHorizontal(), Instruction: c.Instruction},
				model.Pair{Source: edit, Edit: source, Instruction: c.Instruction})
		}
		TogetherAsAlone(t, s, pairs)
	})
}

// TogetherAsAlone compares the gradients of pairs that are differentiated together with those of each alone.
func TogetherAsAlone(t *testing.T, s *model.Scorer, pairs []model.Pair) {
	t.Helper()
	ctx := context.Background()
	together, err := s.Gradients(ctx, pairs)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range pairs {
		alone, err := s.Gradient(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if alone.Score01 != together[i].Score01 {
			t.Errorf("pair %d of %d: score01 %v among others, %v alone", i, len(pairs), together[i].Score01, alone.Score01)
		}
		if !slices.Equal(alone.Edit.Values, together[i].Edit.Values) ||
			!slices.Equal(alone.Source.Values, together[i].Source.Values) {
			t.Errorf("pair %d of %d: the gradients among others are not those alone", i, len(pairs))
		}
	}
}
