package graceful

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handshakeTime is how long the handshake of a connection may take.
const handshakeTime = 100 * time.Millisecond

// sharePort lets other processes listen on the same port.
func sharePort(_, _ string, raw syscall.RawConn) (err error) {
	e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(e, err)
}

// socketOf returns the socket of a listener; nil if it has none.
func socketOf(l net.Listener) syscall.RawConn {
	t, ok := l.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// sharesPort reports whether other processes may listen on the same port.
func sharesPort(l net.Listener) (shared bool) {
	raw := socketOf(l)
	if raw == nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		v, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT)
		shared = err == nil && v != 0
	})
	return shared
}

// dropNewConnections makes the kernel drop the SYN packets of new connections, and returns when all connections in
// the listener's queue are accepted. A client that connects meanwhile gets no answer, tries again, and is then
// refused. (Closing a listener with connections in its queue would reset them.)
func dropNewConnections(ctx context.Context, l net.Listener) (dropped bool) {
	raw := socketOf(l)
	if raw == nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		const synAck, syn = 0x12, 0x02 // bits of byte 13 of a TCP header
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
			{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: synAck},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: 0},
			{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 16},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program)
	})
	time.Sleep(handshakeTime)
	for ctx.Err() == nil {
		var queued uint32
		raw.Control(func(fd uintptr) {
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				queued = info.Unacked // of a listener: connections not yet accepted
			}
		})
		if queued == 0 {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}
