package ort

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	onnxruntime "github.com/yalue/onnxruntime_go"
)

// shareArena creates the host arena that sessions with LowMemory share. By default every session has its own arena
// and keeps it between runs, so the peaks of all sessions add up.
var shareArena = sync.OnceValue(func() error {
	memory, err := onnxruntime.GetMemoryInfo()
	if err != nil {
		return fmt.Errorf("the shared arena: %w", err)
	}
	const defaults = -1
	config, err := onnxruntime.NewArenaCfg(0, defaults, defaults, defaults)
	if err != nil {
		return fmt.Errorf("the shared arena: %w", err)
	}
	defer config.Destroy()
	if err := onnxruntime.CreateAndRegisterAllocator(memory, config); err != nil {
		return fmt.Errorf("the shared arena: %w", err)
	}
	return nil
})

// arenaRemainder is how much larger than requested a block of a device's arena may be. The rest of a larger block
// stays free, as in PyTorch's allocator. By default ONNX Runtime takes a block of up to twice the size, or 128 MiB
// larger.
const arenaRemainder = 1 << 20

// deviceArena is the arena that all sessions on a CUDA device allocate from, so that the memory of one that does not
// run is there for the others.
type deviceArena struct {
	device   device
	limit    int64 // bytes; 0: none
	sessions int
	closed   bool // a session was closed since the last run
}

var deviceArenas = struct {
	sync.Mutex
	of       map[device]*deviceArena
	first    map[device]int64 // bytes of the first region of the next arena
	register func(d device, open bool, limit, first int64) error
}{of: map[device]*deviceArena{}, first: map[device]int64{}, register: registerArena}

// Regions of a device's arena grow from FirstRegion to MaxRegion bytes by doubling. [ReserveArena] sets another first
// one.
const (
	FirstRegion = 1 << 20
	MaxRegion   = 1 << 30
)

// ReserveArena sizes the first region of a CUDA device's arena so that the arena takes just that many bytes if they
// are needed: this region, and others of a GiB. It applies to the arena that the next session creates, and has no
// effect on an open one.
func ReserveArena(name string, bytes int64) {
	d, ok := cudaDevice(name)
	if !ok {
		return
	}
	if bytes >= 2*MaxRegion { // more than the runtime's int
		bytes = MaxRegion + bytes%MaxRegion
	}
	deviceArenas.Lock()
	defer deviceArenas.Unlock()
	deviceArenas.first[d] = bytes
}

// joinArena counts a session that opens on a device. The first one creates the arena.
func joinArena(d device, limit int64) (*deviceArena, error) {
	deviceArenas.Lock()
	defer deviceArenas.Unlock()
	a := deviceArenas.of[d]
	if a == nil {
		first := cmp.Or(deviceArenas.first[d], FirstRegion)
		delete(deviceArenas.first, d)
		if limit > 0 && first > limit/2 { // the runtime forgets the limit if weights of later sessions exceed it
			first = FirstRegion
		}
		if err := deviceArenas.register(d, true, limit, first); err != nil {
			return nil, err
		}
		a = &deviceArena{device: d, limit: limit}
		deviceArenas.of[d] = a
	}
	if limit != 0 && limit != a.limit {
		return nil, fmt.Errorf("memory_limit is %d bytes, but %v has an open session with %d (0: no limit): set it for all "+
			"sessions with %s=memory_limit=%d", limit, d, a.limit, CUDAEnv, limit)
	}
	a.sessions++
	return a, nil
}

// within returns an error if the weights on the device exceed the limit, of which the runtime knows nothing.
func (a *deviceArena) within(weights int64) error {
	if a == nil || a.limit == 0 || weights <= a.limit {
		return nil
	}
	return fmt.Errorf("the weights of the sessions on %v take %d bytes, more than memory_limit, %d: set a higher limit",
		a.device, weights, a.limit)
}

// refused adds the limit to the runtime's error for a run that would exceed it, which names only what is left.
func (a *deviceArena) refused(err error) error {
	if a == nil || a.limit == 0 || err == nil || !strings.Contains(err.Error(), "Available memory of") {
		return err
	}
	return fmt.Errorf("%w: memory_limit of %v is %d bytes: set a higher limit, or run less", err, a.device, a.limit)
}

// leave is called when a session has been closed. The last one frees the memory; otherwise the next run of another one
// does.
func (a *deviceArena) leave() error {
	if a == nil {
		return nil
	}
	deviceArenas.Lock()
	defer deviceArenas.Unlock()
	a.closed = true
	if a.sessions--; a.sessions > 0 {
		return nil
	}
	delete(deviceArenas.of, a.device)
	return deviceArenas.register(a.device, false, 0, 0)
}

// shrinks reports whether a run should return free memory to the device afterwards.
func (a *deviceArena) shrinks() bool {
	if a == nil {
		return false
	}
	deviceArenas.Lock()
	defer deviceArenas.Unlock()
	was := a.closed
	a.closed = false
	return was
}
