// Package workers calls a function for every index from several goroutines.
package workers

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Do calls f(0) to f(n-1) on all cores.
func Do(n int, f func(i int)) { run(n, runtime.GOMAXPROCS(0), f) }

// Left returns the indices below n that are not done.
func Left(n int, done func(i int) bool) (left []int) {
	for i := range n {
		if !done(i) {
			left = append(left, i)
		}
	}
	return left
}

// Each calls f(0) to f(n-1), at most that many at once, and returns the error of the lowest index. An error does not
// stop the other calls.
func Each(n, most int, f func(i int) error) error {
	var mu sync.Mutex
	var first error
	lowest := n
	run(n, most, func(i int) {
		if err := f(i); err != nil {
			mu.Lock()
			defer mu.Unlock()
			if i < lowest {
				first, lowest = err, i
			}
		}
	})
	return first
}

func run(n, most int, f func(i int)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	var wg sync.WaitGroup
	for range min(most, n) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
