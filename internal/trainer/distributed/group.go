package distributed

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"assay/internal/exit"
	"assay/internal/trainer/config"
)

// Ranks are the processes that train together, all with the same options; mpi.World implements it. The collective
// methods (Gather to Sum) are called by all ranks in the same order.
type Ranks interface {
	Rank() int
	Size() int
	Local() int      // index of this process on its machine
	Hosts() []string // by rank
	Doing(what string)
	Lost(tell func(error)) // tell is called when a rank has died or hangs, before the job ends

	// Gather returns the data of all ranks to every rank, by rank. what names the call.
	Gather(what string, mine []byte) ([][]byte, error)
	// Deal sends rank k the k-th slice (of Size equal slices) of the values of ranks 0 to first-1, in order
	// (all-to-all).
	Deal(values, slices []float32, first int) error
	// Collect concatenates the slices of all ranks (all-gather).
	Collect(slice, values []float32) error
	// Sum adds up the values of all ranks in any order (all-reduce).
	Sum(values []float32) error
}

// Group is this process among the ranks of a job. All ranks make the same calls in the same order, and get the same
// results.
type Group struct {
	Ranks
	Log *slog.Logger

	cancel context.CancelFunc // ends the run as an interrupt would
	file   *os.File

	values, slices               []float32 // buffers between the gradients and the library
	Computing, Waiting, reducing time.Duration
}

// NewGroup creates the group of this process, with a log file. cancel ends its run as an interrupt would.
func NewGroup(r Ranks, log string, cancel context.CancelFunc) (*Group, error) {
	g := &Group{Ranks: r, cancel: cancel}
	var err error
	if g.file, err = os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666); err != nil {
		return nil, fmt.Errorf("the log of %s: %w", g.name(g.Rank()), err)
	}
	g.Log = slog.New(slog.NewJSONHandler(g.file, nil))
	g.Log.Info("start", "rank", g.Rank(), "ranks", g.Size(), "host", g.Hosts()[g.Rank()], "pid", os.Getpid())
	g.Lost(func(err error) { g.Log.Error(err.Error()) })
	return g, nil
}

// Close logs the error of the run and closes the log.
func (g *Group) Close(err error) {
	if err != nil {
		g.Log.Error(err.Error())
	}
	g.file.Close()
}

// Mine reports whether this process does the i-th of many equal pieces of work.
func (g *Group) Mine(i int) bool { return i%g.Size() == g.Rank() }

func (g *Group) name(rank int) string { return fmt.Sprintf("rank %d (%s)", rank, g.Hosts()[rank]) }

// agreedError is an error that all ranks know of and return.
type agreedError struct{ error }

func (e *agreedError) Unwrap() error { return e.error }

// Agreed reports whether all ranks return this error: then rank 0 reports it, and all ranks exit cleanly. After any
// other error the job has to be aborted.
func Agreed(err error) bool {
	var e *agreedError
	return errors.As(err, &e)
}

// Gather returns the values of all ranks, by rank.
func Gather[T any](g *Group, what string, mine T) ([]T, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(mine); err != nil {
		return nil, err
	}
	all, err := g.Gather(what, b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", g.name(g.Rank()), what, err)
	}
	out := make([]T, len(all))
	for i, raw := range all {
		if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&out[i]); err != nil {
			return nil, fmt.Errorf("the answer of %s to %s: %w", g.name(i), what, err)
		}
	}
	return out, nil
}

// verdict is the result of something on a rank.
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

// Agree turns an error of one rank into an error of all; the lowest rank's wins. An interrupt of one rank interrupts
// all.
func (g *Group) Agree(what string, err error) error {
	if Agreed(err) {
		return err
	}
	g.Doing(what)
	all, failed := Gather(g, what, verdictOf(err))
	if failed != nil {
		return exit.Join(failed, err)
	}
	_, err = g.first(all, err)
	return err
}

// first returns the error of the lowest rank that has one; mine is this process's error.
func (g *Group) first(all []verdict, mine error) (rank int, err error) {
	for i, v := range all {
		switch {
		case v.Text == "":
		case v.Code == exit.Interrupted:
			g.cancel()
			return i, &agreedError{context.Canceled}
		case i == g.Rank():
			return i, &agreedError{g.of(i, mine)}
		case v.Code == exit.Wrong:
			return i, &agreedError{exit.Usage(g.of(i, errors.New(v.Text)))}
		default:
			return i, &agreedError{g.of(i, errors.New(v.Text))}
		}
	}
	return 0, nil
}

// of adds the rank to an error, unless it is rank 0, which reports for all.
func (g *Group) of(rank int, err error) error {
	if rank == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", g.name(rank), err)
}

// Same returns an error if a fact of a process differs from rank 0's.
func (g *Group) Same(what string, facts map[string]string) error {
	all, err := Gather(g, what, facts)
	if err != nil {
		return err
	}
	var problems []error
	for i := 1; i < len(all); i++ {
		for _, d := range unlike(all[0], all[i]) {
			problems = append(problems, fmt.Errorf("%s differs from rank 0 (%s): %s", g.name(i), g.Hosts()[0], d))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &agreedError{exit.Usage(errors.Join(problems...))}
}

// Share sets v, a pointer, to rank 0's value.
func (g *Group) Share(what string, v any) error {
	var text []byte
	if g.Rank() == 0 {
		var err error
		if text, err = json.Marshal(v); err != nil {
			return err
		}
	}
	all, err := g.Gather(what, text)
	if err != nil || g.Rank() == 0 {
		return err
	}
	return json.Unmarshal(all[0], v)
}

// Union adds to a map, given by its address, the entries of the other processes.
func (g *Group) Union(what string, entries any, err error) error {
	if err := g.Agree(what, err); err != nil {
		return err
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	all, err := g.Gather(what, text)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", g.name(g.Rank()), what, err)
	}
	for _, text := range all {
		if err := json.Unmarshal(text, entries); err != nil {
			return err
		}
	}
	return nil
}

// Turn gathers the results of all processes; failed is the rank of an error.
func Turn[T any](g *Group, what string, mine T, err error) (all []T, failed int, _ error) {
	g.Doing(what)
	turns, lost := Gather(g, what, turn[T]{mine, verdictOf(err)})
	if lost != nil {
		return nil, 0, exit.Join(lost, err)
	}
	verdicts := make([]verdict, len(turns))
	for i, t := range turns {
		all, verdicts[i] = append(all, t.Value), t.Failed
	}
	failed, err = g.first(verdicts, err)
	return all, failed, err
}

// turn is a process's result of its turn.
type turn[T any] struct {
	Value  T
	Failed verdict
}

// unlike lists the facts in which two processes differ.
func unlike(zero, other map[string]string) (out []string) {
	all := maps.Clone(zero)
	maps.Copy(all, other)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a, b := zero[name], other[name]
		if a != b {
			out = append(out, fmt.Sprintf("%s: %s there, %s here", name, config.Short(a), config.Short(b)))
		}
	}
	return out
}
