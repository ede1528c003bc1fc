package config

import (
	"fmt"
)

// CUDAAuto is the device that is the GPU with the number that a process has on its machine.
const CUDAAuto = "cuda:auto"

// OnDevice is the configuration for one of several processes (0: of one), with the device of the local-th of its
// machine.
func OnDevice(c *Config, processes, local int) *Config {
	here := *c
	here.Ranks = processes
	if c.Device == CUDAAuto {
		here.Device = fmt.Sprintf("cuda:%d", local)
	}
	return &here
}
