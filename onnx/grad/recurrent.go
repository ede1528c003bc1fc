package grad

import (
	"slices"

	"assay/onnx"
)

var recurrentRules = []entry{
	{op: "LSTM", outputs: 3, decompose: func(c *call) []string {
		return c.recurrent(
			cell{gates: 4, states: 2, functions: []string{"Sigmoid", "Tanh", "Tanh"}, peepholes: 7, step: lstmStep},
		)
	}},
	{op: "GRU", outputs: 2, decompose: func(c *call) []string {
		return c.recurrent(cell{gates: 3, states: 1, functions: []string{"Sigmoid", "Tanh"}, step: gruStep})
	}},
	{op: "RNN", outputs: 2, decompose: func(c *call) []string {
		return c.recurrent(cell{gates: 1, states: 1, functions: []string{"Tanh"}, step: rnnStep})
	}},
}

// cell describes what differs between the recurrent operators.
type cell struct {
	gates     int64
	states    int
	functions []string // the default activations of one direction
	peepholes int      // index of their input; 0: none
	step      func(s *step) []string
}

// step is one time step of one direction, in the body of a Scan.
type step struct {
	*call
	z         string   // [B, gates*H]: the contribution of the inputs to the gates, with biases
	state     []string // [B, H] each: hidden and cell state
	r         string   // [H, gates*H]
	rb        string   // [gates*H], a bias that is not in z; "" for none
	peepholes []string // [H] each
	functions []activation
	clip      float64 // 0: none
}

// recurrent: all directions as Scans over the time steps, with layouts and outputs as in the standard. X [T, B, I], W
// [D, gates*H, I], R [D, gates*H, H], bias [D, 2*gates*H], sequence_lens [B], initial states [D, B, H].
func (c *call) recurrent(k cell) []string {
	x, batchFirst := c.x[0], c.n.Int("layout", 0) != 0
	if batchFirst {
		x = c.transpose(x, 1, 0, 2)
	}
	reverse, hidden := c.recurrentAttrs(x)
	if c.err != nil {
		return nil
	}
	functions := c.activations(len(reverse), k.functions)
	each := func(input int) []string { return c.directions(input, len(reverse)) }
	ws, rs, bs, ps := each(1), each(2), each(3), each(k.peepholes)
	initial := make([][]string, k.states)
	for i := range initial {
		initial[i] = c.initial(5+i, batchFirst, len(reverse), hidden, x)
	}
	if c.err != nil {
		return nil
	}
	mask, some := "", ""
	if c.in(4) != "" { // [T, B, 1]: whether a sequence has the step; [B, 1]: whether it has any
		steps, lengths := c.reshape(c.arange(c.size(x, 0)), -1, 1), c.cast(c.x[4], onnx.Int64)
		mask = c.unsqueeze(c.Op("Less", steps, lengths), 2)
		some = c.unsqueeze(c.Op("Greater", lengths, c.Int(0)), 1)
	}
	ys, last := make([]string, len(reverse)), make([][]string, k.states)
	for i := range reverse {
		d := direction{reverse: reverse[i], peepholes: ps[i], mask: mask, hidden: hidden}
		d.z, d.rb = c.inputGates(k, x, ws[i], bs[i], hidden)
		d.r = c.transpose(rs[i], 1, 0)
		d.functions = functions[i*len(k.functions) : (i+1)*len(k.functions)]
		for j := range k.states {
			d.starts = append(d.starts, initial[j][i])
		}
		out := c.scanCell(k, d)
		if c.err != nil {
			return nil
		}
		ys[i] = c.unsqueeze(out[k.states], 1)
		for j := range k.states {
			h := out[j]
			if some != "" { // ONNX Runtime returns zeros, not the initial states, for a sequence without steps
				h = c.masked(some, h)
			}
			last[j] = append(last[j], c.unsqueeze(h, 0))
		}
	}
	result := []string{c.concat(1, ys...)}
	if batchFirst {
		result[0] = c.transpose(result[0], 2, 0, 1, 3)
	}
	for i := range k.states {
		h := c.concat(0, last[i]...)
		if batchFirst {
			h = c.transpose(h, 1, 0, 2)
		}
		result = append(result, h)
	}
	return result
}

// recurrentAttrs returns whether each direction runs in reverse, and the size of the hidden state.
func (c *call) recurrentAttrs(x string) (reverse []bool, hidden int64) {
	switch d := c.n.Str("direction", "forward"); d {
	case "bidirectional":
		reverse = []bool{false, true}
	case "forward", "reverse":
		reverse = []bool{d == "reverse"}
	default:
		c.fail("needs direction forward, reverse or bidirectional, not %q", d)
		return nil, 0
	}
	if c.rank(x) != 3 || c.rank(c.x[1]) != 3 || c.rank(c.x[2]) != 3 {
		c.fail("needs X, W and R of rank 3")
		return nil, 0
	}
	hidden = c.n.Int("hidden_size", 0)
	switch r := c.value(c.x[2]).Shape[2]; {
	case hidden == 0 && !r.Known():
		c.fail("needs the attribute hidden_size, or the shape of R before the model runs")
	case hidden == 0:
		hidden = r.Size
	case r.Known() && r.Size != hidden:
		c.fail("hidden_size is %d, but R has %d", hidden, r.Size)
	}
	return reverse, hidden
}

