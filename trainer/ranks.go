package trainer

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"assay/internal/exit"
)

// Ranks are the processes that train together, all with the same options; mpi.World is one. The collective methods
// (Gather to Sum) are called by all ranks in the same order.
type Ranks interface {
	Rank() int
	Size() int
	Local() int      // number of this one among those on its machine
	Hosts() []string // by rank
	Doing(what string)
	Lost(tell func(error)) // tell is called when a rank has died or hangs, before the job ends

	// Gather gives every rank the data of all, by rank. what names the call.
	Gather(what string, mine []byte) ([][]byte, error)
	// Deal gives rank k the k-th slices (of Size equal ones) of the values of the first ranks, in their order.
	Deal(values, slices []float32, first int) error
	// Collect gives every rank the slices of all, one behind the other.
	Collect(slice, values []float32) error
	// Sum adds up the values of all ranks in any order.
	Sum(values []float32) error
}

// RanksDir is the folder of a run directory that has each rank's own log.
const RanksDir = "ranks"

// CUDAAuto is the device that is the GPU with the number that a rank has on its machine.
const CUDAAuto = "cuda:auto"

// ranks is the place of a process among those that train together; nil: it trains alone. What it is asked, all ranks
// ask at the same time; all come to the same answer.
type ranks struct {
	Ranks
	cancel context.CancelFunc // ends the run as an interrupt would
	log    *slog.Logger
	file   *os.File

	round                        []partResult // of the micro-batches at hand
	values, slices               []float32    // between the gradients and the library
	computing, waiting, reducing time.Duration
}

// newRanks gives this process its place, and a log; the options of all but the first rank become silent.
func newRanks(o *Options, cancel context.CancelFunc) (*ranks, error) {
	if o.Ranks == nil || o.Ranks.Size() == 1 {
		return nil, nil
	}
	k := &ranks{Ranks: o.Ranks, cancel: cancel}
	dir := filepath.Join(o.Config.Out, RanksDir)
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		name := filepath.Join(dir, fmt.Sprintf("rank-%04d.log", k.Rank()))
		k.file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("the log of %s: %w", k.name(k.Rank()), err)
	}
	k.log = slog.New(slog.NewJSONHandler(k.file, nil))
	k.log.Info("start", "rank", k.Rank(), "ranks", k.Size(), "host", k.Hosts()[k.Rank()], "pid", os.Getpid())
	k.Lost(func(err error) { k.log.Error(err.Error()) })
	if !k.first() {
		o.Progress, o.Note = nil, nil
		o.Warn = func(text string) { k.log.Warn(text) }
	}
	return k, nil
}

// close ends the log.
func (k *ranks) close(err error) {
	if k == nil {
		return
	}
	if err != nil {
		k.log.Error(err.Error())
	}
	k.file.Close()
}

// first tells the process that writes and speaks for all.
func (k *ranks) first() bool { return k == nil || k.Rank() == 0 }

// mine tells whether the i-th of many equal pieces of work is this process's.
func (k *ranks) mine(i int) bool { return k == nil || i%k.Size() == k.Rank() }

func (k *ranks) name(rank int) string { return fmt.Sprintf("rank %d (%s)", rank, k.Hosts()[rank]) }

// agreedError is one that all ranks know of and return.
type agreedError struct{ error }

func (e *agreedError) Unwrap() error { return e.error }

// Agreed tells whether all ranks return this error: then rank 0 speaks for them, and all leave in an orderly way. After
// any other one the job has to be aborted.
func Agreed(err error) bool {
	var e *agreedError
	return errors.As(err, &e)
}

// gather gives what every rank says.
func gather[T any](k *ranks, what string, mine T) ([]T, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(mine); err != nil {
		return nil, err
	}
	all, err := k.Gather(what, b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", k.name(k.Rank()), what, err)
	}
	out := make([]T, len(all))
	for i, raw := range all {
		if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&out[i]); err != nil {
			return nil, fmt.Errorf("%s said to %s: %w", k.name(i), what, err)
		}
	}
	return out, nil
}

// verdict is how something ended on a rank.
type verdict struct {
	Text string // of the error; "": none
	Code int
}

func verdictOf(err error) (v verdict) {
	if err != nil {
		v = verdict{err.Error(), exit.Code(err)}
		if errors.Is(err, context.Canceled) {
			v.Code = exit.Interrupted
		}
	}
	return v
}

// agree makes the error of one rank that of all: of several that of the lowest. That a rank was interrupted interrupts
// all.
func (k *ranks) agree(what string, err error) error {
	if k == nil {
		return err
	}
	k.Doing(what)
	all, failed := gather(k, what, verdictOf(err))
	if failed != nil {
		return joinErrors(failed, err)
	}
	for i, v := range all {
		switch {
		case v.Text == "":
		case v.Code == exit.Interrupted:
			k.cancel()
			return &agreedError{context.Canceled}
		case i == k.Rank():
			return &agreedError{k.of(i, err)}
		case v.Code == exit.Wrong:
			return &agreedError{exit.Usage(k.of(i, errors.New(v.Text)))}
		default:
			return &agreedError{k.of(i, errors.New(v.Text))}
		}
	}
	return nil
}

// of says which rank an error is of, unless it is the one that speaks for all.
func (k *ranks) of(rank int, err error) error {
	if rank == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", k.name(rank), err)
}

// same refuses a rank for which something is otherwise than for rank 0.
func (k *ranks) same(what string, facts map[string]string) error {
	if k == nil {
		return nil
	}
	all, err := gather(k, what, facts)
	if err != nil {
		return err
	}
	var problems []error
	for i := 1; i < len(all); i++ {
		for _, d := range unlike(all[0], all[i]) {
			problems = append(problems, fmt.Errorf("%s differs from rank 0 (%s): %s", k.name(i), k.Hosts()[0], d))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &agreedError{exit.Usage(errors.Join(problems...))}
}

// share gives every rank what the first one has.
func share[T any](k *ranks, what string, v *T) error {
	if k == nil {
		return nil
	}
	var text []byte
	if k.first() {
		var err error
		if text, err = json.Marshal(v); err != nil {
			return err
		}
	}
	all, err := k.Gather(what, text)
	if err != nil {
		return err
	}
	if k.first() {
		return nil
	}
	return json.Unmarshal(all[0], v)
}

// stopped tells whether the run ends here because some rank was interrupted.
func (r *run) stopped(ctx context.Context) error {
	if r.ranks == nil {
		return ctx.Err()
	}
	return r.ranks.agree(fmt.Sprintf("after step %d", r.state.Step), ctx.Err())
}

// here is the configuration with the device of this process, and the number of processes.
func (k *ranks) here(c *Config) *Config {
	there, local := *c, 0
	if k != nil {
		there.Ranks, local = k.Size(), k.Local()
	}
	if c.Device == CUDAAuto {
		there.Device = fmt.Sprintf("cuda:%d", local)
	}
	return &there
}
