package fresh

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"gorgonia.org/tensor"

	"assay/model/nn"
)

// Init returns newly initialised float32 tensors for the parameters of a checkpoint. The values of a tensor depend only
// on the seed, its name and its shape.
//
// Activations start with a variance near 1 at every depth. A linear layer has weights of standard deviation
// 1/sqrt(fan in) and zero bias. The weights that write into the residual stream, two per layer, are divided by
// sqrt(2 layers) (GPT-2). Embeddings have standard deviation 1, like the projector's outputs next to them; norms are 1.
// The output layer is small, so that all tokens start about equally likely. Position tables start with two-dimensional
// sines and cosines, so that patches have positions before any training.
func Init(parameters nn.Parameters, seed uint64) map[string]*tensor.Dense {
	tensors := make(map[string]*tensor.Dense, len(parameters))
	for _, p := range parameters {
		shape, in := make(tensor.Shape, len(p.Shape)), 1
		for i, d := range p.Shape {
			shape[i] = int(d)
			if i > 0 {
				in *= shape[i]
			}
		}
		values := make([]float32, shape.TotalSize())
		switch p.Role {
		case nn.RoleNorm:
			for i := range values {
				values[i] = 1
			}
		case nn.RolePositions:
			rows, width := shape[len(shape)-2], shape[len(shape)-1]
			side := int(math.Sqrt(float64(rows)))
			values = positions(side, width)[(side*side+1-rows)*width:]
		case nn.RoleEmbedding:
			normal(values, p.Name, seed, 1)
		case nn.RoleOutput:
			normal(values, p.Name, seed, 0.1/math.Sqrt(float64(in)))
		case nn.RoleWeight:
			gain := 1.0
			if p.Layers > 0 {
				gain /= math.Sqrt(float64(2 * p.Layers))
			}
			normal(values, p.Name, seed, gain/math.Sqrt(float64(in)))
		}
		tensors[p.Name] = tensor.New(tensor.WithShape(shape...), tensor.WithBacking(values))
	}
	return tensors
}

// positions is the position table [side*side + 1, width]: zeros for the class token, then a row for each patch (y, x).
// It has a quarter of the width each of sin(x f), cos(x f), sin(y f) and cos(y f). Frequencies f go from 1 down to
// 1/100 (wavelengths of 6 to 600 patches).
func positions(side, width int) []float32 {
	table := make([]float32, width, (side*side+1)*width)
	quarter := width / 4
	for y := range side {
		for x := range side {
			row := make([]float32, width)
			for k := range quarter {
				f := math.Pow(100, -float64(k)/float64(quarter))
				for axis, p := range []int{x, y} {
					sin, cos := math.Sincos(float64(p) * f)
					row[2*axis*quarter+k], row[(2*axis+1)*quarter+k] = float32(sin), float32(cos)
				}
			}
			table = append(table, row...)
		}
	}
	return table
}

// normal draws from the normal distribution, truncated at three standard deviations.
func normal(values []float32, name string, seed uint64, deviation float64) {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	random := rand.New(rand.NewPCG(seed, hash.Sum64()))
	for i := range values {
		v := random.NormFloat64()
		for math.Abs(v) > 3 {
			v = random.NormFloat64()
		}
		values[i] = float32(v * deviation)
	}
}
