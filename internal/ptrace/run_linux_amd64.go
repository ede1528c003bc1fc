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

// Supported tells whether programs can be traced on this system.
const Supported = true

// What strace injects it counts by thread, and a Go program has many: here calls are counted for the whole process.

// Names are the calls at which programs stop, beside looks at the clock that may jump.
var Names = map[uint64]string{unix.SYS_OPEN: "open", unix.SYS_OPENAT: "openat", unix.SYS_CREAT: "creat",
	unix.SYS_READ: "read", unix.SYS_PREAD64: "pread64", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64",
	unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_TRUNCATE: "truncate", unix.SYS_MKDIR: "mkdir", unix.SYS_MKDIRAT: "mkdirat",
	unix.SYS_MKNOD: "mknod", unix.SYS_MKNODAT: "mknodat", unix.SYS_RENAME: "rename", unix.SYS_RENAMEAT: "renameat",
	unix.SYS_RENAMEAT2: "renameat2", unix.SYS_COPY_FILE_RANGE: "copy_file_range", unix.SYS_LINK: "link",
	unix.SYS_LINKAT: "linkat", unix.SYS_SYMLINK: "symlink", unix.SYS_SYMLINKAT: "symlinkat", unix.SYS_FSYNC: "fsync",
	unix.SYS_FDATASYNC: "fdatasync", unix.SYS_UNLINK: "unlink", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_RMDIR: "rmdir",
	unix.SYS_GETDENTS64: "getdents64", unix.SYS_CONNECT: "connect", unix.SYS_SENDTO: "sendto",
	unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDMMSG: "sendmmsg", unix.SYS_BIND: "bind"}

// paths are the numbers of the arguments that are a path, of what is made where there are two, and the folder that it
// begins at. Other calls have a file first.
var paths = map[uint64]struct{ at, folder int }{unix.SYS_OPEN: {0, cwd}, unix.SYS_OPENAT: {1, 0},
	unix.SYS_CREAT: {0, cwd}, unix.SYS_TRUNCATE: {0, cwd}, unix.SYS_MKDIR: {0, cwd}, unix.SYS_MKDIRAT: {1, 0},
	unix.SYS_MKNOD: {0, cwd}, unix.SYS_MKNODAT: {1, 0}, unix.SYS_RENAME: {1, cwd}, unix.SYS_RENAMEAT: {3, 2},
	unix.SYS_RENAMEAT2: {3, 2}, unix.SYS_LINK: {1, cwd}, unix.SYS_LINKAT: {3, 2}, unix.SYS_SYMLINK: {1, cwd},
	unix.SYS_SYMLINKAT: {2, 1}, unix.SYS_UNLINK: {0, cwd}, unix.SYS_UNLINKAT: {1, 0}, unix.SYS_RMDIR: {0, cwd}}

const cwd = -1 // the current folder

// become is what the child does.
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

// run runs the program to its end, on a thread of its own.
func (p *Program) run(ctx context.Context) (code int, said string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
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
				return end, fmt.Errorf("ptrace is not permitted here: %w", err)
			}
		} else {
			pass = p.stopped(tid, status, first)
		}
		seen[tid] = true
		unix.PtraceCont(tid, pass) // an error is that of a thread that is gone
	}
}

// stopped looks at why a thread stopped, and gives the signal that it is to get.
func (p *Program) stopped(tid int, status unix.WaitStatus, first bool) (pass int) {
	switch sig := status.StopSignal(); {
	case sig == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		p.Call(tid)
	case sig == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC && p.Exec != nil:
		p.Exec(tid)
	case sig == unix.SIGTRAP && status.TrapCause() > 0: // a thread began, or the program
	case sig == unix.SIGSTOP && first: // so threads begin
	default:
		return int(sig)
	}
	return 0
}

// Path is the file of a call: of two that it names the one that it makes.
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

// Memory reads so many bytes of a program's memory, or fewer where it ends.
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

// textAt reads a C string of a program.
func textAt(tid int, at uint64) string {
	s, _, _ := bytes.Cut(Memory(tid, at, 4096), []byte{0})
	return string(s)
}
