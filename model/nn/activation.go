package nn

import (
	"maps"
	"slices"
	"strings"

	"assay/internal/strictjson"
	"assay/onnx"
)

// activations is transformers' ACT2FN, without the functions that have parameters (prelu, xielu).
var activations = map[string]func(g *Graph, x string) string{
	"gelu": func(g *Graph, x string) string { return g.Op("Gelu", x) },
	"gelu_10": func(g *Graph, x string) string {
		return g.Op("Clip", g.Op("Gelu", x), g.Scalar(onnx.Float, -10), g.Scalar(onnx.Float, 10))
	},
	"gelu_new":  tanhGelu,
	"hardswish": func(g *Graph, x string) string { return g.Op("HardSwish", x) },
	"laplace": func(g *Graph, x string) string { // (1 + erf((x - mu)/(sigma sqrt 2)))/2 with MEGA's mu and sigma
		x = g.Op("Div", g.Op("Sub", x, g.Scalar(onnx.Float, 0.707107)), g.Scalar(onnx.Float, 0.282095*1.4142135623730951))
		return g.Op("Mul", g.Op("Add", g.Op("Erf", x), g.Scalar(onnx.Float, 1)), g.Scalar(onnx.Float, 0.5))
	},
	"leaky_relu": func(g *Graph, x string) string { return g.OpA("LeakyRelu", onnx.Attrs{"alpha": 0.01}, x) },
	"linear":     func(_ *Graph, x string) string { return x },
	"mish":       func(g *Graph, x string) string { return g.Op("Mish", x) },
	"quick_gelu": func(g *Graph, x string) string {
		return g.Op("Mul", x, g.Op("Sigmoid", g.Op("Mul", x, g.Scalar(onnx.Float, 1.702))))
	},
	"relu": func(g *Graph, x string) string { return g.Op("Relu", x) },
	"relu2": func(g *Graph, x string) string {
		x = g.Op("Relu", x)
		return g.Op("Mul", x, x)
	},
	"relu6": func(g *Graph, x string) string {
		return g.Op("Clip", x, g.Scalar(onnx.Float, 0), g.Scalar(onnx.Float, 6))
	},
	"sigmoid":      func(g *Graph, x string) string { return g.Op("Sigmoid", x) },
	"silu":         func(g *Graph, x string) string { return g.Op("Mul", x, g.Op("Sigmoid", x)) },
	"sqrtsoftplus": func(g *Graph, x string) string { return g.Op("Sqrt", g.Op("Softplus", x)) },
	"tanh":         func(g *Graph, x string) string { return g.Op("Tanh", x) },
}

func tanhGelu(g *Graph, x string) string {
	return g.OpA("Gelu", onnx.Attrs{"approximate": "tanh"}, x)
}

func init() {
	for name, same := range map[string]string{
		"swish":             "silu",
		"gelu_python":       "gelu",
		"gelu_fast":         "gelu_new",
		"gelu_accurate":     "gelu_new",
		"gelu_pytorch_tanh": "gelu_new",
		"gelu_python_tanh":  "gelu_new",
	} {
		activations[name] = activations[same]
	}
}

// Activation applies a function by its Hugging Face name.
func (g *Graph) Activation(x, name string) string {
	f := activations[name]
	if f == nil {
		return g.fail("unknown activation %q", name)
	}
	return f(g, x)
}

// halfActivations are the activations for which the runtime's CUDA provider has half-precision kernels. These compute
// in float32 and round the result.
var halfActivations = []string{"silu", "swish", "gelu", "gelu_python", "gelu_new", "gelu_fast", "gelu_accurate",
	"gelu_pytorch_tanh", "gelu_python_tanh", "relu", "sigmoid", "tanh"}

// activate applies an activation to rows between two products, in the type of the products.
func (g *Graph) activate(x, name string) string {
	switch {
	case g.Compute == onnx.Float || slices.Contains(halfActivations, name):
		return g.Activation(x, name)
	case name == "quick_gelu":
		return g.Node(Microsoft, "QuickGelu", 1, onnx.Attrs{"alpha": 1.702}, x)[0]
	}
	return g.Narrow(g.Activation(g.Wide(x), name))
}

// CheckActivation adds an error to a configuration that names an unknown activation.
func CheckActivation(o *strictjson.Object, key, name string) {
	if activations[name] == nil {
		o.Failf(key, "activation %q is not supported; %s are", name,
			strings.Join(slices.Sorted(maps.Keys(activations)), ", "))
	}
}
