package lora

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gorgonia.org/tensor"
)

// Start is the initialization of A and B: PEFT's init_lora_weights. "" is true, the default.
type Start string

// Starts that new adapters support. Others only occur in files: if they do not change the base weights, the initial A
// and B do not matter.
const (
	StartUsual Start = ""
	StartPiSSA Start = "pissa"
	StartOLoRA Start = "olora"

	startRandom Start = "false"
)

// The values of Config.Bias.
const (
	BiasNone = "none"
	BiasAll  = "all"       // every bias of the backbone
	BiasLora = "lora_only" // biases of adapted layers
)

// MarshalJSON writes true, false or a word.
func (s Start) MarshalJSON() ([]byte, error) {
	switch s {
	case StartUsual:
		return []byte("true"), nil
	case startRandom:
		return []byte("false"), nil
	}
	return encode(string(s), "")
}

// UnmarshalJSON reads true, false or a word.
func (s *Start) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "true":
		*s = StartUsual
	case "false":
		*s = startRandom
	default:
		return json.Unmarshal(text, (*string)(s))
	}
	return nil
}

// changesBase reports whether the start subtracts its A and B from the base weights.
func (s Start) changesBase() bool { return s == StartPiSSA || s == StartOLoRA }

// checkStart refuses starts that change the base weights in a way that cannot be reproduced exactly from the files.
func (c *Config) checkStart() error {
	if c.Start.changesBase() {
		return nil
	}
	for _, p := range []string{"pissa", "corda", "olora", "loftq", "lora_ga"} {
		if strings.HasPrefix(strings.ToLower(string(c.Start)), p) {
			return fmt.Errorf("init_lora_weights is %q, which changes the base weights; save the adapter with PEFT's "+
				"path_initial_model_for_weight_conversion", c.Start)
		}
	}
	return nil
}

// begin returns A and B of a start, [r, in] and [out, r], for a weight [out, in] and a scale. With a PiSSA start they
// are the r largest singular values and vectors of W, with the square roots of the values on each side:
//
//	W = U S V',  A = sqrt(S_r/s) V_r',  B = U_r sqrt(S_r/s)
//
// and with an OLoRA start the first r columns of Q and rows of R of W = Q R.
//
// exact refuses a factorization that did not converge: A0 and B0 have to match the ones that PEFT subtracted from W.
func (s Start) begin(weight []float32, out, in int, t Target, exact bool) (matA, matB *tensor.Dense, err error) {
	rank, scale := t.Rank, t.Scale
	if rank > min(out, in) {
		return nil, nil, fmt.Errorf("init_lora_weights %q needs a rank of at most %d, the smaller side of the weight [%d, "+
			"%d], not %d", s, min(out, in), out, in, rank)
	}
	if scale <= 0 {
		return nil, nil, fmt.Errorf("init_lora_weights %q needs an alpha above 0", s)
	}
	wide := make([]float64, len(weight))
	for i, v := range weight {
		wide[i] = float64(v)
	}
	w := mat.NewDense(out, in, wide)
	a, b := mat.NewDense(rank, in, nil), mat.NewDense(out, rank, nil)
	if s == StartOLoRA {
		b.Copy(orthonormal(mat.DenseCopyOf(w.Slice(0, out, 0, rank))))
		a.Mul(b.T(), w) // R = Q' W
		return dense32(a), dense32(b), nil
	}
	u, v, values, ok := leading(w, rank)
	if exact && !ok || values == nil {
		return nil, nil, fmt.Errorf("init_lora_weights %q: the largest singular values of the weight [%d, %d] are too close "+
			"to separate; save the adapter with PEFT's path_initial_model_for_weight_conversion", s, out, in)
	}
	for k := range rank {
		root := math.Sqrt(values[k] / scale)
		for i := range out {
			b.Set(i, k, u.At(i, k)*root)
		}
		for j := range in {
			a.Set(k, j, v.At(j, k)*root)
		}
	}
	return dense32(a), dense32(b), nil
}

func dense32(m *mat.Dense) *tensor.Dense {
	rows, cols := m.Dims()
	values := make([]float32, 0, rows*cols)
	for i := range rows {
		for _, x := range m.RawRowView(i) {
			values = append(values, float32(x))
		}
	}
	return tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(values))
}
