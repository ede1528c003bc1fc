package workers

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestEach(t *testing.T) {
	for _, most := range []int{1, 3, 100} {
		t.Run(fmt.Sprintf("%d at once", most), func(t *testing.T) {
			var called [40]atomic.Int64
			var now, peak atomic.Int64
			err := Each(len(called), most, func(i int) error {
				n := now.Add(1)
				defer now.Add(-1)
				for old := peak.Load(); n > old && !peak.CompareAndSwap(old, n); old = peak.Load() {
				}
				time.Sleep(100 * time.Microsecond) // let others start
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
				t.Errorf("got %d at once, want at most %d", peak.Load(), most)
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

// Three calls run at once, since each waits for the others. All have ended when Each returns.
func TestEachRunsAsManyAsAllowed(t *testing.T) {
	var all sync.WaitGroup
	var ended atomic.Int64
	all.Add(3)
	if err := Each(3, 3, func(int) error {
		all.Done()
		all.Wait()
		time.Sleep(time.Millisecond)
		ended.Add(1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := ended.Load(); n != 3 {
		t.Errorf("got %d ended calls, want 3", n)
	}
}

func TestLeft(t *testing.T) {
	if got := Left(6, func(i int) bool { return i%3 == 0 }); !slices.Equal(got, []int{1, 2, 4, 5}) {
		t.Errorf("got %v, want the indices that are not done: [1 2 4 5]", got)
	}
	if got := Left(2, func(int) bool { return true }); len(got) > 0 {
		t.Errorf("got %v, want none", got)
	}
}
