package stats

import "math"

// BradleyTerry returns the strengths s of contestants by maximum likelihood, P(i beats j) = 1 / (1 + exp(s_j - s_i)),
// with mean 0. wins[i][j] counts how often i beat j; a tie is half a win for each. All are NaN if there is no
// maximum: if some never won against the others, or never lost (Ford 1957). Minorisation-maximisation (Hunter 2004).
func BradleyTerry(wins [][]float64) []float64 {
	n := len(wins)
	s := make([]float64, n)
	if !reachAll(n, func(i, j int) bool { return wins[i][j] > 0 }) ||
		!reachAll(n, func(i, j int) bool { return wins[j][i] > 0 }) {
		for i := range s {
			s[i] = math.NaN()
		}
		return s
	}
	p, next := make([]float64, n), make([]float64, n)
	for i := range p {
		p[i] = 1
	}
	for range 100000 {
		change, logs := 0.0, 0.0
		for i := range p {
			won, met := 0.0, 0.0
			for j := range p {
				if j != i {
					won += wins[i][j]
					met += (wins[i][j] + wins[j][i]) / (p[i] + p[j])
				}
			}
			next[i] = won / met
			if n == 1 {
				next[i] = 1
			}
			logs += math.Log(next[i]) / float64(n)
		}
		for i := range p {
			next[i] /= math.Exp(logs)
			change = max(change, math.Abs(math.Log(next[i]/p[i])))
		}
		p, next = next, p
		if change < 1e-12 {
			break
		}
	}
	for i := range s {
		s[i] = math.Log(p[i])
	}
	return s
}

// reachAll reports whether all of n nodes can be reached from the first.
func reachAll(n int, edge func(i, j int) bool) bool {
	seen, stack, count := make([]bool, n), []int{0}, 1
	if n == 0 {
		return true
	}
	seen[0] = true
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for j := range n {
			if !seen[j] && edge(i, j) {
				seen[j] = true
				count++
				stack = append(stack, j)
			}
		}
	}
	return count == n
}

// KendallB returns Kendall's rank correlation tau-b, NaN if one of the lists is constant or shorter than two.
func KendallB(x, y []float64) float64 {
	var agree, xTies, yTies, pairs float64
	for i := range x {
		for j := range i {
			a, b := x[i]-x[j], y[i]-y[j]
			pairs++
			switch {
			case a == 0 && b == 0:
				xTies++
				yTies++
			case a == 0:
				xTies++
			case b == 0:
				yTies++
			case (a > 0) == (b > 0):
				agree++
			default:
				agree--
			}
		}
	}
	below := math.Sqrt((pairs - xTies) * (pairs - yTies))
	if below == 0 {
		return math.NaN()
	}
	return agree / below
}
