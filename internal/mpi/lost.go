//go:build mpi

package mpi

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// lostError says that a rank has died, or is not heard of any more.
type lostError struct {
	Rank   int
	Host   string
	PID    int // of the process that has ended; 0: that is not known
	Silent time.Duration
	Doing  string // its last call; "": unknown
}

func (e *lostError) Error() string {
	if e.PID > 0 {
		text := fmt.Sprintf("rank %d (%s) has died: process %d has ended", e.Rank, e.Host, e.PID)
		if e.Doing != "" {
			text += "; the last it said: " + e.Doing
		}
		return text
	}
	return fmt.Sprintf("rank %d (%s) has not been heard of for %v, it died or hangs; the last it said: %s", e.Rank, e.Host,
		e.Silent.Round(time.Second), e.Doing)
}

// outOfStepError says that ranks make different calls.
type outOfStepError struct {
	Rank int // which differs from rank 0
	What string
}

func (e *outOfStepError) Error() string {
	return fmt.Sprintf("rank %d is elsewhere in the program than rank 0, which is at: %s", e.Rank, e.What)
}

// silence is Silence, or what the environment says.
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
