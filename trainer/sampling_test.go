package trainer

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/exit"
)

// TestWeightedOrder: an epoch has each row as often as its share says, rounded up or down, in another order each time,
// whoever asks for which position first.
func TestWeightedOrder(t *testing.T) {
	weights := []float64{0, 1, 2, 0.5, 4, 1, 0, 3, 0.25, 0.25}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	o := newOrder(5, make([]string, len(weights)), "rows")
	o.weigh(weights)
	again := newOrder(5, make([]string, len(weights)), "rows")
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
		if share := float64(len(weights)) * weights[row] / sum; math.Abs(n/epochs-share) > 0.1 {
			t.Errorf("row %d came %g times an epoch, its share is %g", row, n/epochs, share)
		}
	}
	if len(orders) < epochs/2 {
		t.Errorf("%d orders in %d epochs", len(orders), epochs)
	}
}

// TestBalance: labels that are rare come as often as others; within a group too.
func TestBalance(t *testing.T) {
	s := &Samples{}
	for i := range 60 {
		label := []float64{0, 0, 0, 0, 0.5, 1}[i%6]
		s.rows = append(s.rows, sampleRow{group: fmt.Sprint(i / 6), label: label, weight: float64(1 + i%2),
			Said: saidOf(&data.Edit{Row: data.Row{Label: &label}})})
	}
	c := Default()
	c.Data.Balance = byLabel
	for _, sampling := range []string{"rows", "group"} {
		weights, err := drawWeights(c, s)
		if err != nil {
			t.Fatal(err)
		}
		o := newOrder(1, s.Groups(), sampling)
		o.weigh(weights)
		count := map[float64]int{}
		n := 100 * o.Len()
		for at := range n {
			row, _ := o.At(at)
			count[s.rows[row].label]++
		}
		for _, label := range []float64{0, 0.5, 1} {
			if share := float64(count[label]) / float64(n); math.Abs(share-1.0/3) > 0.05 {
				t.Errorf("%s: label %g has a share of %g", sampling, label, share)
			}
		}
	}
	s.rows[3].Said = Said{}
	if _, err := drawWeights(c, s); err == nil || !strings.Contains(err.Error(), "has no label") {
		t.Errorf("a row without a label: %v", err)
	}
}

// weightedRun is a run over rows with weights.
func weightedRun(t *testing.T, extra string) string {
	t.Helper()
	path := writeRun(t, 40, "epochs: 3\ncheckpoint: {steps: 4}\n"+extra)
	table := filepath.Join(filepath.Dir(path), "table.jsonl")
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(mustRead(t, table)), "\n") {
		fmt.Fprintf(&out, "{\"chance\": %d, %s\n", i%4, strings.TrimPrefix(line, "{"))
	}
	if err := os.WriteFile(table, []byte(out.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(mustRead(t, path), "data: {", "data: {weight: chance, ", 1)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWeightColumn draws rows by a column, goes on exactly, and refuses other weights.
func TestWeightColumn(t *testing.T) {
	path := weightedRun(t, "")
	f := newFake()
	train(t, path, f)
	if len(f.seen) == 0 {
		t.Fatal("nothing was seen")
	}
	for _, e := range f.seen {
		var i int
		if _, err := fmt.Sscanf(e.Row.ID, "row%d", &i); err != nil || i%4 == 0 {
			t.Errorf("%s has weight 0", e.Row.ID)
		}
	}
	table := filepath.Join(filepath.Dir(path), "table.jsonl")
	other := strings.Replace(mustRead(t, table), `{"chance": 1, "id": "row1"`, `{"chance": 3, "id": "row1"`, 1)
	if err := os.WriteFile(table, []byte(other), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Train(t.Context(), Options{Config: load(t, path), Factory: newFake().factory})
	if err == nil || !strings.Contains(err.Error(), "row row1 changed") {
		t.Errorf("another weight: %v", err)
	}
	for old, want := range map[string]string{"weight: chance": `there is no column "luck"`} {
		if err := os.WriteFile(path, []byte(strings.Replace(mustRead(t, path), old, "weight: luck", 1)), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Train(t.Context(), Options{Config: load(t, path), Factory: newFake().factory}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestWeightedRunsGoOnExactly: interrupted after any step, a run with weights ends as if it had not been.
func TestWeightedRunsGoOnExactly(t *testing.T) {
	const extra = "validate: {every: 3}\n"
	whole := weightedRun(t, extra)
	train(t, whole, newFake())
	want := outcome(t, whole)
	path := weightedRun(t, extra)
	for stop := 3; ; stop += 4 {
		done, err := trainUntil(t, path, stop)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			break
		}
	}
	if got := outcome(t, path); !slices.Equal(got, want) {
		t.Error("it ended otherwise")
	}
}

// TestGroupKeys: a name that two tables use is two groups; other names stay.
func TestGroupKeys(t *testing.T) {
	s := &Samples{
		rows: []sampleRow{{group: "a"}, {group: "b"}, {group: "b"}, {group: "a", number: 1}, {group: "c", number: 1}},
	}
	if got, want := s.groupKeys(), []string{"a\x000", "b", "b", "a\x001", "c"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// trainUntil goes on with a run and interrupts it after some runs of the model; done says that it came to its end.
func trainUntil(t *testing.T, path string, runs int) (done bool, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := newFake()
	f.steps = func(n int) {
		if n == runs {
			cancel()
		}
	}
	_, err = Train(ctx, Options{Config: load(t, path), Factory: f.factory})
	if exit.Code(err) == exit.Interrupted {
		return false, nil
	}
	return true, err
}
