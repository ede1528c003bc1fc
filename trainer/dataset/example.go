package dataset

import (
	"assay/data"
)

// Example is one labelled edit as a model is asked about it.
type Example struct {
	Index            int // among the training or the validation examples
	Row              data.Row
	Base             string   // folder of the table, to which the paths of the row are relative
	Question, Answer string   // templates drawn; [INSTRUCTION] is not yet replaced
	Augment          uint64   // 0: none, else seed of the augmentation
	Contents         Contents // of the pictures, found when the run began; zero: not yet known
	Label            float64  // 0..1

	Conversation *Conversation // of mode text; nil: a labelled edit
	Share        float64       // what its mean text loss counts in its batch, 1 on average; 0: as much as any other's

	Annotations Annotations // all that people said about it; without it Label is all
	Unit        int         // number of its group in the batch
	Group       int         // unit of the order that it is of

	Prepared any // what an Aheader made of it; nil: nothing yet
}

// Labelled tells whether Label is one: what only comparisons speak of has none.
func (e *Example) Labelled() bool {
	if e.Conversation != nil {
		return false
	}
	_, ok := e.Annotations.Labels[""]
	return ok || e.Annotations.none()
}
