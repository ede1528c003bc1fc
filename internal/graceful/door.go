package graceful

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// door is a listener that tracks every connection from the moment it is accepted. net/http reports one only when it
// starts to serve it, and would close it unanswered if the server shuts down in between.
type door struct {
	net.Listener
	open   *connections
	once   sync.Once
	shutAt chan struct{} // closed once no more connections are accepted
	closed chan struct{}
	left   func() error
}

func newDoor(l net.Listener, open *connections) *door {
	return &door{Listener: l, open: open, shutAt: make(chan struct{}), closed: make(chan struct{}),
		left: sync.OnceValue(l.Close)}
}

// Accept waits for the next connection. After [door.shut] it waits until the listener is closed.
func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) { // all earlier connections are tracked by now
		d.once.Do(func() { close(d.shutAt) })
		<-d.closed
		return nil, net.ErrClosed
	}
	if err == nil {
		d.open.track(c, http.StateNew)
	}
	return c, err
}

// Close closes the listener.
func (d *door) Close() error {
	select {
	case <-d.closed:
	default:
		close(d.closed)
	}
	return d.left()
}

// leave closes only the listener: the server keeps its connections.
func (d *door) leave() { d.left() }

// shut stops accepting, and returns when every accepted connection is tracked, or when ctx ends. The listener stays
// open: closing it would reset queued connections.
func (d *door) shut(ctx context.Context) {
	l, ok := d.Listener.(*net.TCPListener)
	if !ok || l.SetDeadline(time.Unix(1, 0)) != nil {
		return
	}
	select {
	case <-d.shutAt:
	case <-ctx.Done():
	}
}
