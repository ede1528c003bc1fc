//go:build !linux

package reward

import (
	"context"
	"net"
)

// dropNewConnections is for Linux. Elsewhere a connection that is made while the listener closes may be lost.
func dropNewConnections(context.Context, net.Listener) (dropped bool) { return false }