// inputGates returns the contribution of the inputs to the gates with their biases, [T, B, gates*H], and the bias of
// the recurrent part if it must be added separately.
func (c *call) inputGates(k cell, x, w, bias string, hidden int64) (z, rb string) {
	z = c.Op("MatMul", x, c.transpose(w, 1, 0))
	if bias == "" {
		return z, ""
	}
	halves := c.Node("", "Split", 2, attrs{"axis": 0}, bias, c.Ints(k.gates*hidden, k.gates*hidden))
	z = c.add(z, halves[0])
	if c.n.Op == "GRU" && c.n.Int("linear_before_reset", 0) != 0 {
		return z, halves[1]
	}
	return c.add(z, halves[1]), ""
}

// direction holds the inputs of the Scan of one direction.
type direction struct {
	reverse   bool
	z         string // [T, B, gates*H]: the contribution of the inputs to the gates, with biases
	r, rb     string // see step
	peepholes string // [3*H]; "" for none
	mask      string // [T, B, 1]: whether a sequence has a step; "" if all sequences have all steps
	starts    []string
	functions []activation
	hidden    int64
}

// directions splits an input along its leading axis of directions; "" for an omitted one.
func (c *call) directions(input, count int) []string {
	parts := make([]string, count)
	if input == 0 || c.in(input) == "" {
		return parts
	}
	sizes := slices.Repeat([]int64{1}, count)
	copy(parts, []string{c.x[input]})
	if count > 1 {
		parts = slices.Clone(c.Node("", "Split", count, attrs{"axis": 0}, c.x[input], c.Ints(sizes...)))
	}
	for i := range parts {
		parts[i] = c.squeeze(parts[i], 0)
	}
	return parts
}

// initial returns the state before the first step by direction, [B, H]: an input, or zeros.
func (c *call) initial(input int, batchFirst bool, count int, hidden int64, x string) []string {
	if c.in(input) == "" {
		zeros := c.full(c.shape(c.size(x, 1), hidden), c.value(x).Type, 0)
		return slices.Repeat([]string{zeros}, count)
	}
	if !batchFirst {
		return c.directions(input, count)
	}
	first := c.transpose(c.x[input], 1, 0, 2)
	parts := make([]string, count)
	for i := range parts {
		parts[i] = c.squeeze(c.Op("Slice", first, c.Ints(int64(i)), c.Ints(int64(i+1)), c.Ints(0)), 0)
	}
	return parts
}

// scanCell emits the Scan of one direction. It returns the last states, and the d.hidden states of all steps.
func (c *call) scanCell(k cell, d direction) []string {
	names := []string{"h", "c"}[:k.states]
	shape := []onnx.Dim{{Size: -1}, onnx.Fixed(d.hidden)}
	if v := c.value(d.z); v.Ranked && v.Shape[1].Known() {
		shape[0] = v.Shape[1]
	}
	b, read := c.scanBody(k, d, names, shape[0])
	results := c.scanStep(k, d, names, b)
	if c.err != nil {
		return nil
	}
	h := &onnx.Value{Type: c.value(d.z).Type, Ranked: true, Shape: shape}
	g, err := b.close(c, results, slices.Repeat([]*onnx.Value{h}, k.states+1))
	if err != nil {
		c.err = err
		return nil
	}
	way := directionFlags(slices.Repeat([]bool{d.reverse}, len(read)-k.states))
	at := attrs{
		"body":                   g,
		"num_scan_inputs":        len(way),
		"scan_input_directions":  way,
		"scan_output_directions": way[:1],
	}
	return c.Node("", "Scan", k.states+1, at, read...)
}

// scanBody makes the Scan's body with its inputs and captures; read are the inputs of the Scan.
func (c *call) scanBody(k cell, d direction, names []string, batch onnx.Dim) (b *body, read []string) {
	t := c.value(d.z).Type
	var inputs []onnx.ValueInfo
	input := func(name string, t onnx.DType, width int64) {
		dims := []onnx.Dim{batch, onnx.Fixed(width)}
		inputs = append(inputs, onnx.ValueInfo{Name: name, Type: t, Shape: dims, Ranked: true})
	}
	for _, name := range names {
		input(name, t, d.hidden)
	}
	input("z", t, k.gates*d.hidden)
	read = append(slices.Clone(d.starts), d.z)
	if d.mask != "" {
		input("mask", onnx.Bool, 1)
		read = append(read, d.mask)
	}
	b = c.newBody(nil, inputs)
	for _, x := range []string{d.r, d.rb, d.peepholes} {
		if x != "" {
			b.capture(c, x, true)
		}
	}
	return b, read
}

