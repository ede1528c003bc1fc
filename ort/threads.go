package ort

import (
	"runtime"
	"sync"
)

// threads are OS threads for calls of one session. The CUDA provider keeps cuBLAS and cuDNN handles, which have
// workspaces on the device, for every thread that a session was ever opened or run on, and goroutines move between
// threads. So there are only as many as calls at once.
type threads struct {
	mu   sync.Mutex
	idle []chan func() // last used last
}

// do calls f on the thread that was used last of those that are idle, or else on a new one. A nil receiver calls it on
// the goroutine's own. A panic of f is the caller's, who may recover: a server reopens a model whose run panicked.
func (t *threads) do(f func()) {
	if t == nil {
		f()
		return
	}
	calls, done := t.take(), make(chan struct{})
	var panicked any
	calls <- func() {
		defer close(done)
		defer func() { panicked = recover() }()
		f()
	}
	<-done
	t.mu.Lock()
	t.idle = append(t.idle, calls)
	t.mu.Unlock()
	if panicked != nil {
		panic(panicked)
	}
}

func (t *threads) take() chan func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.idle); n > 0 {
		calls := t.idle[n-1]
		t.idle = t.idle[:n-1]
		return calls
	}
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range calls {
			f()
		}
	}()
	return calls
}

// close lets the threads go. No call may be in progress.
func (t *threads) close() {
	if t == nil {
		return
	}
	for _, calls := range t.idle {
		close(calls)
	}
	t.idle = nil
}
