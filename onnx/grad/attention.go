package grad

import (
	"cmp"
	"maps"
	"math"

	"assay/onnx"
)

var attentionRules = []entry{
	{op: "RotaryEmbedding", since: 23, nonDifferentiable: []int{3}, rule: rotaryRule, decompose: rotary},
	{
		op:                "RotaryEmbedding",
		domain:            microsoft,
		nonDifferentiable: []int{1},
		rule:              microsoftRotaryRule,
		note:              "with respect to the data",
	},
	{op: "Attention", since: 23, outputs: 4, nonDifferentiable: []int{6}, decompose: attention},
}

// The inverse of a rotation is the rotation by the negative angle: dX = rotate(dY, cos, -sin).
func rotaryRule(c *call) []string {
	if c.needs(1) || c.needs(2) {
		return nil
	}
	at := attrs{}
	maps.Copy(at, c.n.Attrs)
	return []string{c.OpA("RotaryEmbedding", at, c.dy[0], c.x[1], c.neg(c.x[2]), c.in(3))}
}

// The older operator has the position ids before the tables.
func microsoftRotaryRule(c *call) []string {
	if c.needs(2) || c.needs(3) {
		return c.fail("has no gradient with respect to the tables")
	}
	at := attrs{}
	maps.Copy(at, c.n.Attrs)
	return c.Node(microsoft, "RotaryEmbedding", 1, at, c.dy[0], c.x[1], c.x[2], c.neg(c.x[3]))
}

// rotary: x [B, heads, S, D] or [B, S, heads*D]. The first r elements of a head are pairs (a, b), halves or neighbours,
// that become (a cos - b sin, a sin + b cos).
func rotary(c *call) []string {
	x, cos, sin := c.x[0], c.x[1], c.x[2]
	flat := c.rank(x) == 3
	if flat {
		if c.n.Int("num_heads", 0) == 0 {
			return c.fail("needs num_heads for an input of rank 3")
		}
		x = c.heads(x, c.n.Int("num_heads", 0))
	}
	if c.in(3) != "" {
		cos, sin = c.Op("Gather", cos, c.x[3]), c.Op("Gather", sin, c.x[3])
	}
	cos, sin = c.unsqueeze(cos, 1), c.unsqueeze(sin, 1)
	d := c.value(x).Shape[3]
	if c.err != nil || !d.Known() {
		return c.fail("needs the head size of %q", c.x[0])
	}
	r, rest := c.n.Int("rotary_embedding_dim", 0), ""
	r = cmp.Or(r, d.Size)
	if r < d.Size {
		parts := c.Node("", "Split", 2, attrs{"axis": -1}, x, c.Ints(r, d.Size-r))
		x, rest = parts[0], parts[1]
	}
	pairs, axis := c.reshape(x, 0, c.size(x, 1), c.size(x, 2), 2, r/2), int64(3)
	if c.n.Int("interleaved", 0) != 0 {
		pairs, axis = c.reshape(x, 0, c.size(x, 1), c.size(x, 2), r/2, 2), 4
	}
	ab := c.Node("", "Split", 2, attrs{"axis": axis}, pairs, c.Ints(1, 1))
	a, b := c.squeeze(ab[0], axis), c.squeeze(ab[1], axis)
	first, second := c.sub(c.mul(a, cos), c.mul(b, sin)), c.add(c.mul(a, sin), c.mul(b, cos))
	y := c.reshapeLike(c.concat(axis, c.unsqueeze(first, axis), c.unsqueeze(second, axis)), x)
	if rest != "" {
		y = c.concat(3, y, rest)
	}
	if flat {
		y = c.reshapeLike(c.transpose(y, 0, 2, 1, 3), c.x[0])
	}
	return []string{y}
}

// heads: [B, S, n*D] -> [B, n, S, D]
func (c *call) heads(x string, n int64) string {
	return c.transpose(c.reshape(x, 0, 0, n, -1), 0, 2, 1, 3)
}

// attention: softmax(softcap(q k' scale) + mask) v, in the order in which ONNX Runtime computes it. Query heads that
// share a key head are rows of one product, so keys are not repeated. A row whose keys are all masked is zeros.
func attention(c *call) []string {
	q, k, v := c.x[0], c.x[1], c.x[2]
	flat := c.rank(q) == 3
	if flat {
		nq, nk := c.n.Int("q_num_heads", 0), c.n.Int("kv_num_heads", 0)
		q, k, v = c.heads(q, nq), c.heads(k, nk), c.heads(v, nk)
	}
	past := ""
	if c.in(4) != "" {
		past = c.size(c.x[4], 2)
		k, v = c.concat(2, c.x[4], k), c.concat(2, c.x[5], v)
	}
	if c.err != nil {
		return nil
	}
	heads, kv, d := c.value(q).Shape[1], c.value(k).Shape[1], c.value(q).Shape[3]
	if !heads.Known() || !kv.Known() || !d.Known() {
		return c.fail("needs the numbers of heads and the head size")
	}
	scale := float64(c.n.Float("scale", float32(1/math.Sqrt(float64(d.Size)))))
	rows, columns := c.size(q, 2), c.size(k, 2)
	grouped := func(t string, width any) string { // [B, heads, S, w] -> [B, kv, heads/kv*S, w]
		if heads == kv {
			return t
		}
		return c.reshape(t, 0, kv.Size, -1, width)
	}
	scores := c.Op("MatMul", grouped(c.scale(q, scale), d.Size), c.transpose(k, 0, 1, 3, 2))
	if heads != kv {
		scores = c.reshape(scores, 0, heads.Size, -1, columns)
	}
	raw := scores
	if limit := float64(c.n.Float("softcap", 0)); limit > 0 {
		scores = c.scale(c.Op("Tanh", c.scale(scores, 1/limit)), limit)
	}
	capped := scores
	masked, p := c.attentionWeights(scores, rows, columns, past)
	y := c.Op("MatMul", grouped(p, columns), v)
	if heads != kv {
		y = c.reshape(y, 0, heads.Size, rows, -1)
	}
	if flat {
		y = c.reshape(c.transpose(y, 0, 2, 1, 3), 0, 0, -1)
	}
	steps := []string{raw, capped, masked, p}
	return []string{y, k, v, steps[min(max(c.n.Int("qk_matmul_output_mode", 0), 0), 3)]}
}

