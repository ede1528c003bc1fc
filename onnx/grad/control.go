package grad

import (
	"slices"

	"assay/onnx"
)

var controlRules = []entry{
	{op: "If", outputs: allOutputs, captures: true, rule: ifRule},
	{op: "Scan", outputs: allOutputs, captures: true, rule: scanRule},
}

// ifRule: an If with the same condition, whose branches compute the vector-Jacobian products of the branches.
func ifRule(c *call) []string {
	at := attrs{}
	for _, name := range []string{"then_branch", "else_branch"} {
		b := c.newBody(c.graph(name), nil)
		if c.err != nil {
			return nil
		}
		for _, x := range c.captures {
			b.capture(c, x, true)
		}
		for _, g := range c.dy {
			if g != "" {
				b.capture(c, g, true)
			}
		}
		grads, err := b.derive(c.dy, c.captures)
		if err != nil {
			c.err = inSubgraph(name, err)
			return nil
		}
		var outputs []string
		var known []*onnx.Value
		for _, x := range c.captures {
			outputs, known = append(outputs, grads[x]), append(known, c.value(x))
		}
		if at[name], err = b.close(c, outputs, known); err != nil {
			c.err = inSubgraph(name, err)
			return nil
		}
	}
	for i, g := range c.Node("", "If", len(c.captures), at, c.x[0]) {
		c.setCaptureGrad(c.captures[i], g)
	}
	return make([]string, len(c.x))
}

// scan is a Scan node taken apart.
type scan struct {
	body       *onnx.Graph
	states     int // how many inputs and outputs are states; the others are scanned
	inAxes     []int64
	outAxes    []int64
	inReverse  []bool
	outReverse []bool
	slices     []onnx.ValueInfo // what the body sees of all inputs
	gradients  []bool           // inputs whose gradient is made: floating-point states, and scanned inputs that are asked for
}

func (c *call) scanned() scan {
	s := scan{body: c.graph("body")}
	s.states = len(c.x) - int(c.n.Int("num_scan_inputs", 0))
	if s.states < 0 || s.states > len(c.y) || len(s.body.Inputs) != len(c.x) || len(s.body.Outputs) != len(c.y) {
		c.fail("wanted a body of as many inputs and outputs as the node")
		return s
	}
	s.inAxes, s.inReverse = onnx.ScanAxes(c.n, "input", len(c.x)-s.states)
	s.outAxes, s.outReverse = onnx.ScanAxes(c.n, "output", len(c.y)-s.states)
	for i, x := range c.x {
		v := *c.value(x)
		if i >= s.states && v.Ranked {
			a := int(s.inAxes[i-s.states])
			if a < 0 {
				a += len(v.Shape)
			}
			v.Shape = slices.Delete(slices.Clone(v.Shape), a, a+1)
		}
		s.slices = append(s.slices, info(s.body.Inputs[i].Name, &v))
		s.gradients = append(s.gradients, v.Type.IsFloat() && (i < s.states || c.needs(i)))
		if i < s.states && !v.Type.IsFloat() && !v.Type.Discrete() {
			c.fail("state %d, %q, is %v: wanted its type", i, x, &v)
		}
	}
	return s
}

func directionFlags(back []bool) []int64 {
	d := make([]int64, len(back))
	for i, b := range back {
		if b {
			d[i] = 1
		}
	}
	return d
}

