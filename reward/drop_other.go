//go:build !linux

package reward

import (
	"context"
	"net"
)

// holdOff is for Linux. Elsewhere a connection that is made while the listener is closed may be lost.
func holdOff(context.Context, net.Listener) {}
