//go:build cuda || gpu

package ort

import (
	"fmt"
	"runtime"

	"gorgonia.org/cu"
)

// Devices lists the CUDA devices of this machine.
func Devices() ([]Device, error) {
	runtime.LockOSThread() // a context belongs to a thread
	defer runtime.UnlockOSThread()
	count, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("count CUDA devices: %w", err)
	}
	list := make([]Device, count)
	for i := range list {
		if list[i], err = describe(i); err != nil {
			return nil, fmt.Errorf("CUDA device %d: %w", i, err)
		}
	}
	return list, nil
}

// describe queries the driver about one device; free memory can only be queried in a context.
func describe(number int) (Device, error) {
	d, err := cu.GetDevice(number)
	if err != nil {
		return Device{}, err
	}
	model, err := d.Name()
	if err != nil {
		return Device{}, err
	}
	context, err := d.MakeContext(cu.SchedAuto)
	if err != nil {
		return Device{}, err
	}
	defer context.Destroy()
	free, total, err := cu.MemInfo()
	if err != nil {
		return Device{}, err
	}
	return Device{Name: device(number).String(), Model: model, Total: total, Free: free}, nil
}
