package modeltest

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/oracle"
	"assay/model"
)

// GradientsTogether checks that the gradients of several edits at once are, bit for bit, the gradients of each edit
// alone.
func GradientsTogether(t *testing.T, family, scorer string) {
	oracle.Each(t, func(t *testing.T, folder string) {
		dir := filepath.Join(folder, family)
		s, err := model.OpenScorer(filepath.Join(dir, scorer), model.Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var edits []*edit.Edit
		for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(dir, "cases.json")) {
			source, err := data.Open(filepath.Join(dir, c.Source), data.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			output, err := data.Open(filepath.Join(dir, c.Edited), data.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			edits = append(edits, edit.New(source, output, c.Instruction),
				edit.New(source, output.FlipHorizontal(), c.Instruction),
				edit.New(output, source, c.Instruction))
		}
		TogetherAsAlone(t, s, edits)
	})
}

// TogetherAsAlone requires that edits differentiated together have exactly the scores and gradients of each edit
// alone.
func TogetherAsAlone(t *testing.T, s *model.Scorer, edits []*edit.Edit) {
	t.Helper()
	ctx := context.Background()
	together, err := s.Gradients(ctx, edits)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range edits {
		one, err := s.Gradients(ctx, []*edit.Edit{p})
		if err != nil {
			t.Fatal(err)
		}
		alone := one[0]
		if alone.Score01 != together[i].Score01 {
			t.Errorf("edit %d of %d: score01 %v in a batch, %v alone", i, len(edits), together[i].Score01, alone.Score01)
		}
		same := slices.Equal(alone.Output.Values, together[i].Output.Values)
		for k, g := range alone.Sources {
			same = same && slices.Equal(g.Values, together[i].Sources[k].Values)
		}
		if !same {
			t.Errorf("edit %d of %d: the gradients in a batch differ from the gradients alone", i, len(edits))
		}
	}
}
