//go:build !linux

package graceful

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// dropNewConnections only works on Linux. On other systems a connection made while the listener closes may be lost.
func dropNewConnections(context.Context, net.Listener) (dropped bool) { return false }

// sharePort only works on Linux: other kernels do not distribute connections.
func sharePort(string, string, syscall.RawConn) error {
	return errors.New("several servers can share a port only on Linux")
}

func sharesPort(net.Listener) bool { return false }
