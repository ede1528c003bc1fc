package models

import (
	"assay/trainer/dataset"
)

// Measured is what a model makes of a micro-batch of validation rows.
type Measured struct {
	Scores   []float64         // of scorers
	Text     TextMeasure       // of mode text
	Examples []dataset.Example // what is compared of them, without their pictures
}
