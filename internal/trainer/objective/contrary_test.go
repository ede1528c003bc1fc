package objective

import (
	"reflect"
	"testing"

	"assay/data"
	"assay/internal/trainer/dataset"
	"assay/losses"
)

// TestOneOrder: pairs and orders use the rank, or the label without a rank.
func TestOneOrder(t *testing.T) {
	said := func(label, rank float64) data.Annotations {
		s := data.Annotations{Labels: map[string]float64{}, Ranks: map[string]float64{}}
		if label >= 0 {
			s.Labels[""] = label
		}
		if rank > 0 {
			s.Ranks[""] = rank
		}
		return s
	}
	pairs := &losses.Spec{Kind: "bradley_terry_margin", Scale: 10}
	orders := &losses.Spec{Kind: "plackett_luce"}
	win, tie, loss := [3]float64{1, 0, 0}, [3]float64{0, 1, 0}, [3]float64{0, 0, 1}
	for _, test := range []struct {
		a, b    data.Annotations
		outcome [3]float64
		margin  float64
		ranks   []int
	}{
		{said(0.75, 1), said(0.25, 2), win, 5, []int{0, 1}},
		{said(0.25, 2), said(0.75, 1), loss, 5, []int{1, 0}},
		{said(0.5, 1), said(0.5, 2), win, 0, []int{0, 1}},
		{said(0.75, 1), said(0.25, 1), tie, 0, []int{0, 0}},
		{said(0.25, 0), said(0.75, 1), loss, 5, []int{1, 0}},
		{said(0.25, 0), said(0.25, 0), tie, 0, []int{0, 0}},
		{said(-1, 4), said(-1, 2.5), loss, 0, []int{1, 0}},
	} {
		part := []dataset.Example{{Index: 0, Annotations: test.a}, {Index: 1, Annotations: test.b}}
		p, o := (&Objective{}).pairItems(pairs, part, 0, 2), orderItems(orders, part, 0, 2)
		if len(p) != 1 || p[0].Outcome != test.outcome || p[0].Margin != test.margin {
			t.Errorf("%v and %v: pairs %+v, want outcome %v, margin %g", test.a, test.b, p, test.outcome, test.margin)
		}
		if len(o) != 1 || !reflect.DeepEqual(o[0].Ranks, test.ranks) {
			t.Errorf("%v and %v: orders %+v, want %v", test.a, test.b, o, test.ranks)
		}
	}
	both := []dataset.Example{{Annotations: said(0.5, 0)}, {Index: 1, Annotations: said(-1, 1)}}
	if p := (&Objective{}).pairItems(pairs, both, 0, 2); len(p) != 0 {
		t.Errorf("a label and a rank are compared: %+v", p)
	}
}
