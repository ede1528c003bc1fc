package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What strace injects it counts by thread, and a Go program has many: here calls are counted for the whole process.

// tracedArg makes this program install a filter that stops at calls on files, and become another.
const tracedArg = "-become-traced"

// kinds of faults, with the calls that they happen to.
var kinds = map[string]struct {
	errno unix.Errno // 0: the call does half of what it is asked for
	lasts bool       // from that call on: a full disk stays full
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

// pathAt is the number of the argument that is a path; other calls have a file first. It stands behind its folder.
var pathAt = map[uint64]int{unix.SYS_OPENAT: 1, unix.SYS_MKDIRAT: 1, unix.SYS_UNLINKAT: 1, unix.SYS_RENAMEAT: 3,
	unix.SYS_RENAMEAT2: 3, unix.SYS_LINKAT: 3}

var callNames = map[uint64]string{unix.SYS_OPENAT: "openat", unix.SYS_READ: "read", unix.SYS_PREAD64: "pread64",
	unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_MKDIRAT: "mkdirat",
	unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2", unix.SYS_COPY_FILE_RANGE: "copy_file_range",
	unix.SYS_LINKAT: "linkat", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_UNLINKAT: "unlinkat",
	unix.SYS_GETDENTS64: "getdents64"}

// becomeTraced is what the child does.
func becomeTraced(args []string) {
	runtime.LockOSThread()
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the call's number
	for nr := range callNames {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(nr)},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE})
	}
	filter = append(filter, clockFilter...)
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	if err == nil {
		err = unix.Exec(args[0], args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "error: becoming", args[0], err)
	os.Exit(125)
}

// tracer runs a program and makes one of its calls on files below root fail.
type tracer struct {
	root, kind string
	at         int    // of the calls of that kind, from 1; 0: none fails
	jumps      uint64 // how the clock jumps; 0: it does not, and calls may fail

	calls int    // of that kind so far, or looks at the clock
	hit   string // what failed first
}

// run runs the program to its end, on a thread of its own.
func (t *tracer) run(
	ctx context.Context, args, env []string, life time.Duration,
) (code int, said string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		code, said, err = t.follow(ctx, args, env, life)
	}()
	<-done
	return code, said, err
}

func (t *tracer) follow(ctx context.Context, args, env []string, life time.Duration) (int, string, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, "", err
	}
	out, err := os.CreateTemp("", "weather-said")
	if err != nil {
		return 0, "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	child, err := os.StartProcess(self, append([]string{self, tracedArg}, args...), &os.ProcAttr{
		Env: env, Files: []*os.File{nil, out, out}, Sys: &unix.SysProcAttr{Ptrace: true}})
	if err != nil {
		return 0, "", err
	}
	defer after(life, func() { killTree(child.Pid) })()
	defer context.AfterFunc(ctx, func() { killTree(child.Pid) })()
	status, err := t.loop(child.Pid)
	if err != nil {
		child.Kill()
		return 0, "", err
	}
	said, err := os.ReadFile(out.Name())
	if status.Signaled() {
		return -1, string(said), errors.Join(err, ctx.Err())
	}
	return status.ExitStatus(), string(said), errors.Join(err, ctx.Err())
}

// after calls f when so much time went by, but for that in which this process was stopped, as a shell stops a job.
func after(life time.Duration, f func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		for began := time.Duration(0); began < life; began += time.Second {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
		}
		f()
	}()
	return func() { close(done) }
}

// loop lets a stopped process and its threads run, and is there at each call. Other threads of this program have
// processes of their own.
func (t *tracer) loop(pid int) (end unix.WaitStatus, err error) {
	const options = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK |
		unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	seen := map[int]bool{}
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return end, nil
		case err != nil:
			return end, err
		}
		if status.Exited() || status.Signaled() {
			if tid == pid {
				end = status
			}
			continue
		}
		pass := 0
		if first := !seen[tid]; first && tid == pid {
			if err := unix.PtraceSetOptions(pid, options); err != nil {
				return end, fmt.Errorf("ptrace is not permitted here: %w", err)
			}
		} else {
			pass = t.stopped(tid, status, first)
		}
		seen[tid] = true
		unix.PtraceCont(tid, pass) // an error is that of a thread that is gone
	}
}

// stopped looks at why a thread stopped, and gives the signal that it is to get.
func (t *tracer) stopped(tid int, status unix.WaitStatus, first bool) (pass int) {
	switch sig := status.StopSignal(); {
	case sig == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		if t.jumps > 0 {
			t.look(tid)
		} else {
			t.call(tid)
		}
	case sig == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC && t.jumps > 0:
		hideClock(tid)
	case sig == unix.SIGTRAP && status.TrapCause() > 0: // a thread began, or the program
	case sig == unix.SIGSTOP && first: // so threads begin
	default:
		return int(sig)
	}
	return 0
}

// call looks at a call that is about to be made.
func (t *tracer) call(tid int) {
	kind := kinds[t.kind]
	var r unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &r) != nil {
		return
	}
	path, ok := t.target(tid, &r)
	if !ok {
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
		t.hit = callNames[r.Orig_rax] + " " + strings.TrimPrefix(path, t.root+"/")
	}
	if kind.errno == 0 {
		r.Rdx /= 2
	} else {
		r.Orig_rax, r.Rax = ^uint64(0), uint64(-int64(kind.errno))
	}
	unix.PtraceSetRegs(tid, &r)
}

// target is the file of a call, if it is below the root.
func (t *tracer) target(tid int, r *unix.PtraceRegs) (string, bool) {
	args := []uint64{r.Rdi, r.Rsi, r.Rdx, r.R10}
	of := func(fd uint64) string {
		link := fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd))
		if int32(fd) == unix.AT_FDCWD {
			link = fmt.Sprintf("/proc/%d/cwd", tid)
		}
		path, _ := os.Readlink(link)
		return path
	}
	at, named := pathAt[r.Orig_rax]
	path := ""
	switch {
	case named:
		if path = textAt(tid, args[at]); !filepath.IsAbs(path) {
			path = filepath.Join(of(args[at-1]), path)
		}
	case r.Orig_rax == unix.SYS_COPY_FILE_RANGE:
		path = of(args[2])
	default:
		path = of(args[0])
	}
	return path, strings.HasPrefix(path, t.root+"/")
}

// textAt reads a C string of the process.
func textAt(tid int, at uint64) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return ""
	}
	defer f.Close()
	var b [4096]byte
	n, _ := f.ReadAt(b[:], int64(at))
	s, _, _ := bytes.Cut(b[:n], []byte{0})
	return string(s)
}