// attentionWeights: masked = scores + mask, p = softmax(masked), with zeros for rows that attend to no key.
func (c *call) attentionWeights(scores, rows, columns, past string) (masked, p string) {
	added, seen, none := c.attentionMask(rows, columns, past)
	if added != "" {
		scores = c.add(scores, added)
	}
	masked = scores
	if seen != "" {
		hidden := c.scalarLike(scores, math.Inf(-1))
		masked = c.where(seen, scores, hidden)
		if none != "" { // keep such a row finite: no NaN in the gradient of its softmax
			scores = c.where(c.Op("Or", seen, none), scores, hidden)
		} else {
			scores = masked
		}
	}
	t := c.value(scores).Type
	p = c.OpA("Softmax", attrs{"axis": -1}, c.cast(scores, onnx.DType(c.n.Int("softmax_precision", int64(t)))))
	if none != "" {
		p = c.masked(c.Op("Not", none), p)
	}
	return masked, c.cast(p, t)
}

// attentionMask returns the part of an Attention's mask that is added to the scores, the keys that each row attends
// to, and the rows that attend to none. "" means nothing, all keys, and no row, respectively. They broadcast to [B,
// heads, rows, columns].
func (c *call) attentionMask(rows, columns, past string) (added, seen, none string) {
	and := func(cond string) {
		if seen == "" {
			seen = cond
		} else {
			seen = c.Op("And", seen, cond)
		}
	}
	if mask := c.in(3); mask != "" {
		if c.value(mask).Type == onnx.Bool {
			and(c.padMask(mask, columns, c.Scalar(onnx.Bool, 0)))
		} else {
			mask = c.padMask(mask, columns, c.scalarLike(mask, math.Inf(-1)))
			hidden := c.OpA("IsInf", attrs{"detect_positive": 0}, mask)
			// The runtime's IsInf supports only these types.
			if t := c.value(mask).Type; t != onnx.Float && t != onnx.Double {
				hidden = c.OpA("IsInf", attrs{"detect_positive": 0}, c.cast(mask, onnx.Float))
			}
			added = c.where(hidden, c.scalarLike(mask, 0), mask)
			and(c.Op("Not", hidden))
		}
	}
	// Query i is at position i + offset among the keys: after the past, or at the end of the keys that are not
	// padding.
	place := c.unsqueeze(c.arange(rows), 1)
	valid := ""
	if c.in(6) != "" {
		valid = c.unsqueeze(c.cast(c.x[6], onnx.Int64), 1, 2, 3)
	}
	switch {
	case past != "":
		place = c.add(place, past)
	case valid != "":
		place = c.add(place, c.sub(valid, rows))
	}
	key := c.arange(columns)
	plain := seen == "" && valid == ""
	if c.n.Int("is_causal", 0) != 0 {
		and(c.Op("LessOrEqual", key, place))
	}
	left, right := c.n.Int("left_window_size", -1), c.n.Int("right_window_size", -1)
	if left >= 0 {
		and(c.Op("LessOrEqual", c.sub(place, c.Int(left)), key))
	}
	if right >= 0 {
		and(c.Op("LessOrEqual", key, c.add(place, c.Int(right))))
	}
	if valid != "" {
		and(c.Op("Less", key, valid))
	}
	if seen == "" || plain && left < 0 { // the first key is seen by all
		return added, seen, ""
	}
	any := c.reduce("ReduceMax", c.cast(seen, onnx.Float), []int64{-1}, true)
	return added, seen, c.Op("Less", any, c.Scalar(onnx.Float, 0.5))
}

// padMask pads a mask that is shorter than the keys: the remaining keys are masked.
func (c *call) padMask(mask, columns, hidden string) string {
	r := c.rank(mask)
	if r < 1 {
		c.fail("needs a mask of rank 1 or more")
		return mask
	}
	have := c.value(mask).Shape[r-1]
	want, fixed := c.value(columns).Known()
	if fixed && have.Known() && have.Size == want[0] || have.Name != "" && have.Name == c.symbol(columns) {
		return mask
	}
	before := make([]int64, 2*r-1)
	return c.Op("Pad", mask, c.shape(c.Ints(before...), c.sub(columns, c.size(mask, r-1))), hidden)
}

// symbol returns the name of an unknown size, "" if it has none.
func (c *call) symbol(size string) string {
	if v := c.value(size).Ints; len(v) == 1 && !v[0].Known {
		return v[0].Name
	}
	return ""
}
