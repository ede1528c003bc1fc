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

// Doing notes what this process is at: others say it when nothing is heard of it any more.
func (w *World) Doing(what string) {
	w.doing.Lock()
	w.doing.text = what
	w.doing.Unlock()
}

// heard is what a rank last gave of itself.
type heard struct {
	at   time.Time
	text string
}

// live gives and takes signs of life until Close: rank 0 hears of all, and all of rank 0.
func (w *World) live(limit time.Duration, lost func(error)) {
	defer close(w.stopped)
	every := min(time.Second, limit/8)
	known, before := make([]heard, w.size), time.Now()
	for i := range known {
		known[i] = heard{before, "start"}
	}
	for {
		select {
		case <-w.stop:
			return
		case <-time.After(every):
		}
		now := time.Now()
		if now.Sub(before) > limit/2 { // this process itself was stopped: the others had no chance
			for i := range known {
				known[i].at = now
			}
		}
		before = now
		if err := w.signs(known); err != nil {
			lost(err)
			return
		}
		for i := range known {
			if silent := now.Sub(known[i].at); i != w.rank && (i == 0 || w.rank == 0) && silent > limit {
				lost(&LostError{Rank: i, Host: w.hosts[i], Silent: silent, Doing: known[i].text})
				return
			}
		}
	}
}

// signs sends a sign of life, and takes those that have come.
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
