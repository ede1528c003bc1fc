package outside

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/ptrace"
)

// watch runs a program and records what it does outside of folders.
func watch(ctx context.Context, p ptrace.Program, folders []string) (found []string, code int, said string, err error) {
	w := &watcher{folders: folders, known: map[string]bool{}}
	p.Call = w.call
	code, said, err = p.Run(ctx)
	return w.found, code, said, err
}

type watcher struct {
	folders []string
	known   map[string]bool
	found   []string
}

func (w *watcher) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !w.known[text] {
		w.known[text] = true
		w.found = append(w.found, text)
	}
}

// call inspects a system call that is about to be made.
func (w *watcher) call(tid int) {
	var r unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &r) != nil {
		return
	}
	name := ptrace.Names[r.Orig_rax]
	switch r.Orig_rax {
	case unix.SYS_OPEN, unix.SYS_OPENAT:
		path, flags := ptrace.Path(tid, &r), r.Rsi
		if r.Orig_rax == unix.SYS_OPENAT {
			flags = r.Rdx
		}
		if path == "/etc/resolv.conf" {
			w.note("DNS lookup: it reads %s", path)
		}
		if flags&(unix.O_ACCMODE|unix.O_CREAT) != unix.O_RDONLY {
			w.file(name, path)
		}
	case unix.SYS_CREAT, unix.SYS_TRUNCATE, unix.SYS_MKDIR, unix.SYS_MKDIRAT, unix.SYS_MKNOD, unix.SYS_MKNODAT,
		unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINK, unix.SYS_LINKAT, unix.SYS_SYMLINK,
		unix.SYS_SYMLINKAT, unix.SYS_UNLINK, unix.SYS_UNLINKAT, unix.SYS_RMDIR:
		w.file(name, ptrace.Path(tid, &r))
	case unix.SYS_CONNECT:
		w.address(name, ptrace.Memory(tid, r.Rsi, int(min(r.Rdx, longest))))
	case unix.SYS_SENDTO:
		w.address(name, ptrace.Memory(tid, r.R8, int(min(r.R9, longest))))
	case unix.SYS_SENDMSG:
		w.message(tid, name, r.Rsi)
	case unix.SYS_SENDMMSG:
		const size = 64 // of a struct mmsghdr
		for i := range r.Rdx {
			w.message(tid, name, r.Rsi+i*size)
		}
	}
}

// longest is the maximum size of a socket address.
const longest = 128

// message inspects the address in a message header.
func (w *watcher) message(tid int, name string, header uint64) {
	if b := ptrace.Memory(tid, header, 12); len(b) == 12 {
		at, n := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])
		w.address(name, ptrace.Memory(tid, at, int(min(n, longest))))
	}
}

// file records a file that is created, written or removed outside the folders. Devices and the kernel's own files do
// not count.
func (w *watcher) file(name, path string) {
	if strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/") {
		return
	}
	for _, folder := range w.folders {
		if path == folder || strings.HasPrefix(path, folder+string(filepath.Separator)) {
			return
		}
	}
	w.note("%s %s", name, path)
}

// address records a socket address on another machine, any DNS port, and any Unix socket.
func (w *watcher) address(name string, b []byte) {
	if len(b) < 2 {
		return // no address: the connection has it
	}
	var ip netip.Addr
	switch family := binary.LittleEndian.Uint16(b); {
	case family == unix.AF_INET && len(b) >= 8:
		ip = netip.AddrFrom4([4]byte(b[4:8]))
	case family == unix.AF_INET6 && len(b) >= 24:
		ip = netip.AddrFrom16([16]byte(b[8:24])).Unmap()
	case family == unix.AF_UNIX:
		path, _, _ := strings.Cut(strings.TrimPrefix(string(b[2:]), "\x00"), "\x00")
		w.note("%s %s", name, path)
		return
	default: // netlink or unspecified
		return
	}
	if port := binary.BigEndian.Uint16(b[2:]); !ip.IsLoopback() || port == 53 {
		w.note("%s %s", name, netip.AddrPortFrom(ip, port))
	}
}
