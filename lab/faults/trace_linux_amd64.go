package main

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/ptrace"
)

// kinds of faults, with the system calls that they affect.
var kinds = map[string]struct {
	errno unix.Errno // 0: the call does only half of the work
	lasts bool       // all later calls fail as well: a full disk stays full
	calls []uint64
}{
	"ENOSPC": {unix.ENOSPC, true, []uint64{unix.SYS_OPENAT, unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE,
		unix.SYS_MKDIRAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_COPY_FILE_RANGE, unix.SYS_LINKAT}},
	"EMFILE": {unix.EMFILE, false, []uint64{unix.SYS_OPENAT}},
	"EIO": {unix.EIO, false, []uint64{unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FSYNC,
		unix.SYS_FDATASYNC, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_FTRUNCATE, unix.SYS_UNLINKAT,
		unix.SYS_GETDENTS64, unix.SYS_COPY_FILE_RANGE}},
	"EINTR": {unix.EINTR, false, []uint64{unix.SYS_OPENAT, unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_WRITE,
		unix.SYS_PWRITE64, unix.SYS_FSYNC, unix.SYS_FTRUNCATE}},
	"short": {0, false, []uint64{unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_PWRITE64}},
}

// tracer runs a program and makes one of its system calls on files below root fail.
type tracer struct {
	root, kind string
	at         int    // number of the failing call of that kind, from 1; 0: none
	jumps      uint64 // seed of the clock jumps; 0: none, and calls may fail

	calls int    // calls of that kind so far, or clock reads
	hit   string // what failed first
}

// run runs the program to completion.
func (t *tracer) run(ctx context.Context, args, env []string, life time.Duration) (code int, said string, err error) {
	p := ptrace.Program{Args: args, Env: env, Life: life, Call: t.call}
	if t.jumps > 0 {
		p.Call, p.Exec = t.look, hideClock
	}
	return p.Run(ctx)
}

// call inspects a system call before it is made.
func (t *tracer) call(tid int) {
	kind := kinds[t.kind]
	var r unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &r) != nil {
		return
	}
	path := ptrace.Path(tid, &r)
	if !strings.HasPrefix(path, t.root+"/") {
		return
	}
	concerned := false
	for _, nr := range kind.calls {
		concerned = concerned || nr == r.Orig_rax
	}
	if r.Orig_rax == unix.SYS_OPENAT && kind.errno == unix.ENOSPC && r.Rdx&unix.O_CREAT == 0 ||
		kind.errno == 0 && r.Rdx < 2 || !concerned {
		return
	}
	t.calls++
	if t.at == 0 || t.calls != t.at && !(kind.lasts && t.calls > t.at) {
		return
	}
	if t.hit == "" {
		t.hit = ptrace.Names[r.Orig_rax] + " " + strings.TrimPrefix(path, t.root+"/")
	}
	if kind.errno == 0 {
		r.Rdx /= 2
	} else {
		r.Orig_rax, r.Rax = ^uint64(0), uint64(-int64(kind.errno))
	}
	unix.PtraceSetRegs(tid, &r)
}
