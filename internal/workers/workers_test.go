package workers

import (
	"fmt"
	"sync/atomic"
	"testing"
)

func TestEach(t *testing.T) {
	for _, most := range []int{1, 3, 100} {
		t.Run(fmt.Sprintf("%d at once", most), func(t *testing.T) {
			var called [40]atomic.Int64
			var now, peak atomic.Int64
			err := Each(len(called), most, func(i int) error {
				peak.Store(max(peak.Load(), now.Add(1)))
				defer now.Add(-1)
				called[i].Add(1)
				if i%10 == 7 {
					return fmt.Errorf("index %d", i)
				}
				return nil
			})
			if err == nil || err.Error() != "index 7" {
				t.Errorf("%d at once: %v, want the error of the lowest index", most, err)
			}
			for i := range called {
				if n := called[i].Load(); n != 1 {
					t.Errorf("%d at once: index %d: got %d calls, want 1", most, i, n)
				}
			}
			if peak.Load() > int64(most) {
				t.Errorf("%d ran at once, at most %d are wanted", peak.Load(), most)
			}
		})
	}
	if err := Each(0, 2, nil); err != nil {
		t.Error(err)
	}
	var sum atomic.Int64
	Do(100, func(i int) { sum.Add(int64(i)) })
	if sum.Load() != 4950 {
		t.Errorf("sum of the indices: got %d, want 4950", sum.Load())
	}
}
