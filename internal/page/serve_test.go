package page

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// TestListen: only loopback addresses, and what to do about one that is in use.
func TestListen(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "10.0.0.1:0", "example.org:0", "nothing"} {
		t.Run(addr, func(t *testing.T) {
			if l, err := Listen(addr); err == nil || !strings.Contains(err.Error(), "from other machines") {
				t.Errorf("got %v, %v, want an error", l, err)
			}
		})
	}
	l, err := Listen("localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(l.Addr().String()); err == nil || !strings.Contains(err.Error(), "use another address") {
		t.Errorf("an address that is in use: got error %v, want what to do", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, http.NotFoundHandler()) }()
	r, err := http.Get("http://" + l.Addr().String())
	if err != nil || r.StatusCode != http.StatusNotFound {
		t.Errorf("got %v, %v, want the handler's answer", r, err)
	} else {
		r.Body.Close()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve after the end of its context: got error %v, want none", err)
	}
}
