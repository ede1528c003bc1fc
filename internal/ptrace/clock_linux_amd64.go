package ptrace

import "golang.org/x/sys/unix"

// clockFilter stops at reads of the wall clock, which may jump, but not of the monotonic clock.
var clockFilter = []unix.SockFilter{
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: unix.SYS_CLOCK_GETTIME},
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // the first argument
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.CLOCK_REALTIME},
	{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE},
}
