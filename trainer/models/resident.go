package models

import (
	"strings"

	"assay/trainer/config"
)

// Resident tells whether parameters and the sums of gradients stay on the device between micro-batches: on a GPU that
// one process trains on. Several ranks add up their micro-batches' gradients in the order of the batch, or as the
// library likes; both are done on the host. A variable for tests.
var Resident = func(c *config.Config) bool { return strings.HasPrefix(c.Device, "cuda") && c.Ranks <= 1 }
