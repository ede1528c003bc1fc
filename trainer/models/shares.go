package models

import (
	"assay/trainer/dataset"
)

// Targeter is a model with a text loss.
type Targeter interface {
	Targets(e *dataset.Example) (int, error) // tokens that an example's text loss is over; 0: it has none
}
