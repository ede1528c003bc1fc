//go:build mpi

package mpi

/*
#include "calls.h"
*/
import "C"

import (
	"bytes"
	"time"
	"unsafe"
)

// Doing records what this process is doing: other ranks report it if this one falls silent.
func (w *World) Doing(what string) {
	w.doing.Lock()
	w.doing.text = what
	w.doing.Unlock()
}

// Lost sets a function that is called, before the job ends, when a rank has died or is silent.
func (w *World) Lost(tell func(error)) {
	w.doing.Lock()
	w.doing.tell = tell
	w.doing.Unlock()
}

// heard is the last heartbeat of a rank.
type heard struct {
	at   time.Time
	text string
}

// live exchanges heartbeats until Close, and reports the loss of a rank.
func (w *World) live(limit time.Duration, lost func(error)) {
	defer close(w.stopped)
	err := w.listen(limit)
	if err == nil {
		return
	}
	w.doing.Lock()
	tell := w.doing.tell
	w.doing.Unlock()
	if tell != nil {
		tell(err)
	}
	lost(err)
}

// listen returns the loss of a rank, or nil at Close. Rank 0 hears from all ranks, and all ranks from rank 0. Ranks
// on the same machine also detect that a process has ended.
func (w *World) listen(limit time.Duration) error {
	every := min(time.Second, limit/8)
	known, before := make([]heard, w.size), time.Now()
	for i := range known {
		known[i] = heard{before, "start"}
	}
	for {
		select {
		case <-w.stop:
			return nil
		case <-time.After(every):
		}
		now := time.Now()
		if now.Sub(before) > limit/2 { // this process itself was stopped: it could not hear the others
			for i := range known {
				known[i].at = now
			}
		}
		before = now
		err := w.signs(known)
		for i := range known {
			silent, hears := now.Sub(known[i].at), i == 0 || w.rank == 0
			e := &lostError{Rank: i, Host: w.hosts[i], Silent: silent}
			if hears {
				e.Doing = known[i].text
			}
			switch {
			case i == w.rank:
			case w.processes[i].Gone():
				e.PID = w.processes[i].PID
				return e
			case hears && silent > limit:
				return e
			}
		}
		if err != nil {
			return err
		}
	}
}

// signs sends heartbeats, and receives those that have arrived.
func (w *World) signs(known []heard) error {
	w.doing.Lock()
	text := w.doing.text
	w.doing.Unlock()
	mine := make([]byte, C.SIGN)
	copy(mine[:len(mine)-1], text)
	for to := range w.size {
		if to == w.rank || to != 0 && w.rank != 0 {
			continue
		}
		if err := w.call(func() C.int { return C.sign_send(C.int(to), (*C.char)(unsafe.Pointer(&mine[0]))) }); err != nil {
			return err
		}
	}
	for {
		var from C.int
		theirs := make([]byte, C.SIGN)
		err := w.call(func() C.int { return C.sign_take(&from, (*C.char)(unsafe.Pointer(&theirs[0]))) })
		if err != nil || from < 0 {
			return err
		}
		end := bytes.IndexByte(theirs, 0)
		known[from] = heard{time.Now(), string(theirs[:max(0, end)])}
	}
}
