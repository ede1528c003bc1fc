package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/trainer/config"
)

// TestWeightedOrder: each row appears in an epoch in proportion to its weight, rounded up or down, in a different
// order each time, independent of the order of access.
func TestWeightedOrder(t *testing.T) {
	weights := []float64{0, 1, 2, 0.5, 4, 1, 0, 3, 0.25, 0.25}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	o := NewOrder(5, make([]string, len(weights)), "rows")
	o.weigh(weights)
	again := NewOrder(5, make([]string, len(weights)), "rows")
	again.weigh(weights)
	total, orders := make([]float64, len(weights)), map[string]bool{}
	const epochs = 400
	for e := range int64(epochs) {
		count := make([]int, len(weights))
		var order []int
		for i := range o.Len() {
			row, _ := o.At(e*o.Len() + i)
			count[row]++
			total[row]++
			order = append(order, row)
		}
		orders[fmt.Sprint(order)] = true
		for row, n := range count {
			share := float64(len(weights)) * weights[row] / sum
			if float64(n) < math.Floor(share) || float64(n) > math.Ceil(share) {
				t.Fatalf("epoch %d has row %d %d times, its share is %g", e, row, n, share)
			}
		}
	}
	for at := epochs*o.Len() - 1; at >= 0; at -= 7 {
		a, _ := o.At(at)
		if b, _ := again.At(at); a != b {
			t.Fatalf("position %d: row %d, another time %d", at, a, b)
		}
	}
	for row, n := range total {
		if share := float64(len(weights)) * weights[row] / sum; !(math.Abs(n/epochs-share) <= 0.1) {
			t.Errorf("row %d came %g times an epoch, its share is %g", row, n/epochs, share)
		}
	}
	if len(orders) < epochs/2 {
		t.Errorf("%d orders in %d epochs", len(orders), epochs)
	}
}

// TestBalance: rare labels appear as often as others, within groups as well.
func TestBalance(t *testing.T) {
	s := &Samples{}
	for i := range 60 {
		label := []float64{0, 0, 0, 0, 0.5, 1}[i%6]
		s.Rows = append(s.Rows, Row{Group: fmt.Sprint(i / 6), Label: label, weight: float64(1 + i%2),
			Annotations: data.Annotations{Labels: map[string]float64{"": label}}})
	}
	c := config.Default()
	c.Data.Balance = config.ByLabel
	for _, sampling := range []string{"rows", "group"} {
		weights, err := drawWeights(c, s)
		if err != nil {
			t.Fatal(err)
		}
		o := NewOrder(1, s.Groups(), sampling)
		o.weigh(weights)
		count := map[float64]int{}
		n := 100 * o.Len()
		for at := range n {
			row, _ := o.At(at)
			count[s.Rows[row].Label]++
		}
		for _, label := range []float64{0, 0.5, 1} {
			if share := float64(count[label]) / float64(n); !(math.Abs(share-1.0/3) <= 0.05) {
				t.Errorf("%s: label %g has a share of %g", sampling, label, share)
			}
		}
	}
	s.Rows[3].Annotations = data.Annotations{}
	if _, err := drawWeights(c, s); err == nil || !strings.Contains(err.Error(), "has no label") {
		t.Errorf("a row without a label: %v", err)
	}
}

// TestGroupKeys: a name that two tables use means two groups; other names do not change.
func TestGroupKeys(t *testing.T) {
	s := &Samples{
		Rows: []Row{{Group: "a"}, {Group: "b"}, {Group: "b"}, {Group: "a", number: 1}, {Group: "c", number: 1}},
	}
	if got, want := s.groupKeys(), []string{"a\x000", "b", "b", "a\x001", "c"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBalanceOfTables: rows of a small table appear as often as those of a large one.
func TestBalanceOfTables(t *testing.T) {
	s := &Samples{}
	for i := range 60 {
		s.Rows = append(s.Rows, Row{Group: fmt.Sprint(i / 3), number: min(i/6, 1)}) // tables of 6 and of 54 rows
	}
	c := config.Default()
	c.Data.Balance = config.ByTable
	weights, err := drawWeights(c, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, sampling := range []string{"rows", config.WholeGroups} {
		t.Run(sampling, func(t *testing.T) {
			o := NewOrder(1, s.Groups(), sampling)
			o.weigh(weights)
			count := [2]int{}
			n := 100 * o.Len()
			for at := range n {
				unit, _ := o.Unit(at)
				count[s.Rows[o.Units[unit][0]].number]++
			}
			if share := float64(count[0]) / float64(n); !(math.Abs(share-0.5) <= 0.02) {
				t.Errorf("got a share of %g of the small table, want half", share)
			}
		})
	}
}
