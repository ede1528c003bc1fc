//go:build !linux

package graceful

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// dropNewConnections is for Linux. Elsewhere a connection that is made while the listener closes may be lost.
func dropNewConnections(context.Context, net.Listener) (dropped bool) { return false }

// sharePort is for Linux: elsewhere the kernel does not deal out connections.
func sharePort(string, string, syscall.RawConn) error {
	return errors.New("a port is shared by several servers on Linux only")
}

func sharesPort(net.Listener) bool { return false }
