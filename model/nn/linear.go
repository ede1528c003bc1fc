package nn

import (
	"cmp"
	"regexp"

	"gorgonia.org/tensor"

	"assay/lora"
	"assay/onnx"
)

// whole returns the name of the adapter's tensor that replaces a parameter of the checkpoint; "": none does.
func (g *Graph) whole(key string) string {
	if g.Adapter == nil || len(g.Adapter.Whole) == 0 {
		return ""
	}
	name := lora.NameParameter(lora.Canonical(key))
	if g.Tensors[name] == nil {
		return ""
	}
	return name
}

// own reports whether a parameter is not the checkpoint's stored one: it is trained, or the adapter replaces it.
func (g *Graph) own(key string) bool { return g.TrainsWeight(key) || g.whole(key) != "" }

// WideLinear is Linear for float32 rows; it returns float32.
func (g *Graph) WideLinear(x, key, module string) string {
	return g.Wide(g.Linear(g.Narrow(x), key, module))
}

// Linear returns x W' + b for x [rows, in] and W [out, in] stored under key+".weight", both in the type of the
// products; the bias is there if the checkpoint has one. module is the path by which PEFT identifies the layer: an
// adapter for it is added.
func (g *Graph) Linear(x, key, module string) string {
	if g.Adapter == nil {
		return g.product(x, key)
	}
	site, ok := g.Adapter.Target(module)
	if !ok {
		return g.product(x, key)
	}
	if g.Adapter.Branches != nil {
		return g.joinedLinear(x, key, module)
	}
	a, b := g.adapterPair(module)
	if g.err != nil {
		return "error"
	}
	in := g.Tensors[lora.NameA(module)].Shape()[1]
	if g.Adapter.Config.DoRA {
		wide := g.values["wide."+x]
		if wide == "" { // q, k and v share theirs
			wide = g.Wide(x)
			g.values["wide."+x] = wide
		}
		d := ""
		if g.Kernels != Fused {
			d = g.dropped(wide, onnx.Float, in)
		} else if d = g.dropped(x, g.Compute, in); d != "" {
			d = g.Wide(d)
		}
		return g.Narrow(g.dora(wide, d, key, site, [2]string{a, b}))
	}
	y := g.product(x, key)
	if taken := g.Adapter.InitOffset; taken != nil {
		a0 := g.Narrow(g.constant("taken.", lora.NameA(module), taken))
		b0 := g.Narrow(g.constant("taken.", lora.NameB(module), taken))
		y = lora.Apply(g.Builder, x, y, a0, b0, -site.Scale)
	}
	return lora.Apply(g.Builder, cmp.Or(g.dropped(x, g.Compute, in), x), y, a, b, site.Scale)
}

// adapterPair returns the matrices A [r, in] and B [out, r] of a layer with an adapter, in the type of the products.
// DoRA computes in float32.
func (g *Graph) adapterPair(module string) (a, b string) {
	a, b = lora.NameA(module), lora.NameB(module)
	if g.Compute == onnx.Float || g.Adapter.Config.DoRA {
		return g.ScorerTensor(a), g.ScorerTensor(b)
	}
	g.narrowAdapters(layerOf(module))
	return g.values["narrow."+a], g.values["narrow."+b]
}

// narrowAdapters narrows the adapters of a layer's modules with one cast, which also has a single gradient.
func (g *Graph) narrowAdapters(layer string) {
	if g.values["narrow."+layer] != "" {
		return
	}
	var names, flat []string
	var sizes []int64
	for _, t := range g.Adapter.Targets {
		if layerOf(t.Module) == layer {
			names = append(names, lora.NameA(t.Module), lora.NameB(t.Module))
		}
	}
	for _, name := range names {
		flat = append(flat, g.Op("Reshape", g.ScorerTensor(name), g.Ints(-1)))
		if g.err != nil {
			return
		}
		sizes = append(sizes, int64(g.Tensors[name].Shape().TotalSize()))
	}
	all := g.Narrow(g.OpA("Concat", onnx.Attrs{"axis": 0}, flat...))
	for i, part := range g.Node("", "Split", len(names), onnx.Attrs{"axis": 0}, all, g.Ints(sizes...)) {
		g.values["narrow."+names[i]] = g.Op("Reshape", part, g.Ints(dimensions(g.Tensors[names[i]].Shape())...))
	}
	g.values["narrow."+layer] = all
}

// layerOf returns a module's path up to its layer number, or the full path of a module outside the layers.
func layerOf(module string) string { return cmp.Or(layerPath.FindString(module), module) }

var layerPath = regexp.MustCompile(`^.*?\.\d+\.`)

// constant adds one of the given tensors to the graph.
func (g *Graph) constant(prefix, name string, of map[string]*tensor.Dense) string {
	if v, ok := g.values[prefix+name]; ok {
		return v
	}
	t := of[name]
	v := g.Weight(&onnx.Tensor{Name: prefix + name, Type: onnx.Float, Shape: dimensions(t.Shape()),
		Data: onnx.Float32Bytes(t.Float32s())})
	g.values[prefix+name] = v
	return v
}

// dora is a linear layer with a DoRA adapter, for float32 rows: f (W x + s B A x) + b with f = m/|W + s B A|. Dropout
// drops what the adapter changes, (f - 1) W x + f s B A x, as in PEFT; without it, d is "".
func (g *Graph) dora(x, d, key string, site lora.Target, mats [2]string) string {
	squares := make([]float32, int(g.Tensors[lora.NameM(site.Module)].Shape()[0])) // unknown in a plan
	copy(squares, g.Adapter.Lengths[site.Module])
	layer := lora.DoRA{
		M:       g.ScorerTensor(lora.NameM(site.Module)),
		Squares: g.Floats([]int64{int64(len(squares))}, squares...),
		AW:      g.Wide(g.plainProduct(g.Narrow(mats[0]), key)),
	}
	factor := layer.Factor(g.Builder, mats[0], mats[1], site.Scale)
	product := func(x string) string { return g.Wide(g.plainProduct(g.Narrow(x), key)) }
	wx := product(x)
	dropped, base := wx, ""
	if d != "" {
		base = wx
		dropped = product(d)
	}
	y := g.Op("Mul", lora.Apply(g.Builder, cmp.Or(d, x), dropped, mats[0], mats[1], site.Scale), factor)
	if d != "" {
		y = g.Op("Add", y, g.Op("Sub", base, dropped))
	}
	if g.Has(key + ".bias") {
		y = g.Op("Add", y, g.Param(key+".bias"))
	}
	return y
}

// product is x W' + b without an adapter.
func (g *Graph) product(x, key string) string { return g.multiply(x, key, g.Has(key+".bias")) }

// plainProduct is x W'.
func (g *Graph) plainProduct(x, key string) string { return g.multiply(x, key, false) }

func (g *Graph) multiply(x, key string, bias bool) string {
	if l := g.packed(key + ".weight"); l != nil {
		y := g.packedProduct(g.Wide(x), key, l)
		if bias {
			y = g.Op("Add", y, g.Param(key+".bias"))
		}
		return g.Narrow(y)
	}
	x, weight := g.pad(x, g.matrix(x, key+".weight"), key+".weight")
	inputs := []string{x, weight}
	if bias {
		inputs = append(inputs, g.param(key+".bias", g.Compute))
	}
	return g.OpA("Gemm", onnx.Attrs{"transB": 1}, inputs...)
}
