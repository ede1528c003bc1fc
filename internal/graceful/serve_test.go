package graceful

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestListenInherited: a listening socket is opened by its file descriptor.
func TestListenInherited(t *testing.T) {
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := own.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), fmt.Sprintf("fd:%d", f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, want := l.Addr().String(), own.Addr().String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	own.Close()
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			c.Close()
		}
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatalf("got %v, want a connection", err)
	}
	c.Close()
	for _, bad := range []string{"fd:", "fd:x", "fd:-1", "fd:65000"} {
		t.Run(bad, func(t *testing.T) {
			if l, err := Listen(t.Context(), bad); err == nil || !strings.Contains(err.Error(), bad) {
				t.Errorf("got %v, %v; want an error with %s", l, err, bad)
			}
		})
	}
}
