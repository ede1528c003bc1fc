package ort

import (
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestThreads: calls one after another are on the same thread, calls at once on others, which close lets go.
func TestThreads(t *testing.T) {
	before := runtime.NumGoroutine()
	pool := &threads{}
	on := func() (thread int) {
		pool.do(func() { thread = syscall.Gettid() })
		return thread
	}
	first := on()
	for range 100 {
		runtime.Gosched()
		if got := on(); got != first {
			t.Fatalf("a later call: got thread %d, want %d", got, first)
		}
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	seen := map[int]bool{}
	all := make(chan struct{})
	for range 3 {
		group.Go(func() {
			pool.do(func() {
				mu.Lock()
				seen[syscall.Gettid()] = true
				if len(seen) == 3 {
					close(all)
				}
				mu.Unlock()
				<-all
			})
		})
	}
	group.Wait()
	if len(seen) != 3 || !seen[first] || len(pool.idle) != 3 {
		t.Errorf("three calls at once: got threads %v, %d idle, want three with %d", seen, len(pool.idle), first)
	}
	caught := func() (v any) {
		defer func() { v = recover() }()
		pool.do(func() { panic("the runtime") })
		return nil
	}
	if got := caught(); got != "the runtime" || len(pool.idle) != 3 {
		t.Errorf("a call that panics: the caller got %v with %d threads idle, want the panic and 3", got, len(pool.idle))
	}
	pool.close()
	for begin := time.Now(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("after close: got %d goroutines, want %d", runtime.NumGoroutine(), before)
		}
	}
	var none *threads
	ran := false
	none.do(func() { ran = true })
	if none.close(); !ran {
		t.Error("without threads: got no call, want one")
	}
}
