package optim

// Optimizer updates parameters by their gradients.
type Optimizer interface {
	// Update changes params in place by their gradients at learning rate lr. params are always the ones that it was
	// created for.
	Update(params []Param, grads [][]float32, lr float64)
	// State lists the tensors that the optimizer keeps for each parameter, in place.
	State() []State
	// Updates returns the number of updates so far. SetUpdates restores it with a saved state.
	Updates() int64
	SetUpdates(n int64)
}

// State is a tensor that an optimizer keeps for a parameter.
type State struct {
	Kind   string // moment1, ...
	Param  int    // index of the parameter
	Shape  []int  // of the full tensor
	First  int    // index of its first value in the tensor
	Values []float32
	Bytes  []byte // instead of Values, for a tensor of bytes
}

// shape returns the shape of the full parameter; empty for a scalar.
func (p Param) shape() []int {
	if p.Whole != nil {
		return p.Whole
	}
	return p.Value.Shape()
}

// place is the position of an elementwise state: the shape of the full parameter, and its first element.
type place struct {
	shape []int
	first int
}

func places(params []Param) []place {
	out := make([]place, len(params))
	for i, p := range params {
		out[i] = place{p.shape(), p.First}
	}
	return out
}

// state returns a state with one value per element.
func (p place) state(kind string, param int, values []float32) State {
	return State{Kind: kind, Param: param, Shape: p.shape, First: p.first, Values: values}
}

// zeros allocates a state of one kind for all parameters, with their shapes.
func zeros(params []Param) [][]float32 {
	out := make([][]float32, len(params))
	for i, p := range params {
		out[i] = make([]float32, len(p.Floats()))
	}
	return out
}

// Decayed reports for each parameter whether weight decay applies to it, if only weights decay. It does not apply
// to vectors, which are norms and biases, but it does to the rows of a score token.
func Decayed(params []Param, isRow func(name string) bool) []bool {
	out := make([]bool, len(params))
	for i, p := range params {
		out[i] = len(p.shape()) > 1 || isRow(p.Name)
	}
	return out
}

// keep returns the factor of a parameter in an update with decoupled weight decay. decayed is nil if all of them
// decay.
func keep(decayed []bool, i int, lr, decay float64) float32 {
	if decayed != nil && !decayed[i] {
		return 1
	}
	return float32(1 - lr*decay)
}
