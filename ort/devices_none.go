//go:build !cuda && !gpu

package ort

import "errors"

// Devices lists the CUDA devices of this machine. It needs the build tag gpu (or cuda, if Gorgonia is not in the
// binary).
func Devices() ([]Device, error) {
	return nil, errors.New(
		"this binary cannot list CUDA devices: build one that can with `make cuda` (it needs NVIDIA's driver to start)")
}
