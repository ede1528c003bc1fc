//go:build !cuda && !gpu

package ort

import "errors"

// Devices lists the CUDA devices of this machine. It needs the build tag gpu (or cuda, where
// Gorgonia is not in the binary).
func Devices() ([]Device, error) {
	return nil, errors.New(
		"this binary cannot list CUDA devices: `make cuda` builds one that can, and that needs NVIDIA's driver to start")
}
