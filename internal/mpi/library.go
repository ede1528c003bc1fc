//go:build mpi

package mpi

/*
#cgo pkg-config: mpi-c
#include "calls.h"
*/
import "C"

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"assay/internal/process"
)

// World is the ranks of the job. Its collective methods must be called by one goroutine at a time, and by all ranks
// in the same order.
type World struct {
	rank, size, local int
	hosts             []string
	processes         []process.ID // by rank

	mu    sync.Mutex // one call of the library at a time
	doing struct {
		sync.Mutex
		text string
		tell func(error) // called when a rank is lost; nil: not set
	}
	stop, stopped chan struct{}
}

// Start joins the job that a launcher started; nil if the process is alone. lost is called once when a rank has died
// or is silent: it should report the error and call [World.Abort].
func Start(lost func(error)) (*World, error) {
	want := launched()
	if want == 0 {
		return nil, nil
	}
	limit, err := silence()
	if err != nil {
		return nil, err
	}
	var rank, size, local C.int
	if err := failure(C.start(&rank, &size, &local)); err != nil {
		return nil, fmt.Errorf("joining the MPI job: %w", err)
	}
	w := &World{rank: int(rank), size: int(size), local: int(local)}
	if want > 1 && w.size == 1 {
		return nil, fmt.Errorf("the launcher started %d processes, but MPI sees each one alone: the launcher belongs to a "+
			"different MPI than this program (srun needs --mpi=pmix; mpirun must be from the same MPI)", want)
	}
	if w.size == 1 {
		return nil, w.Close()
	}
	mine, err := json.Marshal(process.Self())
	if err != nil {
		return nil, err
	}
	all, err := w.Gather("hosts", mine)
	if err != nil {
		return nil, err
	}
	w.processes = make([]process.ID, len(all))
	for i, text := range all {
		if err := json.Unmarshal(text, &w.processes[i]); err != nil {
			return nil, fmt.Errorf("the host of rank %d: %w", i, err)
		}
		w.hosts = append(w.hosts, w.processes[i].Host)
	}
	C.signs_begin(size)
	w.stop, w.stopped = make(chan struct{}), make(chan struct{})
	w.Doing("start")
	go w.live(limit, lost)
	return w, nil
}

// failure converts an error code of the library.
func failure(code C.int) error {
	if code == C.MPI_SUCCESS {
		return nil
	}
	text, n := make([]byte, C.max_text()+1), C.int(0)
	C.describe(code, (*C.char)(unsafe.Pointer(&text[0])), &n)
	return errors.New(string(text[:n]))
}

// Rank returns the rank of this process.
func (w *World) Rank() int { return w.rank }

// Size returns the number of processes.
func (w *World) Size() int { return w.size }

// Local returns the index of this process on its machine.
func (w *World) Local() int { return w.local }

// Hosts returns the host names, by rank.
func (w *World) Hosts() []string { return w.hosts }

// call makes one call to the library.
func (w *World) call(f func() C.int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return failure(f())
}

// wait waits for the pending call to complete. busy means that all ranks have entered the call, so that it completes
// soon; otherwise it may take a long time.
func (w *World) wait(busy bool) error {
	for began := time.Now(); ; {
		var flag C.int
		if err := w.call(func() C.int { return C.done(&flag) }); err != nil || flag != 0 {
			return err
		}
		if since := time.Since(began); busy && since < time.Second || since < 50*time.Microsecond {
			runtime.Gosched()
		} else {
			time.Sleep(min(since/20, 2*time.Millisecond))
		}
	}
}

// collective starts a call, with its memory pinned for the garbage collector, and waits for it.
func (w *World) collective(busy bool, begin func() C.int, memory ...unsafe.Pointer) error {
	var pins runtime.Pinner
	defer pins.Unpin()
	for _, p := range memory {
		if p != nil {
			pins.Pin(p)
		}
	}
	if err := w.call(begin); err != nil {
		return err
	}
	return w.wait(busy)
}

