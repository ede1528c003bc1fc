package ort

import (
	"fmt"
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
