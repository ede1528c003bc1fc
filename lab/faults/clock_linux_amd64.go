package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Programs read the clock without a system call, from a page that the kernel maps for them (vDSO). The kernel passes
// its address on the stack of a new program. Without it, Go's runtime and the C library fall back to a system call,
// which can be intercepted. LD_PRELOAD, as in libfaketime, does not affect Go's runtime.

// hideClock hides the vDSO from a program that is about to start.
func hideClock(pid int) {
	var r unix.PtraceRegs
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil || unix.PtraceGetRegs(pid, &r) != nil {
		return
	}
	defer memory.Close()
	at := int64(r.Rsp)
	next := func() uint64 {
		var b [8]byte
		if _, err := memory.ReadAt(b[:], at); err != nil {
			return 0
		}
		at += 8
		return binary.LittleEndian.Uint64(b[:])
	}
	at += 8 * int64(next()+1) // arguments and the terminating zero
	for next() != 0 {         // environment
	}
	const sysinfo, ignore = 33, 1 // AT_SYSINFO_EHDR, AT_IGNORE
	for {
		switch key := next(); key {
		case 0:
			return
		case sysinfo:
			memory.WriteAt(binary.LittleEndian.AppendUint64(nil, ignore), at-8)
		}
		next()
	}
}

// look answers a clock read with a time that is right, or wrong by hours, days or years; it changes every quarter of
// a second.
func (t *tracer) look(tid int) {
	var r unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &r) != nil || r.Orig_rax != unix.SYS_CLOCK_GETTIME {
		return
	}
	now := time.Now()
	off := []time.Duration{0, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour, 20000 * time.Hour,
		-100000 * time.Hour}
	slice := uint64(now.UnixMilli()/250) * t.jumps
	now = now.Add(off[(slice>>32)%uint64(len(off))])
	var b []byte
	b = binary.LittleEndian.AppendUint64(b, uint64(now.Unix()))
	b = binary.LittleEndian.AppendUint64(b, uint64(now.Nanosecond()))
	if _, err := unix.PtracePokeData(tid, uintptr(r.Rsi), b); err != nil {
		return
	}
	t.calls++
	r.Orig_rax, r.Rax = ^uint64(0), 0
	unix.PtraceSetRegs(tid, &r)
}