func address[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// Gather returns the data of all ranks to every rank, by rank. what names the call: it is an error if ranks make
// different calls.
func (w *World) Gather(what string, mine []byte) ([][]byte, error) {
	head, heads := make([]byte, 8), make([]byte, 8*w.size)
	binary.LittleEndian.PutUint32(head, uint32(min(len(mine), math.MaxUint32))) // all ranks refuse too many
	binary.LittleEndian.PutUint32(head[4:], crc32.ChecksumIEEE([]byte(what)))
	lengths := func() C.int { return C.gather(address(head), 8, address(heads)) }
	err := w.collective(false, lengths, address(head), address(heads))
	if err != nil {
		return nil, err
	}
	counts, places, sizes := make([]C.int, w.size), make([]C.int, w.size), make([]uint32, w.size)
	for i := range counts {
		if string(heads[8*i+4:8*i+8]) != string(heads[4:8]) {
			return nil, &outOfStepError{i, what}
		}
		sizes[i] = binary.LittleEndian.Uint32(heads[8*i:])
	}
	starts, err := placed(what, sizes)
	if err != nil {
		return nil, err
	}
	total := starts[w.size]
	for i := range counts {
		counts[i], places[i] = C.int(sizes[i]), C.int(starts[i])
	}
	all := make([]byte, total+1) // at least one byte, so that it has an address
	begin := func() C.int {
		return C.gather_parts(address(mine), C.int(len(mine)), address(all), &counts[0], &places[0])
	}
	if err := w.collective(true, begin, address(mine), address(all), address(counts), address(places)); err != nil {
		return nil, err
	}
	out := make([][]byte, w.size)
	for i := range out {
		out[i] = all[places[i] : places[i]+counts[i]]
	}
	return out, nil
}

// Deal sends rank k the k-th slice (of Size equal slices) of the values of ranks 0 to first-1, in order. slices has
// room for first slices; values of the other ranks are not read.
func (w *World) Deal(values, slices []float32, first int) error {
	n := len(slices) / max(1, first)
	var counts [4][]C.int // send counts, send offsets, receive counts, receive offsets
	for i := range counts {
		counts[i] = make([]C.int, w.size)
	}
	for i := range w.size {
		counts[1][i], counts[3][i] = C.int(i*n), C.int(i*n)
		if w.rank < first {
			counts[0][i] = C.int(n)
		}
		if i < first {
			counts[2][i] = C.int(n)
		} else {
			counts[3][i] = 0
		}
	}
	begin := func() C.int {
		return C.deal(address(values), &counts[0][0], &counts[1][0], address(slices), &counts[2][0], &counts[3][0])
	}
	return w.collective(true, begin, address(values), address(slices), address(counts[0]), address(counts[1]),
		address(counts[2]), address(counts[3]))
}

// Collect concatenates the slices of all ranks into values, on every rank.
func (w *World) Collect(slice, values []float32) error {
	begin := func() C.int { return C.collect(address(slice), C.int(len(slice)), address(values)) }
	return w.collective(true, begin, address(slice), address(values))
}

// Sum adds up the values of all ranks, in the library's order.
func (w *World) Sum(values []float32) error {
	begin := func() C.int { return C.sum(address(values), C.int(len(values))) }
	return w.collective(true, begin, address(values))
}

// patience is how long the launcher may take to end a job.
const patience = 5 * time.Second

// Abort ends all processes of the job, this one with the exit code. It waits at most a few seconds for the launcher:
// after a rank has died, Open MPI's launcher only sleeps, for twice its odls_base_sigkill_timeout.
func (w *World) Abort(code int) {
	time.AfterFunc(patience, func() { os.Exit(code) })
	C.end_all(C.int(code))
}

// Close leaves the job cleanly, together with all ranks.
func (w *World) Close() error {
	if w.stop != nil {
		close(w.stop)
		<-w.stopped
		if _, err := w.Gather("the end", nil); err != nil { // no rank exits while others would take that for a crash
			return err
		}
	}
	return w.call(func() C.int { return C.MPI_Finalize() })
}
