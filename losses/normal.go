package losses

import "math"

// logNormal returns log Phi(x), Phi the normal distribution, without cancellation on either side. With u =
// |x|/sqrt(2) and r(u) = erfcx(u)/2 = e^(u^2) Phi(-|x|), a series divided by 2 (1 + sqrt(pi) u):
//
//	x < 0:  -u^2 + log r(u)
//	else:   log(1 - e^(-u^2) r(u))
func (t *term) logNormal(x string) string {
	negative := t.Op("Less", x, t.num(0))
	u := t.times(t.Op("Where", negative, t.Op("Neg", x), x), math.Sqrt(0.5)) // unlike Abs, with a derivative at 0
	v := t.Op("Div", t.sub(u, t.num(2)), t.add(u, t.num(2)))
	r := t.Op("Div", t.times(t.chebyshev(v, normalSeries), 0.5), t.add(t.times(u, math.Sqrt(math.Pi)), t.num(1)))
	square := t.Op("Neg", t.square(u))
	below := t.add(square, t.Op("Log", r))
	above := t.Op("Log", t.oneMinus(t.mul(t.Op("Exp", square), r)))
	return t.Op("Where", negative, below, above)
}

// chebyshev sums c_k T_k(v) by Clenshaw's recurrence.
func (t *term) chebyshev(v string, c []float64) string {
	twice := t.times(v, 2)
	var next, after string // b_k+1, b_k+2
	for k := len(c) - 1; k > 0; k-- {
		b := t.num(c[k])
		if next != "" {
			b = t.add(t.mul(twice, next), b)
		}
		if after != "" {
			b = t.sub(b, after)
		}
		next, after = b, next
	}
	return t.add(t.sub(t.mul(v, next), after), t.num(c[0]))
}
