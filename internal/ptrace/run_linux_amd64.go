package ptrace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Supported reports whether programs can be traced on this system.
const Supported = true

// strace counts injected faults per thread, and a Go program has many threads: here calls are counted for the whole
// process.

// Names are the calls at which programs stop, besides reads of the wall clock.
var Names = map[uint64]string{unix.SYS_OPEN: "open", unix.SYS_OPENAT: "openat", unix.SYS_CREAT: "creat",
	unix.SYS_READ: "read", unix.SYS_PREAD64: "pread64", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64",
	unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_TRUNCATE: "truncate", unix.SYS_MKDIR: "mkdir", unix.SYS_MKDIRAT: "mkdirat",
	unix.SYS_MKNOD: "mknod", unix.SYS_MKNODAT: "mknodat", unix.SYS_RENAME: "rename", unix.SYS_RENAMEAT: "renameat",
	unix.SYS_RENAMEAT2: "renameat2", unix.SYS_COPY_FILE_RANGE: "copy_file_range", unix.SYS_LINK: "link",
	unix.SYS_LINKAT: "linkat", unix.SYS_SYMLINK: "symlink", unix.SYS_SYMLINKAT: "symlinkat", unix.SYS_FSYNC: "fsync",
	unix.SYS_FDATASYNC: "fdatasync", unix.SYS_UNLINK: "unlink", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_RMDIR: "rmdir",
	unix.SYS_GETDENTS64: "getdents64", unix.SYS_CONNECT: "connect", unix.SYS_SENDTO: "sendto",
	unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDMMSG: "sendmmsg", unix.SYS_BIND: "bind"}

// paths has the index of the path argument of a call (if there are two paths, the one that is created), and of the
// argument with the folder that the path is relative to. Other calls have a file descriptor first.
var paths = map[uint64]struct{ at, folder int }{unix.SYS_OPEN: {0, cwd}, unix.SYS_OPENAT: {1, 0},
	unix.SYS_CREAT: {0, cwd}, unix.SYS_TRUNCATE: {0, cwd}, unix.SYS_MKDIR: {0, cwd}, unix.SYS_MKDIRAT: {1, 0},
	unix.SYS_MKNOD: {0, cwd}, unix.SYS_MKNODAT: {1, 0}, unix.SYS_RENAME: {1, cwd}, unix.SYS_RENAMEAT: {3, 2},
	unix.SYS_RENAMEAT2: {3, 2}, unix.SYS_LINK: {1, cwd}, unix.SYS_LINKAT: {3, 2}, unix.SYS_SYMLINK: {1, cwd},
	unix.SYS_SYMLINKAT: {2, 1}, unix.SYS_UNLINK: {0, cwd}, unix.SYS_UNLINKAT: {1, 0}, unix.SYS_RMDIR: {0, cwd}}

const cwd = -1 // the working directory

// become runs in the child process.
func become(args []string) {
	runtime.LockOSThread()
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the call's number
	for nr := range Names {
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

// run runs the program until it exits, on its own OS thread.
func (p *Program) run(ctx context.Context) (code int, said string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		code, said, err = p.follow(ctx)
	}()
	<-done
	return code, said, err
}

func (p *Program) follow(ctx context.Context) (int, string, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, "", err
	}
	out, err := os.CreateTemp("", "traced-said")
	if err != nil {
		return 0, "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	child, err := os.StartProcess(self, append([]string{self, becomeArg}, p.Args...), &os.ProcAttr{
		Env: p.Env, Files: []*os.File{nil, out, out}, Sys: &unix.SysProcAttr{Ptrace: true}})
	if err != nil {
		return 0, "", err
	}
	if p.Life > 0 {
		defer after(p.Life, func() { KillTree(child.Pid) })()
	}
	defer context.AfterFunc(ctx, func() { KillTree(child.Pid) })()
	status, err := p.loop(child.Pid)
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

// after calls f when this much time has passed, not counting time in which this process was stopped, as by job
// control of a shell.
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

// loop runs a stopped process and its threads, and handles each stop. It waits only for processes of this thread:
// other threads of this program trace other processes.
func (p *Program) loop(pid int) (end unix.WaitStatus, err error) {
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
				return end, fmt.Errorf("ptrace is not permitted on this system: %w", err)
			}
		} else {
			pass = p.stopped(tid, status, first)
		}
		seen[tid] = true
		unix.PtraceCont(tid, pass) // fails only if the thread is gone
	}
}

// stopped handles the stop of a thread, and returns the signal to deliver to it.
func (p *Program) stopped(tid int, status unix.WaitStatus, first bool) (pass int) {
	switch sig := status.StopSignal(); {
	case sig == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		p.Call(tid)
	case sig == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC && p.Exec != nil:
		p.Exec(tid)
	case sig == unix.SIGTRAP && status.TrapCause() > 0: // a new thread or program
	case sig == unix.SIGSTOP && first: // new threads start like this
	default:
		return int(sig)
	}
	return 0
}

// Path returns the file of a call; if it names two, the one that it creates.
func Path(tid int, r *unix.PtraceRegs) string {
	args := []uint64{r.Rdi, r.Rsi, r.Rdx, r.R10}
	of := func(fd int32) string {
		link := fmt.Sprintf("/proc/%d/fd/%d", tid, fd)
		if fd == unix.AT_FDCWD {
			link = fmt.Sprintf("/proc/%d/cwd", tid)
		}
		path, _ := os.Readlink(link)
		return path
	}
	named, ok := paths[r.Orig_rax]
	switch {
	case !ok && r.Orig_rax == unix.SYS_COPY_FILE_RANGE:
		return of(int32(args[2]))
	case !ok:
		return of(int32(args[0]))
	}
	path := textAt(tid, args[named.at])
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	folder := int32(unix.AT_FDCWD)
	if named.folder != cwd {
		folder = int32(args[named.folder])
	}
	return filepath.Join(of(folder), path)
}

// Memory reads n bytes of a program's memory, or fewer if it ends before.
func Memory(tid int, at uint64, n int) []byte {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, n)
	n, _ = f.ReadAt(b, int64(at))
	return b[:n]
}

// textAt reads a C string from a program's memory.
func textAt(tid int, at uint64) string {
	s, _, _ := bytes.Cut(Memory(tid, at, 4096), []byte{0})
	return string(s)
}
