package objective

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/internal/trainer/dataset"
	"assay/losses"
)

// TestRatings: with votes: soft, every rating of an edit is an item; together they weigh as much as a label.
func TestRatings(t *testing.T) {
	label := map[string]float64{"": 0.5}
	part := []dataset.Example{
		{Index: 0, Annotations: data.Annotations{Labels: label, Ratings: []float64{0.25, 0.75}}},
		{Index: 1, Annotations: data.Annotations{Labels: label}},
	}
	for votes, want := range map[string][]losses.Item{
		"": {{Edits: []int{0}, Label: 0.5, Weight: 1}, {Edits: []int{1}, Label: 0.5, Weight: 1}},
		losses.VotesSoft: {{Edits: []int{0}, Label: 0.25, Weight: 0.5}, {Edits: []int{0}, Label: 0.75, Weight: 0.5},
			{Edits: []int{1}, Label: 0.5, Weight: 1}},
	} {
		t.Run(votes, func(t *testing.T) {
			items := New([]losses.Spec{{Kind: "l1", Votes: votes}}, nil).Items(part)
			if d := cmp.Diff([][]losses.Item{want}, items); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestItems: what terms compare in groups with labels of two dimensions.
func TestItems(t *testing.T) {
	label := func(y, q float64) data.Annotations {
		return data.Annotations{Labels: map[string]float64{"": y, "quality": q}, Votes: 3}
	}
	part := []dataset.Example{
		{Index: 0, Annotations: label(0, 1)}, {Index: 1, Annotations: label(0.5, 1)}, {Index: 2, Annotations: label(0.5, 0)},
		{Index: 3, Unit: 1, Annotations: data.Annotations{Ranks: map[string]float64{"": 2}}},
		{Index: 4, Unit: 1, Annotations: data.Annotations{Ranks: map[string]float64{"": 1}}},
	}
	r := &Objective{terms: []losses.Spec{
		{Kind: "l1", Votes: "weight"}, {Kind: "bradley_terry_margin", Scale: 10},
		{Kind: "bradley_terry", Dimension: "quality"},
		{Kind: "plackett_luce"},
	}}
	items := r.Items(part)
	Normalize([][][]losses.Item{items})
	third, quarter, a, b, tie := 1.0/3, 1.0/4, [3]float64{1, 0, 0}, [3]float64{0, 0, 1}, [3]float64{0, 1, 0}
	want := [][]losses.Item{
		{{Edits: []int{0}, Weight: third}, {Edits: []int{1}, Label: 0.5, Weight: third},
			{Edits: []int{2}, Label: 0.5, Weight: third}},
		{
			{Edits: []int{0, 1}, Outcome: b, Margin: 5, Weight: quarter},
			{Edits: []int{0, 2}, Outcome: b, Margin: 5, Weight: quarter},
			{Edits: []int{1, 2}, Outcome: tie, Weight: quarter}, {Edits: []int{3, 4}, Outcome: b, Weight: quarter},
		},
		{
			{Edits: []int{0, 1}, Outcome: tie, Weight: third}, {Edits: []int{0, 2}, Outcome: a, Weight: third},
			{Edits: []int{1, 2}, Outcome: a, Weight: third},
		},
		{{Edits: []int{0, 1, 2}, Ranks: []int{1, 0, 0}, Weight: 0.5}, {Edits: []int{3, 4}, Ranks: []int{1, 0}, Weight: 0.5}},
	}
	if d := cmp.Diff(want, items); d != "" {
		t.Error(d)
	}
}

// TestVotes: with votes: weight the outcome with the most votes counts as often as it has votes. If both sides have
// equally many, and the most, all votes are for a tie.
func TestVotes(t *testing.T) {
	a, tie, b := [3]float64{1, 0, 0}, [3]float64{0, 1, 0}, [3]float64{0, 0, 1}
	for votes, want := range map[[3]float64]losses.Item{
		{3, 2, 1}: {Outcome: a, Weight: 3}, {1, 2, 4}: {Outcome: b, Weight: 4}, {1, 5, 2}: {Outcome: tie, Weight: 5},
		{0, 2, 0}: {Outcome: tie, Weight: 2}, {2, 2, 1}: {Outcome: tie, Weight: 2}, {1, 3, 3}: {Outcome: tie, Weight: 3},
		{2, 2, 2}: {Outcome: tie, Weight: 2}, {3, 0, 3}: {Outcome: tie, Weight: 6}, {3, 1, 3}: {Outcome: tie, Weight: 7},
	} {
		want.Edits = []int{0, 1}
		got := comparisonItem(&losses.Spec{Votes: losses.VotesWeight}, 0, 1, &data.Verdict{Votes: votes, Counted: true})
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%v: want -, got +:\n%s", votes, d)
		}
	}
}
