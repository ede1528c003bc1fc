package onnx

// schema is what ai.onnx says of one version of an operator. -1 is any number of inputs or outputs.
type schema struct {
	since      int64
	deprecated bool
	minIn      int
	maxIn      int
	minOut     int
	maxOut     int
	required   []string // attributes
}

// Check reports what is wrong with a model.
func Check(m *Model) error { return nil }
