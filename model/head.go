package model

// HeadConfig is the `head` of scorer.yaml: an MLP from the hidden state at the score token.
type HeadConfig struct {
	Hidden     []int     `yaml:"hidden" json:"hidden"`         // widths of the hidden layers; may be empty
	Activation string    `yaml:"activation" json:"activation"` // between layers; relu
	Kind       string    `yaml:"kind,omitempty" json:"kind,omitempty"`
	Values     []float64 `yaml:"values,omitempty" json:"values,omitempty"` // of the classes, on 0..1
}

// Classes reports whether the head gives one output per value instead of the score itself.
func (h *HeadConfig) Classes() bool { return h.Kind == "classification" }

// Outputs is the width of the last layer.
func (h *HeadConfig) Outputs() int {
	if h.Classes() {
		return len(h.Values)
	}
	return 1
}

// Sizes lists the widths from the backbone's hidden state to the outputs.
func (h *HeadConfig) Sizes(hidden int) []int {
	return append(append([]int{hidden}, h.Hidden...), h.Outputs())
}
