package lora

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

const (
	wholeSVD   = 640  // smaller side up to which all singular values are computed; above it, only the largest
	iterations = 40   // maximum
	converged  = 1e-7 // maximum residual of a singular vector, relative to the largest singular value
)

// leading returns the k largest singular values of a matrix with their left and right vectors in columns. ok reports
// convergence up to rounding. Large matrices use subspace iteration with W W', algorithm 4.4 of Halko, Martinsson and
// Tropp, Finding Structure with Randomness, 2011, from a fixed start.
func leading(w *mat.Dense, k int) (u, v *mat.Dense, values []float64, ok bool) {
	out, in := w.Dims()
	if min(out, in) <= wholeSVD {
		return thinSVD(w, k)
	}
	width := min(2*k+8, min(out, in))
	rng := rand.New(rand.NewPCG(1, 0x5fd))
	q := mat.NewDense(out, width, nil)
	q.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, q)
	for range iterations {
		q = orthonormal(q)
		var back, next mat.Dense
		back.Mul(w.T(), q) // [in, width]
		small, right, sizes, _ := thinSVD(mat.DenseCopyOf(back.T()), k)
		if sizes == nil {
			return nil, nil, nil, false
		}
		u, v, values = new(mat.Dense), right, sizes
		u.Mul(q, small)
		if residual(w, u, v, values) <= converged*values[0] {
			return u, v, values, true
		}
		next.Mul(w, &back)
		q = &next
	}
	return u, v, values, false
}

// residual returns the largest |W v - s u| over pairs of singular vectors.
func residual(w, u, v *mat.Dense, values []float64) float64 {
	var wv mat.Dense
	wv.Mul(w, v)
	worst := 0.0
	for k, s := range values {
		sum := 0.0
		for i := range wv.RawMatrix().Rows {
			d := wv.At(i, k) - s*u.At(i, k)
			sum += d * d
		}
		worst = max(worst, math.Sqrt(sum))
	}
	return worst
}

// orthonormal returns Q of m = Q R, with as many columns as m, by LAPACK's Householder reflections.
func orthonormal(m *mat.Dense) *mat.Dense {
	q := mat.DenseCopyOf(m)
	raw := q.RawMatrix()
	tau, size := make([]float64, raw.Cols), make([]float64, 1)
	lapack64.Geqrf(raw, tau, size, -1)
	work := make([]float64, int(size[0]))
	lapack64.Geqrf(raw, tau, work, len(work))
	lapack64.Orgqr(raw, tau, size, -1)
	work = make([]float64, int(size[0]))
	lapack64.Orgqr(raw, tau, work, len(work))
	return q
}

// thinSVD returns the first k singular values and vectors; values is nil if the decomposition fails.
func thinSVD(w *mat.Dense, k int) (u, v *mat.Dense, values []float64, ok bool) {
	var svd mat.SVD
	if !svd.Factorize(w, mat.SVDThin) {
		return nil, nil, nil, false
	}
	u, v = new(mat.Dense), new(mat.Dense)
	svd.UTo(u)
	svd.VTo(v)
	first := func(m *mat.Dense) *mat.Dense {
		rows, _ := m.Dims()
		return mat.DenseCopyOf(m.Slice(0, rows, 0, k))
	}
	return first(u), first(v), svd.Values(nil)[:k], true
}
