//go:build mpi

package mpi

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// lostError reports that a rank has died, or is silent.
type lostError struct {
	Rank   int
	Host   string
	PID    int // of the process that has ended; 0: not known to have ended
	Silent time.Duration
	Doing  string // its last call; "": unknown
}

func (e *lostError) Error() string {
	if e.PID > 0 {
		text := fmt.Sprintf("rank %d (%s) has died: process %d has ended", e.Rank, e.Host, e.PID)
		if e.Doing != "" {
			text += "; last reported: " + e.Doing
		}
		return text
	}
	return fmt.Sprintf("rank %d (%s) has been silent for %v, it died or hangs; last reported: %s", e.Rank, e.Host,
		e.Silent.Round(time.Second), e.Doing)
}

// outOfStepError reports that ranks make different calls.
type outOfStepError struct {
	Rank int // the rank that differs from rank 0
	What string
}

func (e *outOfStepError) Error() string {
	return fmt.Sprintf("rank %d makes a different call than rank 0, which is at: %s", e.Rank, e.What)
}

// silence returns Silence, or the value in the environment.
func silence() (time.Duration, error) {
	text := os.Getenv("ASSAY_MPI_SILENCE")
	if text == "" {
		return Silence, nil
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s > 0) || s > time.Hour.Seconds() {
		return 0, fmt.Errorf("ASSAY_MPI_SILENCE=%s: want seconds, a number above 0 and up to 3600", text)
	}
	return time.Duration(s * float64(time.Second)), nil
}
