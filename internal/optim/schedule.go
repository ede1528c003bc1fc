package optim

import "math"

// Schedule is the learning rate of every step. With w warm-up steps, T steps in all, peak p and end e:
//
//	t < w:      p (t + 1)/w
//	constant:   p
//	linear:     e + (p - e) (1 - (t - w)/(T - w))
//	cosine:     e + (p - e) (1 + cos(pi (t - w)/(T - w)))/2
//	restarts:   e + (p - e) (1 + cos(pi (n (t - w)/(T - w) mod 1)))/2, n cycles, each from the peak
//	wsd:        p until the last d steps, then e + (p - e) (T - t)/d (warm-up, stable, decay)
//	plateau:    max(e, p f^c), c the cuts so far: see Plateau
//
// t counts from 0: the rate of the first step is already above 0, and e would be reached at t = T, the step after the
// last.
type Schedule struct {
	Kind   string  // constant, linear, cosine, restarts, wsd, plateau
	Peak   float64 // p
	End    float64 // e
	Warmup int64   // w
	Total  int64   // T
	Cycles int64   // n
	Decay  int64   // d
	Factor float64 // f
	Cuts   int64   // c
}

// Scaled returns the same schedule with its rates multiplied by a factor.
func (s Schedule) Scaled(by float64) Schedule {
	s.Peak, s.End = s.Peak*by, s.End*by
	return s
}

// LR returns the learning rate of step t.
func (s Schedule) LR(t int64) float64 {
	if t < s.Warmup {
		return s.Peak * float64(t+1) / float64(s.Warmup)
	}
	x := float64(t-s.Warmup) / math.Max(1, float64(s.Total-s.Warmup))
	switch s.Kind {
	case "linear":
		return s.End + (s.Peak-s.End)*(1-x)
	case "cosine":
		return s.End + (s.Peak-s.End)*(1+math.Cos(math.Pi*x))/2
	case "restarts":
		_, x = math.Modf(x * float64(s.Cycles))
		return s.End + (s.Peak-s.End)*(1+math.Cos(math.Pi*x))/2
	case "wsd":
		if left := s.Total - t; left < s.Decay {
			return s.End + (s.Peak-s.End)*float64(left)/float64(s.Decay)
		}
	case "plateau":
		lr := s.Peak
		for range s.Cuts {
			lr = max(lr*s.Factor, s.End)
		}
		return lr
	}
	return s.Peak
}
