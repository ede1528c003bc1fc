package ort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	onnxruntime "github.com/yalue/onnxruntime_go"
	"gorgonia.org/tensor"

	"assay/onnx"
)

// Options are how a session runs. The zero value runs on the CPU with the runtime's defaults.
type Options struct {
	Device  string // "cpu" (default), "cuda:N", or "auto": cuda:0 if available, else cpu
	Threads int    // per operator on the CPU; 0: one per physical core
	Folder  string // that locations of external initializers are relative to

	// LowMemory keeps no packed copies of the weights, does not plan memory ahead, and allocates from one arena that
	// all such sessions of the process share. A training step has about half the peak and takes the same time;
	// sessions that run in turn use the same memory. Scoring many small inputs is faster without it.
	LowMemory bool
	// Prepack keeps packed copies of the weights despite LowMemory.
	Prepack bool
	// NoArena returns every buffer to the C library at once instead of keeping it for reuse. Within a run the arena
	// uses less memory and is faster; without it less memory is held between runs.
	NoArena bool
	// NoSpin makes idle worker threads sleep at once, which helps if several sessions share the cores. [SpinEnv] sets
	// it for all sessions of a process.
	NoSpin bool

	CUDA CUDAOptions // for a CUDA device

	// Bound are the names of inputs and outputs of the model's own types: views, or arrays, which for half precision
	// have its bits as uint16. Outputs have views or room: see [Session.RunWith].
	Bound map[string]bool

	Optimize Optimization
	Profile  string // prefix of a JSON trace of every node's time, written by Close; "": none
}

// Optimization is the level of graph rewriting that ONNX Runtime may apply when a graph is opened.
type Optimization int

// The levels; the zero value lets the runtime do all it can.
const (
	OptimizeAll Optimization = iota
	OptimizeExtended
	OptimizeBasic
	OptimizeNothing
)

var optimizations = map[Optimization]onnxruntime.GraphOptimizationLevel{
	OptimizeAll:      onnxruntime.GraphOptimizationLevelEnableAll,
	OptimizeExtended: onnxruntime.GraphOptimizationLevelEnableExtended,
	OptimizeBasic:    onnxruntime.GraphOptimizationLevelEnableBasic,
	OptimizeNothing:  onnxruntime.GraphOptimizationLevelDisableAll,
}

// Session is a model that is ready to run. It is safe for concurrent use.
type Session struct {
	name    string
	device  string
	inputs  []port
	outputs []port
	id      string // cache key; see KeepEnv

	mu      sync.RWMutex // held for reading by Run, for writing by Close
	s       *onnxruntime.DynamicAdvancedSession
	weights *lease       // of the pool; nil: none
	threads *threads     // of a CUDA device; nil: any
	arena   *deviceArena // of a CUDA device
}

// Error is an error of the runtime, not of what it is given: a session cannot be opened, or a run fails.
type Error struct{ error }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.error }

// Open opens a session for a model. The model is neither modified nor retained.
//
// Graph inputs that are also initializers are constants: remove the initializer to feed a value. An explicit device
// that is not available is an error; there is no silent fallback.
func Open(m *onnx.Model, o Options) (*Session, error) {
	name := m.Name
	name = cmp.Or(name, "model")
	id := identity(m, o)
	if s := takeKept(id); s != nil {
		return s, nil
	}
	s, err := open(m, o)
	if err != nil {
		return nil, &Error{fmt.Errorf("open %s: %w", name, err)}
	}
	s.name, s.id = name, id
	return s, nil
}

