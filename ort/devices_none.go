//go:build !cuda

package ort

import "errors"

// Devices lists the CUDA devices of this machine. It needs the build tag cuda.
func Devices() ([]Device, error) {
	return nil, errors.New("this binary cannot list CUDA devices: build it with -tags cuda (it then needs NVIDIA's driver to start)")
}