// scanRule: a first Scan goes forward once more and keeps the states before every step; a second one goes through the
// steps in reverse, and in each computes the vector-Jacobian product of the step. Its states are the gradients of the
// states, and sums of the gradients of what the body takes from around it.
func scanRule(c *call) []string {
	s := c.scanned()
	if c.err != nil {
		return nil
	}
	before := c.statesBefore(s)
	if c.err != nil {
		return nil
	}
	b := c.newBody(s.body, slices.Clone(s.slices))
	for _, x := range c.captures {
		b.capture(c, x, true)
	}
	given, cotangents := onnx.Extend(b.m), make([]string, len(c.y))
	fresh := func(base string, like *onnx.Value) onnx.ValueInfo { return info(given.Name(base), like) }

	// The body's inputs and the node's: gradients of states, sums, states before the step, scanned inputs, cotangents.
	var inputs []onnx.ValueInfo
	var starts, read []string
	var axes []int64
	var back []bool
	for i := range s.states {
		if !s.gradients[i] {
			continue
		}
		in := fresh("d", c.value(c.x[i]))
		cotangents[i], inputs = in.Name, append(inputs, in)
		g := c.dy[i]
		if g == "" {
			g = c.zerosLike(c.x[i])
		}
		starts = append(starts, g)
	}
	sums := map[string]string{}
	for _, x := range c.captures {
		in := fresh("sum", c.value(x))
		sums[x], inputs, starts = in.Name, append(inputs, in), append(starts, c.zerosLike(x))
	}
	for i := range s.slices {
		inputs = append(inputs, s.slices[i])
		if i < s.states {
			read, axes, back = append(read, before[i]), append(axes, 0), append(back, true)
			continue
		}
		k := i - s.states
		read, axes, back = append(read, c.x[i]), append(axes, s.inAxes[k]), append(back, !s.inReverse[k])
	}
	for j := s.states; j < len(c.y); j++ {
		if c.dy[j] == "" {
			continue
		}
		k := j - s.states
		v := *c.value(c.y[j])
		v.Ranked = false
		in := fresh("dy", &v)
		cotangents[j], inputs = in.Name, append(inputs, in)
		read, axes, back = append(read, c.dy[j]), append(axes, s.outAxes[k]), append(back, !s.outReverse[k])
	}
	b.m.Inputs = append(inputs, b.m.Inputs[len(s.slices):]...)

	wrt := slices.Clone(c.captures)
	for i, yes := range s.gradients {
		if yes {
			wrt = append(wrt, s.slices[i].Name)
		}
	}
	grads, err := b.derive(cotangents, wrt)
	if err != nil {
		c.err = inSubgraph("body", err)
		return nil
	}
	var outputs []string
	var known []*onnx.Value
	put := func(g string, like *onnx.Value) { outputs, known = append(outputs, g), append(known, like) }
	slice := func(i int) *onnx.Value {
		v := s.slices[i]
		return &onnx.Value{Type: v.Type, Shape: v.Shape, Ranked: v.Ranked}
	}
	for i := range s.states {
		if s.gradients[i] {
			put(grads[s.slices[i].Name], slice(i))
		}
	}
	summing := onnx.Extend(b.m)
	for _, x := range c.captures {
		put(summing.Op("Add", sums[x], grads[x]), c.value(x))
	}
	var outAxes []int64
	var outBack []bool
	for i := s.states; i < len(c.x); i++ {
		if s.gradients[i] {
			k := i - s.states
			put(grads[s.slices[i].Name], slice(i))
			outAxes, outBack = append(outAxes, s.inAxes[k]), append(outBack, !s.inReverse[k])
		}
	}
	g, err := b.close(c, outputs, known)
	if err != nil {
		c.err = inSubgraph("body", err)
		return nil
	}
	at := attrs{
		"body":                  g,
		"num_scan_inputs":       len(read),
		"scan_input_axes":       axes,
		"scan_input_directions": directionFlags(back),
	}
	if len(outAxes) > 0 {
		at["scan_output_axes"], at["scan_output_directions"] = outAxes, directionFlags(outBack)
	}
	ys := c.Node("", "Scan", len(outputs), at, append(starts, read...)...)
	dx := make([]string, len(c.x))
	next := func() string { y := ys[0]; ys = ys[1:]; return y }
	for i := range s.states {
		if s.gradients[i] {
			dx[i] = next()
		}
	}
	for _, x := range c.captures {
		c.setCaptureGrad(x, next())
	}
	for i := s.states; i < len(c.x); i++ {
		if s.gradients[i] {
			dx[i] = next()
		}
	}
	return dx
}

// statesBefore emits a Scan that gives every state before every step, along axis 0.
func (c *call) statesBefore(s scan) []string {
	if s.states == 0 {
		return nil
	}
	b := c.newBody(s.body, slices.Clone(s.slices))
	var outputs []string
	var known []*onnx.Value
	for i := range 2 * s.states { // the states after the step, and before it
		y := s.body.Outputs[i%s.states].Name
		if i >= s.states {
			y = s.slices[i-s.states].Name
		}
		outputs, known = append(outputs, y), append(known, c.value(c.x[i%s.states]))
	}
	g, err := b.close(c, outputs, known)
	if err != nil {
		c.err = inSubgraph("body", err)
		return nil
	}
	at := attrs{
		"body":                  g,
		"num_scan_inputs":       len(c.x) - s.states,
		"scan_input_axes":       s.inAxes,
		"scan_input_directions": directionFlags(s.inReverse),
	}
	return c.Node("", "Scan", 2*s.states, at, c.x...)[s.states:]
}
