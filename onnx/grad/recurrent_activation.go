package grad

import (
	"slices"
	"strings"
)

// activation is an activation function of a recurrent operator.
type activation struct {
	name        string
	alpha, beta float64
}

// activationDefaults lists the defaults of alpha and beta, as far as a function has them.
var activationDefaults = map[string][]float64{
	"relu":            {},
	"tanh":            {},
	"sigmoid":         {},
	"softsign":        {},
	"softplus":        {},
	"affine":          {1, 0},
	"leakyrelu":       {0.01},
	"thresholdedrelu": {1},
	"scaledtanh":      {1, 1},
	"hardsigmoid":     {0.2, 0.5},
	"elu":             {1},
}

// activations returns the functions of all directions: alphas and betas go, in order, to the functions that have
// them.
func (c *call) activations(directions int, defaults []string) []activation {
	names, _ := c.n.Attrs["activations"].([]string)
	if len(names) == 0 {
		names = slices.Repeat(defaults, directions)
	}
	if len(names) != directions*len(defaults) {
		c.fail("needs %d activations, not %d", directions*len(defaults), len(names))
		return nil
	}
	alphas, _ := c.n.Attrs["activation_alpha"].([]float32)
	betas, _ := c.n.Attrs["activation_beta"].([]float32)
	out := make([]activation, len(names))
	for i, name := range names {
		a := activation{name: strings.ToLower(name)}
		have, known := activationDefaults[a.name]
		if !known {
			c.fail("unknown activation %q", name)
			return nil
		}
		take := func(list *[]float32, fallback float64) float64 {
			if len(*list) == 0 {
				return fallback
			}
			v := float64((*list)[0])
			*list = (*list)[1:]
			return v
		}
		if len(have) > 0 {
			a.alpha = take(&alphas, have[0])
		}
		if len(have) > 1 {
			a.beta = take(&betas, have[1])
		}
		out[i] = a
	}
	if len(alphas)+len(betas) > 0 {
		c.fail("%d values of activation_alpha and %d of activation_beta are left over after %s",
			len(alphas), len(betas), strings.Join(names, ", "))
	}
	return out
}

func (a activation) apply(c *call, x string) string {
	switch a.name {
	case "relu":
		return c.Op("Relu", x)
	case "tanh":
		return c.Op("Tanh", x)
	case "sigmoid":
		return c.Op("Sigmoid", x)
	case "softsign":
		return c.Op("Softsign", x)
	case "softplus":
		return c.Op("Softplus", x)
	case "affine":
		return c.add(c.scale(x, a.alpha), c.scalarLike(x, a.beta))
	case "leakyrelu":
		return c.OpA("LeakyRelu", attrs{"alpha": a.alpha}, x)
	case "thresholdedrelu":
		return c.OpA("ThresholdedRelu", attrs{"alpha": a.alpha}, x)
	case "scaledtanh":
		return c.scale(c.Op("Tanh", c.scale(x, a.beta)), a.alpha)
	case "hardsigmoid":
		return c.OpA("HardSigmoid", attrs{"alpha": a.alpha, "beta": a.beta}, x)
	}
	return c.OpA("Elu", attrs{"alpha": a.alpha}, x)
}