// OpenOver is [Open] for a model over the files of a checkpoint, whose folder replaces that of the options. The runtime
// opens them by their names: files that are no longer those that the caller opened are an error.
func OpenOver(
	files interface {
		Folder() string
		Unchanged() error
	}, m *onnx.Model, o Options,
) (*Session, error) {
	o.Folder = files.Folder()
	s, err := Open(m, o)
	if err != nil {
		return nil, err
	}
	if err := files.Unchanged(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func open(m *onnx.Model, o Options) (*Session, error) {
	if _, err := load(); err != nil {
		return nil, err
	}
	a, err := adapt(m, o.Bound)
	if err != nil {
		return nil, err
	}
	s := &Session{inputs: a.inputs, outputs: a.outputs}
	candidates, err := devices(o.Device)
	if err != nil {
		return nil, err
	}
	for _, d := range candidates {
		if err = s.start(&a.Model, d, o); err == nil {
			s.device = d.String()
			return s, nil
		}
	}
	return nil, err
}

// start creates the runtime's session on a device. All sessions of the process on a device share their weights.
func (s *Session) start(model *onnx.Model, d device, o Options) (err error) {
	so, err := sessionOptions(o)
	if err != nil {
		return err
	}
	defer so.Destroy()
	if d != cpu { // its libraries are loaded here
		defer keepSignals()()
		if err := s.onDevice(so, d, o.CUDA); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, s.offDevice())
			}
		}()
	}
	if usesFused(&model.Graph) {
		if err := addFused(so); err != nil {
			return err
		}
	}
	m := *model
	var l *lease
	if o.Folder != "" {
		var on deviceLease
		if d != cpu {
			on, err = shareOn(d, &m, o.Folder)
			if err == nil {
				err = s.arena.within(weightsOn(d))
			}
			if err != nil {
				return errors.Join(fmt.Errorf("device %v: %w", d, err), on.release())
			}
		}
		if l, err = share(&m, o.Folder, d == cpu); err != nil {
			return errors.Join(err, on.release())
		}
		l.device = on
		defer func() {
			if err != nil {
				err = errors.Join(err, l.release())
			}
		}()
		if err := l.addTo(so, d); err != nil {
			return err
		}
	}
	data, err := encode(m, d)
	if err != nil {
		return err
	}
	s.threads.do(func() {
		err = keepFloatMode(func() error {
			s.s, err = onnxruntime.NewDynamicAdvancedSessionWithONNXData(data, inner(s.inputs), inner(s.outputs), so)
			return err
		})
	})
	if err != nil {
		if d != cpu {
			err = fmt.Errorf("device %v: %w", d, err)
		}
		return withoutKernel(err, d)
	}
	l.forget(o.Prepack && d == cpu)
	s.weights = l
	return nil
}

// onDevice makes a CUDA device the first choice of the session, with threads and memory.
func (s *Session) onDevice(so *onnxruntime.SessionOptions, d device, o CUDAOptions) error {
	o, err := o.orEnvironment()
	if err != nil {
		return err
	}
	if err := d.addTo(so, o); err != nil {
		return err
	}
	if s.arena, err = joinArena(d, o.MemoryLimit); err != nil {
		return d.explain(err)
	}
	s.threads = &threads{}
	// weights are exact, and freed with the session
	return errors.Join(so.AddSessionConfigEntry("session.use_device_allocator_for_initializers", "1"),
		so.AddSessionConfigEntry("session.use_env_allocators", "1"))
}

// offDevice releases the threads and memory of a session that is closed.
func (s *Session) offDevice() error {
	s.threads.close()
	err := s.arena.leave()
	s.threads, s.arena = nil, nil
	return err
}

// withoutKernel adds to ONNX Runtime's error for an operator that a device has no kernel for, which names the node but
// not its type, what can be done: on the CPU most operators have none for bfloat16.
func withoutKernel(err error, d device) error {
	if !strings.Contains(err.Error(), "Could not find an implementation for") {
		return err
	}
	return fmt.Errorf("%w: %s has no kernel for this operator in the type of its inputs; store the model in float32, or "+
		"choose another device", err, d)
}

func sessionOptions(o Options) (*onnxruntime.SessionOptions, error) {
	so, err := onnxruntime.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	level, ok := optimizations[o.Optimize]
	if !ok {
		return nil, errors.Join(fmt.Errorf("unknown optimization level %d", o.Optimize), so.Destroy())
	}
	errs := []error{
		so.SetGraphOptimizationLevel(level),
		so.SetLogSeverityLevel(onnxruntime.LoggingLevelFatal), // errors are returned to the caller
		so.SetMemPattern(!o.LowMemory),
		so.SetCpuMemArena(!o.NoArena),
	}
	if o.Threads > 0 {
		errs = append(errs, so.SetIntraOpNumThreads(o.Threads))
	}
	config := func(key, value string) { errs = append(errs, so.AddSessionConfigEntry(key, value)) }
	config(zeroDenormals, "1")
	if o.Folder != "" {
		config("session.model_external_initializers_file_folder_path", o.Folder)
	}
	if o.LowMemory {
		if o.Prepack { // an arena would round up their sizes
			config("session.use_device_allocator_for_initializers", "1")
		} else {
			config("session.disable_prepacking", "1")
		}
		if !o.NoArena {
			errs = append(errs, shareArena())
			config("session.use_env_allocators", "1")
		}
	}
	if o.NoSpin || os.Getenv(SpinEnv) == "0" {
		config("session.intra_op.allow_spinning", "0")
	}
	if o.Profile != "" {
		errs = append(errs, so.EnableProfiling(o.Profile))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, so.Destroy())
	}
	return so, nil
}

