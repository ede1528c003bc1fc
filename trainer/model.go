// Package trainer trains scorers: configuration, order of samples, optimizer, schedule, the loop with its checkpoints and
// metrics, and the head alone in Gorgonia. The model itself is behind an interface.
package trainer

import "gorgonia.org/tensor"

type Param struct {
	Name  string
	Value *tensor.Dense
}
