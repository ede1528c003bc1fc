//go:build !linux || !amd64

package ptrace

import (
	"context"
	"errors"
)

// Supported tells whether programs can be traced here.
const Supported = false

func become([]string) {}

func (p *Program) run(context.Context) (int, string, error) {
	return 0, "", errors.New("programs are traced on Linux on amd64 only")
}
