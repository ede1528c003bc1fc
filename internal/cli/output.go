package cli

import (
	"io"
	"sync"
)

// output is stdout, which remembers the first error: what is printed in words is not checked call by call, and a result
// that a full disk swallowed is none.
type output struct {
	mu  sync.Mutex
	to  io.Writer
	err error
}

// Write writes until something fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	var n int
	n, o.err = o.to.Write(p)
	return n, o.err
}

// failed is the first error.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
