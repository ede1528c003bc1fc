package edit_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"assay/data"
	"assay/edit"
)

// TestEachCalls: the calls made for a batch, and their results.
func TestEachCalls(t *testing.T) {
	calls := 0
	half := func(failing ...int) func(context.Context, []int) ([]float64, error) {
		calls = 0
		return func(ctx context.Context, rows []int) (out []float64, err error) {
			calls++
			for _, n := range rows {
				if slices.Contains(failing, n) {
					return nil, errors.New("out of memory")
				}
				out = append(out, float64(n)/2)
			}
			return out, ctx.Err()
		}
	}
	tests := []struct {
		name    string
		failing []int
		calls   int
		good    []bool
		err     bool
	}{
		{"all at once", nil, 1, []bool{true, true, true, true}, false},
		{"one fails", []int{2}, 5, []bool{true, false, true, true}, false},
		{"all fail", []int{1, 2, 3, 4}, 5, []bool{false, false, false, false}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			scores, errs, err := edit.Each(context.Background(), []int{1, 2, 3, 4}, half(tt.failing...))
			if (err != nil) != tt.err || calls != tt.calls {
				t.Errorf("%d calls, %v; want %d, an error: %v", calls, err, tt.calls, tt.err)
			}
			for i, good := range tt.good {
				if (errs[i] == nil) != good || good && scores[i] != float64(i+1)/2 {
					t.Errorf("row %d: %v, %v; want it to be good: %v", i, scores[i], errs[i], good)
				}
			}
		})
	}
	t.Run("one row alone", func(t *testing.T) {
		if _, errs, err := edit.Each(context.Background(), []int{1}, half(1)); err != nil || errs[0] == nil || calls != 1 {
			t.Errorf("Each = %v, %v after %d calls, want an error of the row after one", errs, err, calls)
		}
	})
	t.Run("ended", func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		if _, _, err := edit.Each(ctx, []int{1, 2}, half()); err == nil {
			t.Error("Each = nil, want the context's error")
		}
	})
	t.Run("short", func(t *testing.T) {
		short := func(context.Context, []int) ([]float64, error) { return []float64{1}, nil }
		if _, errs, err := edit.Each(context.Background(), []int{1, 2}, short); err != nil || errs[0] != nil {
			t.Errorf("Each = %v, %v, want two results, asked for one by one", errs, err)
		}
	})
}

// TestPairSize: a pair counts its decoded pictures, the source once; files do not count.
func TestPairSize(t *testing.T) {
	picture := func(n int) *data.Picture { return &data.Picture{Width: 4, Height: n, Pix: make([]byte, 16*n)} }
	source := picture(1)
	p := edit.Pair{edit.New(source, picture(2), ""), edit.New(source, picture(3), "")}
	if got := p.Size(nil); got != 4*6 {
		t.Errorf("Size = %d, want %d", got, 4*6)
	}
	if p[1].Output = (data.File{}); p.Size(nil) != 4*3 {
		t.Errorf("Size with a file = %d, want %d", p.Size(nil), 4*3)
	}
}