// scanStep emits one step of the cell into the body: the next states and the outputs of the step.
func (c *call) scanStep(k cell, d direction, names []string, b *body) []string {
	types, err := onnx.Infer(b.m)
	if err != nil {
		c.err = err
		return nil
	}
	e := newEngine(b.m, types)
	s := &step{
		call:      &call{Builder: e.b, e: e, n: c.n},
		z:         "z",
		state:     names,
		r:         d.r,
		rb:        d.rb,
		functions: d.functions,
		clip:      float64(c.n.Float("clip", 0)),
	}
	if d.peepholes != "" {
		s.peepholes = s.Node("", "Split", 3, attrs{"axis": 0}, d.peepholes, s.Ints(d.hidden, d.hidden, d.hidden))
	}
	next := k.step(s)
	y := next[0]
	if d.mask != "" { // a sequence that has ended keeps its state and outputs zeros
		y = s.masked("mask", y)
		for i := range next {
			next[i] = s.where("mask", next[i], names[i])
		}
	}
	if c.err = s.err; c.err == nil {
		c.err = e.sync()
	}
	return append(slices.Clone(next), y)
}

// split splits x into n gates.
func (s *step) split(x string, n int) []string {
	width := s.value(x).Shape[1].Size / int64(n)
	return s.Node("", "Split", n, attrs{"axis": 1}, x, s.Ints(slices.Repeat([]int64{width}, n)...))
}

// f returns activation i of a gate's sum, which is clipped first.
func (s *step) f(i int, x string) string {
	if s.clip != 0 {
		x = s.Op("Clip", x, s.scalarLike(x, -s.clip), s.scalarLike(x, s.clip))
	}
	return s.functions[i].apply(s.call, x)
}

// H = f(X W' + H R' + b)
func rnnStep(s *step) []string {
	return []string{s.f(0, s.add(s.z, s.Op("MatMul", s.state[0], s.r)))}
}

// z, r = f(X W' + H R' + b), n = g(X Wn' + (r H) Rn' + b) or, with linear_before_reset, g(X Wn' + r (H Rn' + Rb) + Wb);
// H = (1 - z) n + z H
func gruStep(s *step) []string {
	h := s.state[0]
	hidden := s.value(h).Shape[1].Size
	gates := s.Node("", "Split", 2, attrs{"axis": 1}, s.z, s.Ints(2*hidden, hidden))
	if s.n.Int("linear_before_reset", 0) != 0 {
		hr := s.Op("MatMul", h, s.r)
		if s.rb != "" {
			hr = s.add(hr, s.rb)
		}
		parts := s.Node("", "Split", 2, attrs{"axis": 1}, hr, s.Ints(2*hidden, hidden))
		zr := s.split(s.f(0, s.add(gates[0], parts[0])), 2)
		return []string{s.mix(zr[0], s.f(1, s.add(gates[1], s.mul(zr[1], parts[1]))), h)}
	}
	r := s.Node("", "Split", 2, attrs{"axis": 1}, s.r, s.Ints(2*hidden, hidden))
	zr := s.split(s.f(0, s.add(gates[0], s.Op("MatMul", h, r[0]))), 2)
	return []string{s.mix(zr[0], s.f(1, s.add(gates[1], s.Op("MatMul", s.mul(zr[1], h), r[1]))), h)}
}

// mix returns (1 - z) a + z b.
func (s *step) mix(z, a, b string) string { return s.add(s.mul(s.oneMinus(z), a), s.mul(z, b)) }

// i, o, f, c = X W' + H R' + b: C = f(f + Pf C) C + f(i + Pi C) g(c), H = f(o + Po C) h(C)
func lstmStep(s *step) []string {
	before := s.state[1]
	g := s.split(s.add(s.z, s.Op("MatMul", s.state[0], s.r)), 4)
	peep := func(gate, i int, c string) string {
		if s.peepholes == nil {
			return g[gate]
		}
		return s.add(g[gate], s.mul(s.peepholes[i], c))
	}
	in := s.f(0, peep(0, 0, before))
	forget := s.oneMinus(in)
	if s.n.Int("input_forget", 0) == 0 {
		forget = s.f(0, peep(2, 2, before))
	}
	c := s.add(s.mul(forget, before), s.mul(in, s.f(1, g[3])))
	return []string{s.mul(s.f(0, peep(1, 1, c)), s.functions[2].apply(s.call, c)), c}
}
