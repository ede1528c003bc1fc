package nn

import (
	"bytes"

	"assay/checkpoints"
)

// Tables returns the names of the embedding table and of the output layer, which is the table itself in a tied
// checkpoint. As in transformers, a checkpoint that stores two different tables is not tied, whatever config.json says.
func (c *TextConfig) Tables(w *checkpoints.Weights, embedding, output string) Keys {
	k := Keys{Embedding: embedding, Output: output}
	if c.Tied && w.Has(output) && !w.Absent() {
		table, err := w.Bytes(embedding)
		second, other := w.Bytes(output)
		c.Tied = err == nil && other == nil && bytes.Equal(table, second)
		k.Twin = output
	}
	if c.Tied {
		k.Output = embedding
	} else {
		k.Twin = ""
	}
	return k
}