// Device returns the device that the session runs on: "cpu" or "cuda:N".
func (s *Session) Device() string { return s.device }

// Inputs returns the declarations of the inputs of Run, in the model's order, with host types: half precision is
// float.
func (s *Session) Inputs() []onnx.ValueInfo { return infos(s.inputs) }

// Outputs returns the declarations of the outputs of Run; see [Session.Inputs].
func (s *Session) Outputs() []onnx.ValueInfo { return infos(s.outputs) }

// Run computes every output from all inputs, by name. Arrays are float32 where the model has float, float16 or
// bfloat16, and of the model's own type otherwise. The caller owns the results. The Data of an array without elements
// must not be called (tensor.Dense panics). A cancelled context stops the run between two nodes; the error is then
// the context's.
func (s *Session) Run(ctx context.Context, in map[string]*tensor.Dense) (map[string]*tensor.Dense, error) {
	return s.RunWith(ctx, in, nil, Views{})
}

// RunWith is Run with preallocated room for some of the outputs, and with inputs and outputs in buffers on the
// session's device. Both are maps by name; outputs in either are not among the results.
//
// Room is an array of the right type and shape that the runtime writes to. It may be an input at the same time if the
// operator that computes the output can work in place. An output that is converted from half precision cannot have
// room.
func (s *Session) RunWith(
	ctx context.Context,
	in, room map[string]*tensor.Dense,
	on Views,
) (out map[string]*tensor.Dense, err error) {
	defer func() {
		if err != nil {
			out = nil
		}
		if cause := context.Cause(ctx); err != nil && (cause == nil || !errors.Is(err, cause)) {
			err = fmt.Errorf("run %s: %w", s.name, err)
		}
	}()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.s == nil {
		return nil, errors.New("the session is closed")
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := s.check(in, on.In); err != nil {
		return nil, err
	}
	inputs := make([]onnxruntime.Value, len(s.inputs))
	outputs := make([]onnxruntime.Value, len(s.outputs))
	defer destroy(inputs)
	defer destroy(outputs)
	for i, p := range s.inputs {
		v, err := p.feed(in[p.name], on.In[p.name])
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", p.name, err)
		}
		inputs[i] = v
	}
	given := 0
	for i, p := range s.outputs {
		v, err := p.room(room[p.name], on.Out[p.name])
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", p.name, err)
		}
		outputs[i] = v
		if room[p.name] != nil || on.Out[p.name] != nil {
			given++
		}
	}
	if given != len(room)+len(on.Out) {
		return nil, fmt.Errorf("room for %d outputs, but the model has only %d of them", len(room)+len(on.Out), given)
	}
	if err := s.call(ctx, inputs, outputs); err != nil {
		return nil, err
	}
	runtime.KeepAlive(in)
	runtime.KeepAlive(room)
	return collect(s.outputs, outputs, func(name string) bool { return room[name] != nil || on.Out[name] != nil })
}

// call runs the session and stops it when the context ends.
func (s *Session) call(ctx context.Context, inputs, outputs []onnxruntime.Value) error {
	ro, err := onnxruntime.NewRunOptions()
	if err != nil {
		return err
	}
	defer ro.Destroy()
	if s.arena.shrinks() {
		arena := fmt.Sprintf("gpu:%d", int(s.arena.device))
		if err := ro.AddRunConfigEntry("memory.enable_memory_arena_shrinkage", arena); err != nil {
			return err
		}
	}
	terminated := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		ro.Terminate()
		close(terminated)
	})
	s.threads.do(func() {
		err = withoutDenormals(func() error { return s.s.RunWithOptions(inputs, outputs, ro) })
	})
	if !stop() {
		<-terminated // ro is in use until then
		if err != nil {
			return context.Cause(ctx)
		}
	}
	if err != nil {
		return &Error{s.arena.refused(err)}
	}
	return nil
}

// check compares the names, types and shapes of the inputs with the model's, and returns all problems.
func (s *Session) check(in map[string]*tensor.Dense, views map[string]*View) error {
	var problems []error
	known := map[string]bool{}
	for _, p := range s.inputs {
		known[p.name] = true
		if err := p.check(in[p.name], views[p.name]); err != nil {
			problems = append(problems, err)
		}
	}
	for _, name := range append(slices.Sorted(maps.Keys(in)), slices.Sorted(maps.Keys(views))...) {
		if !known[name] {
			problems = append(problems,
				fmt.Errorf("there is no input %q: the model's inputs are %s", name, strings.Join(names(s.inputs), ", ")))
		}
	}
	return errors.Join(problems...)
}

// Close waits for the runs in progress and frees the session. Closing twice is fine.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.keep(), s.free())
}
