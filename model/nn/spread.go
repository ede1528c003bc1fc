package nn

import "assay/onnx"

const (
	// sameLines is the distance, in float32 values, of rows that map to the same lines of a CPU's L1 cache: 4,096
	// bytes.
	sameLines = 1024
	// spreadBy is the number of zeros appended to rows that are a multiple of that apart.
	spreadBy = 32
)

// pad appends zeros to the rows of a product x W' if they are a multiple of 4,096 bytes apart (2,048 or 4,096 numbers,
// as in many models). The runtime multiplies twelve rows at a time in place: at that distance they, and the weights,
// evict one another from the CPU's L1 cache. Zeros at the end change no bit of a sum. The weights are padded and
// prepacked while the session is opened; no copy of them as stored in the file stays in memory.
func (g *Graph) pad(x, weight, key string) (longX, longWeight string) {
	if !g.Spread {
		return x, weight
	}
	t, err := g.weights.Tensor(key)
	if err != nil || len(t.Shape) != 2 || t.Shape[1]%sameLines != 0 || g.LowMemory && t.Type != onnx.Float {
		return x, weight
	}
	return g.longer(x), g.longer(weight)
}

// longer returns x [rows, n] padded to [rows, n + spreadBy].
func (g *Graph) longer(x string) string {
	id := "longer:" + x
	if g.values[id] == "" {
		g.values[id] = g.Op("Pad", x, g.Ints(0, 0, 0, spreadBy))
	}
	return g.values[id]
}
