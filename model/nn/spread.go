package nn

import "assay/onnx"

const (
	// sameLines is the distance, in float32, of rows that fall on the same lines of a processor's first cache: 4,096
	// bytes.
	sameLines = 1024
	// spreadBy is how much longer rows are made that lie a multiple of that apart.
	spreadBy = 32
)

// pad makes the rows of a product x W' longer by zeros where they lie a multiple of 4,096 bytes apart (2,048 or
// 4,096 numbers, as many models have them). The runtime multiplies twelve rows at a time as they lie: at that distance
// they, and the weights, push one another out of the processor's first cache. Zeros at the end change no bit of a sum.
// The weights are made longer while the session is opened, and packed; nothing is kept of them as they lie in the file.
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

// longer is x [rows, n] as [rows, n + spreadBy].
func (g *Graph) longer(x string) string {
	id := "longer:" + x
	if g.values[id] == "" {
		g.values[id] = g.Op("Pad", x, g.Ints(0, 0, 0, spreadBy))
	}
	return g.values[id]
}
