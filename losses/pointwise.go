package losses

import (
	"math"

	"assay/onnx"
)

// pointwise are the losses over single edits: s is score01, y the label in 0..1. With votes: soft, an edit with n
// ratings has an item for each rating, with 1/n of its weight. So the cross-entropy of classes is relative to the
// distribution of the ratings (torch.nn.CrossEntropyLoss with probabilities as target), and gaussian learns sigma
// from their spread.
var pointwise = []Row{
	{
		Kind: "l1", Over: Edits, Outputs: Value, Options: []string{"votes"},
		Formula: "|s - y|",
		Source:  "torch.nn.L1Loss; ADIEE's loss",
		build:   func(t *term) string { return t.Op("Abs", t.sub(t.score(), t.label())) },
	},
	{
		Kind: "mse", Over: Edits, Outputs: Value, Options: []string{"votes"},
		Formula: "(s - y)^2",
		Source:  "torch.nn.MSELoss",
		build:   func(t *term) string { return t.square(t.sub(t.score(), t.label())) },
	},
	{
		Kind: "huber", Over: Edits, Outputs: Value, Options: []string{"delta", "votes"},
		Formula: "(s - y)^2/2 within delta, else delta (|s - y| - delta/2)",
		Source:  "torch.nn.HuberLoss (Huber, 1964)",
		build:   huber,
	},
	{
		Kind: "bce", Over: Edits, Outputs: Value, Options: []string{"scale", "center", "votes"},
		Formula: "-y log sigmoid(x) - (1 - y) log sigmoid(-x)",
		Source:  "torch.nn.BCEWithLogitsLoss; y may lie between 0 and 1",
		build:   binaryCrossEntropy,
	},
	{
		Kind: "classes", Over: Edits, Outputs: Classes, Options: []string{"votes"},
		Formula: "-log softmax(z)_k, k the class whose value is nearest to y",
		Source:  "torch.nn.CrossEntropyLoss; ADIEE's classifier",
		build:   classes,
	},
	{
		Kind: "ordinal", Over: Edits, Outputs: Value, Options: []string{"scale", "values", "cuts", "votes"},
		Formula: "-log(sigmoid(scale (c_k+1 - s)) - sigmoid(scale (c_k - s))), k the class of y, c the means of " +
			"neighbouring values, or learned",
		Source: "cumulative logits: McCullagh, Regression Models for Ordinal Data, 1980; `cuts`: fixed or learned",
		build:  ordinal,
	},
	{
		Kind: "gaussian", Over: Edits, Outputs: MuSigma, Options: []string{"votes"},
		Formula: "((y - mu)/sigma)^2/2 + log sigma",
		Source: "torch.nn.GaussianNLLLoss with the variance sigma^2 (Nix and Weigend, 1994); log sigma is kept within " +
			"-10..10",
		build: gaussian,
	},
}

// huber is m (|d| - m/2) with m = min(|d|, delta): one formula for both cases.
func huber(t *term) string {
	d := t.Op("Abs", t.sub(t.score(), t.label()))
	m := t.Op("Min", d, t.num(t.Delta))
	return t.mul(m, t.sub(d, t.times(m, 0.5)))
}

// binaryCrossEntropy is a sum of two positive parts: nothing cancels, however large x is.
func binaryCrossEntropy(t *term) string {
	x, y := t.logit(t.score()), t.label()
	return t.add(t.mul(y, t.softplus(t.Op("Neg", x))), t.mul(t.oneMinus(y), t.softplus(x)))
}

func classes(t *term) string {
	k := len(t.head.Values)
	class := t.input("class", onnx.Dims("items", k)) // class probabilities
	logp := t.OpA("LogSoftmax", onnx.Attrs{"axis": -1}, t.edits(t.head.Z))
	return t.Op("Neg", t.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, t.mul(class, logp), t.Ints(1)))
}

// ordinal: with a = scale (c_k - s) and b = scale (c_k+1 - s),
// sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - e^(a-b)), where a - b is a constant of the class. The outer
// classes have one side only.
func ordinal(t *term) string {
	if t.Cuts == CutsLearned {
		return ordinalLearned(t)
	}
	s, step, n := t.score(), t.declare("step", onnx.Int64, onnx.Dims("items")), len(t.Values)
	of := func(constants []float64) string {
		return t.OpA("Gather", onnx.Attrs{"axis": 0}, t.Numbers(t.dtype, []int64{int64(n)}, constants...), step)
	}
	upper, lower, between := make([]float64, n), make([]float64, n), make([]float64, n)
	hasUpper, hasLower := make([]float64, n), make([]float64, n)
	for k := range n - 1 {
		cut := (t.Values[k] + t.Values[k+1]) / 2
		upper[k], lower[k+1], hasUpper[k], hasLower[k+1] = cut, cut, 1, 1
	}
	for k := 1; k < n-1; k++ {
		between[k] = -math.Log(-math.Expm1(-t.Scale * (upper[k] - lower[k])))
	}
	below := t.mul(of(hasUpper), t.softplus(t.times(t.sub(s, of(upper)), t.Scale)))
	above := t.mul(of(hasLower), t.softplus(t.times(t.sub(of(lower), s), t.Scale)))
	return t.add(t.add(below, above), of(between))
}

func gaussian(t *term) string {
	l := t.edits(t.logSigma())
	z := t.mul(t.sub(t.label(), t.score()), t.Op("Exp", t.Op("Neg", l)))
	return t.add(t.times(t.square(z), 0.5), l)
}
