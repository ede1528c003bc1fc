// Package graceful runs HTTP servers that lose no request when they shut down.
//
// Closing a port, or a connection that waits for its next request, loses requests in flight. So a server that shuts
// down drops new connections in the kernel (drop_linux.go), accepts the ones in the listener's queue (door.go),
// answers requests on open connections, and closes these when they have been idle for a while (serve.go).
package graceful

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// idlePeriod is how long a connection must be idle before the shutdown closes it, so that requests in flight still
// arrive.
const idlePeriod = 2 * time.Second

// Listen opens an address for [Serve]. It uses plain TCP: the packet filter that Serve needs for the shutdown does
// not work with multipath TCP, which is Go's default.
//
// The address fd:3 is a listening socket, passed as file descriptor 3 by the parent process, which opened it and
// knows its port.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if fd, ok := strings.CutPrefix(address, "fd:"); ok {
		return inherited(fd)
	}
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	return c.Listen(ctx, "tcp", address)
}

// inherited returns the listener of a file descriptor.
func inherited(number string) (net.Listener, error) {
	fd, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("fd:%s: want the number of a file descriptor", number)
	}
	f := os.NewFile(uintptr(fd), "fd:"+number)
	defer f.Close() // FileListener has a duplicate
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("fd:%s: %w", number, err)
	}
	return l, nil
}

// ListenShared is [Listen] on a port that several processes share: the kernel distributes new connections
// (SO_REUSEPORT, on Linux). All processes must belong to one user.
func ListenShared(ctx context.Context, address string) (net.Listener, error) {
	c := net.ListenConfig{Control: sharePort}
	c.SetMultipathTCP(false)
	return c.Listen(ctx, "tcp", address)
}

// Options configure [Serve].
type Options struct {
	Handler   http.Handler
	Cert, Key string                          // TLS files; "": plain HTTP
	Wrap      func(net.Listener) net.Listener // plain HTTP only: wraps the listener; nil: not wrapped
	Drain     time.Duration                   // how long requests may take once ctx has ended
	Ending    func()                          // called when ctx has ended: answers should close connections from then on
}

// Serve answers on l, from [Listen], until ctx ends. Then it accepts no more connections, answers accepted requests
// for at most o.Drain, and returns.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	open := &connections{at: map[net.Conn]connection{}}
	h := &http.Server{
		Handler:           o.Handler,
		ReadHeaderTimeout: 30 * time.Second, // bodies and answers have deadlines of their own
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState:         open.track,
	}
	door := newDoor(l, open)
	failed := make(chan error, 1)
	go func() {
		switch {
		case o.Cert != "":
			failed <- h.ServeTLS(door, o.Cert, o.Key)
		case o.Wrap != nil:
			failed <- h.Serve(o.Wrap(door))
		default:
			failed <- h.Serve(door)
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	o.Ending()
	limit, stop := context.WithTimeout(context.Background(), o.Drain)
	defer stop()
	if dropNewConnections(limit, l) {
		door.shut(limit)
		if sharesPort(l) { // its queue is empty; clients whose SYN was dropped retry at the other processes
			door.leave()
		}
	}
	open.wait(limit)
	if err := h.Shutdown(limit); err != nil {
		return errors.Join(fmt.Errorf("requests were not finished after %v: %w", o.Drain, err), h.Close())
	}
	return nil
}

// connections holds the state of each connection and when it was entered.
type connections struct {
	mu sync.Mutex
	at map[net.Conn]connection
}

type connection struct {
	active bool
	since  time.Time
}

func (c *connections) track(conn net.Conn, state http.ConnState) {
	for { // unwrap to the connection that the listener returned
		if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
			conn = inner.NetConn()
			continue
		}
		break
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.at, conn)
		return
	}
	c.at[conn] = connection{state == http.StateActive, time.Now()}
}

// wait returns when all connections have been idle for idlePeriod, or when ctx ends.
func (c *connections) wait(ctx context.Context) {
	begin := time.Now()
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		if c.idle(begin) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *connections) idle(begin time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.at {
		if o.since.Before(begin) {
			o.since = begin
		}
		if o.active || time.Since(o.since) < idlePeriod {
			return false
		}
	}
	return true
}
