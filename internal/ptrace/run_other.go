//go:build !linux || !amd64

package ptrace

import (
	"context"
	"errors"
)

// Supported reports whether programs can be traced on this system.
const Supported = false

func become([]string) {}

func (p *Program) run(context.Context) (int, string, error) {
	return 0, "", errors.New("programs can be traced only on Linux on amd64")
}
