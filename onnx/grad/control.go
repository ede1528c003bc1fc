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
	states     int // number of inputs and outputs that are states; the others are scanned
	inAxes     []int64
	outAxes    []int64
	inReverse  []bool
	outReverse []bool
	slices     []onnx.ValueInfo // the inputs as the body sees them
	gradients  []bool           // inputs that get a gradient: floating-point states, and scanned inputs that need one
}

func (c *call) scanned() scan {
	s := scan{body: c.graph("body")}
	s.states = len(c.x) - int(c.n.Int("num_scan_inputs", 0))
	if s.states < 0 || s.states > len(c.y) || len(s.body.Inputs) != len(c.x) || len(s.body.Outputs) != len(c.y) {
		c.fail("needs a body with as many inputs and outputs as the node")
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
			c.fail("state %d, %q, is %v: its type is needed", i, x, &v)
		}
	}
	return s
}

// onlyFirst reports whether only the first input needs a gradient, and only the first output has one.
func (c *call) onlyFirst() bool {
	some := func(g string) bool { return g != "" }
	return !slices.Contains(c.needsGrad[1:], true) && !slices.ContainsFunc(c.dy[1:], some)
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

// scanRule: a first Scan repeats the forward pass and keeps the states before every step. A second one runs the steps
// in reverse and computes the vector-Jacobian product of each. Its states are the gradients of the states, and the
// accumulated gradients of the body's captures.
func scanRule(c *call) []string {
	if c.n.Meta[onnx.MetaDerivative] == "true" && len(c.captures) == 0 && c.onlyFirst() {
		dx := make([]string, len(c.x))
		dx[0] = c.mul(c.dy[0], c.cast(c.y[1], c.value(c.dy[0]).Type))
		return dx
	}
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
	back := c.scanBack(s, b, before)
	wrt := slices.Clone(c.captures)
	for i, yes := range s.gradients {
		if yes {
			wrt = append(wrt, s.slices[i].Name)
		}
	}
	grads, err := b.derive(back.cotangents, wrt)
	if err != nil {
		c.err = inSubgraph("body", err)
		return nil
	}
	ys := c.emitScanBack(s, b, back, grads)
	if c.err != nil {
		return nil
	}
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

// backwardScan holds the inputs of the reverse Scan.
type backwardScan struct {
	starts     []string          // its states before the first step: gradients of states, and zeros for the sums
	read       []string          // scanned: states before each step, the forward inputs, cotangents
	axes       []int64           // of read
	reverse    []bool            // of read
	cotangents []string          // by output of the forward body, "" for none: inputs of the backward body
	sums       map[string]string // by capture: the input of the backward body that holds its sum
}

// scanBack adds the inputs of the reverse Scan to the body: gradients of states, sums, states before the step,
// scanned inputs, and cotangents.
func (c *call) scanBack(s scan, b *body, before []string) backwardScan {
	w := backwardScan{cotangents: make([]string, len(c.y)), sums: map[string]string{}}
	build := onnx.Extend(b.m)
	fresh := func(base string, like *onnx.Value) onnx.ValueInfo { return info(build.Name(base), like) }
	var inputs []onnx.ValueInfo
	scanned := func(in onnx.ValueInfo, x string, axis int64, reverse bool) {
		inputs = append(inputs, in)
		w.read, w.axes, w.reverse = append(w.read, x), append(w.axes, axis), append(w.reverse, reverse)
	}
	for i := range s.states {
		if !s.gradients[i] {
			continue
		}
		in := fresh("d", c.value(c.x[i]))
		w.cotangents[i], inputs = in.Name, append(inputs, in)
		g := c.dy[i]
		if g == "" {
			g = c.zerosLike(c.x[i])
		}
		w.starts = append(w.starts, g)
	}
	for _, x := range c.captures {
		in := fresh("sum", c.value(x))
		w.sums[x], inputs, w.starts = in.Name, append(inputs, in), append(w.starts, c.zerosLike(c.current(x)))
	}
	for i, in := range s.slices {
		if k := i - s.states; k < 0 {
			scanned(in, before[i], 0, true)
		} else {
			scanned(in, c.x[i], s.inAxes[k], !s.inReverse[k])
		}
	}
	for j := s.states; j < len(c.y); j++ {
		if c.dy[j] == "" {
			continue
		}
		v := *c.value(c.y[j])
		v.Ranked = false
		in := fresh("dy", &v)
		w.cotangents[j] = in.Name
		scanned(in, c.dy[j], s.outAxes[j-s.states], !s.outReverse[j-s.states])
	}
	b.m.Inputs = append(inputs, b.m.Inputs[len(s.slices):]...)
	return w
}

// emitScanBack emits the reverse Scan. Its outputs are gradients of states, sums for the captures, and gradients of
// scanned inputs.
func (c *call) emitScanBack(s scan, b *body, w backwardScan, grads map[string]string) []string {
	var outputs []string
	var known []*onnx.Value
	var axes []int64
	var reverse []bool
	put := func(g string, like *onnx.Value) { outputs, known = append(outputs, g), append(known, like) }
	putSlice := func(i int) {
		v := s.slices[i]
		put(grads[v.Name], &onnx.Value{Type: v.Type, Shape: v.Shape, Ranked: v.Ranked})
	}
	for i := range s.states {
		if s.gradients[i] {
			putSlice(i)
		}
	}
	build := onnx.Extend(b.m)
	for _, x := range c.captures {
		put(build.Op("Add", w.sums[x], grads[x]), c.value(x))
	}
	for i := s.states; i < len(c.x); i++ {
		if s.gradients[i] {
			putSlice(i)
			axes, reverse = append(axes, s.inAxes[i-s.states]), append(reverse, !s.inReverse[i-s.states])
		}
	}
	g, err := b.close(c, outputs, known)
	if err != nil {
		c.err = inSubgraph("body", err)
		return nil
	}
	at := attrs{
		"body":                  g,
		"num_scan_inputs":       len(w.read),
		"scan_input_axes":       w.axes,
		"scan_input_directions": directionFlags(w.reverse),
	}
	if len(axes) > 0 {
		at["scan_output_axes"], at["scan_output_directions"] = axes, directionFlags(reverse)
	}
	return c.Node("", "Scan", len(outputs), at, append(w.starts, w.read...)...)
}

// statesBefore emits a Scan that outputs every state before every step, along axis 0.
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
