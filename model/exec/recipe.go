package exec

import "assay/model/nn"

// Recipe is a graph that is built when it is first needed, once for each name.
type Recipe struct {
	Name  string
	Build func(g *nn.Graph) (*nn.Program, error)
}

// With is the recipe of a variant.
func (r Recipe) With(v nn.Variant) Recipe {
	build := r.Build
	return Recipe{v.Name(r.Name), func(g *nn.Graph) (*nn.Program, error) {
		g.Variant = v
		return build(g)
	}}
}
