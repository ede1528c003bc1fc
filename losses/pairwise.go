package losses

import (
	"math"

	"assay/onnx"
)

// pairwise are the losses over two edits a and b of a group. d = scale (s_a - s_b). w, t and l are the shares of the
// votes for a, for a tie and for b (they sum to 1). p = w + t/2.
var pairwise = []Row{
	{
		Kind: "bradley_terry", Over: Pairs, Outputs: Value, Options: []string{"scale", "votes"},
		Formula: "-p log sigmoid(d) - (1 - p) log sigmoid(-d)",
		Source:  "Bradley and Terry, 1952; TRL's RewardTrainer. A tie is half a win of each",
		build:   func(t *term) string { return t.win(t.difference()) },
	},
	{
		Kind: "bradley_terry_margin", Over: Pairs, Outputs: Value, Options: []string{"scale", "margin", "votes"},
		Formula: "-p log sigmoid(d - m) - (1 - p) log sigmoid(-d - m), m the pair's margin times `margin`",
		Source:  "Touvron et al., Llama 2, 2023; TRL's RewardTrainer with a margin column",
		build:   withMargin,
	},
	{
		Kind: "rao_kupper", Over: Pairs, Outputs: Value, Options: []string{"scale", "theta", "votes"},
		Formula: "-w log P(a) - t log P(tie) - l log P(b); P(a) = sigmoid(d - log theta), P(b) = sigmoid(-d - log theta), " +
			"P(tie) = (theta^2 - 1) P(a) P(b)",
		Source: "Rao and Kupper, Ties in Paired-Comparison Experiments, 1967",
		build:  raoKupper,
	},
	{
		Kind: "davidson", Over: Pairs, Outputs: Value, Options: []string{"scale", "nu", "votes"},
		Formula: "-w log P(a) - t log P(tie) - l log P(b); (P(a), P(tie), P(b)) = softmax(d/2, log nu, -d/2)",
		Source:  "Davidson, On Extending the Bradley-Terry Model to Accommodate Ties, 1970",
		build:   davidson,
	},
	{
		Kind: "thurstone", Over: Pairs, Outputs: MuSigma, Options: []string{"votes"},
		Formula: "-p log Phi(x) - (1 - p) log Phi(-x); " +
			"x = (mu_a - mu_b)/sqrt(sigma_a^2 + sigma_b^2), Phi the normal distribution",
		Source: "Thurstone, A Law of Comparative Judgment, 1927 (case III): " +
			"closed form of P(a normal draw of a beats one of b)",
		build: thurstone,
	},
	{
		Kind: "gaussian_logistic", Over: Pairs, Outputs: MuSigma, Options: []string{"scale", "votes"},
		Formula: "-p log sigmoid(x) - (1 - p) log sigmoid(-x); x = d/sqrt(1 + pi/8 scale^2 (sigma_a^2 + sigma_b^2))",
		Source: "MacKay, The Evidence Framework Applied to Classification Networks, 1992: " +
			"closed form near E sigmoid(D), D normal",
		build: gaussianLogistic,
	},
	{
		Kind: "gaussian_draws", Over: Pairs, Outputs: MuSigma, Options: []string{"scale", "draws", "votes"},
		Formula: "mean over draws z of -p log sigmoid(x_z) - (1 - p) log sigmoid(-x_z); " +
			"x_z = scale (z sqrt(sigma_a^2 + sigma_b^2) + mu_a - mu_b)",
		Source: "EditReward and HPSv3, which have scale 1 and 1,000 normal draws. The draws are a function of seed and step",
		build:  gaussianDraws,
	},
	{
		Kind: "center", Over: Pairs, Outputs: Value, Options: []string{"scale", "center"},
		Formula: "(x_a + x_b)^2",
		Source:  "Eisenstein et al., Helping or Herding?, 2023; TRL's center_rewards_coefficient: it is the weight",
		build: func(t *term) string {
			return t.square(t.add(t.logit(t.side("a")), t.logit(t.side("b"))))
		},
	},
}

// side returns score01 of one side of each pair [items]. An edit may be in several pairs.
func (t *term) side(index string) string { return t.gather(t.head.Score, index, false) }

// difference returns d [items].
func (t *term) difference() string { return t.times(t.sub(t.side("a"), t.side("b")), t.Scale) }

// better returns p [items] and its counterpart 1 - p.
func (t *term) better() (p, rest string) {
	p = t.input("better", onnx.Dims("items"))
	return p, t.oneMinus(p)
}

// win returns the cross-entropy of p and sigmoid(d).
func (t *term) win(d string) string {
	p, rest := t.better()
	return t.add(t.mul(p, t.softplus(t.Op("Neg", d))), t.mul(rest, t.softplus(d)))
}

func withMargin(t *term) string {
	p, rest := t.better()
	d, m := t.difference(), t.times(t.input("margin", onnx.Dims("items")), t.Margin)
	return t.add(t.mul(p, t.softplus(t.sub(m, d))), t.mul(rest, t.softplus(t.add(m, d))))
}

// raoKupper: -log P(a) = softplus(log theta - d), -log P(b) = softplus(log theta + d). A tie has both, up to a
// constant: in total (w + t) times the first, (l + t) times the second, and -t log(theta^2 - 1).
func raoKupper(t *term) string {
	d, tie := t.difference(), t.input("tie", onnx.Dims("items"))
	h := t.num(math.Log(t.Theta))
	won := t.add(t.input("win", onnx.Dims("items")), tie)
	lost := t.add(t.input("loss_share", onnx.Dims("items")), tie)
	sum := t.add(t.mul(won, t.softplus(t.sub(h, d))), t.mul(lost, t.softplus(t.add(h, d))))
	return t.sub(sum, t.times(tie, math.Log(t.Theta*t.Theta-1)))
}

func davidson(t *term) string {
	half := t.Op("Unsqueeze", t.times(t.difference(), 0.5), t.Ints(1))
	neither := t.add(t.mul(half, t.num(0)), t.num(math.Log(t.Nu)))
	logp := t.OpA("LogSoftmax", onnx.Attrs{"axis": -1},
		t.OpA("Concat", onnx.Attrs{"axis": 1}, half, neither, t.Op("Neg", half)))
	outcome := t.input("outcome", onnx.Dims("items", 3))
	return t.Op("Neg", t.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, t.mul(outcome, logp), t.Ints(1)))
}

// variance returns sigma_a^2 + sigma_b^2 [items].
func (t *term) variance() string {
	v := t.Op("Exp", t.times(t.logSigma(), 2))
	return t.add(t.gather(v, "a", false), t.gather(v, "b", false))
}

func thurstone(t *term) string {
	x := t.Op("Div", t.sub(t.side("a"), t.side("b")), t.Op("Sqrt", t.variance()))
	p, rest := t.better()
	return t.Op("Neg", t.add(t.mul(p, t.logNormal(x)), t.mul(rest, t.logNormal(t.Op("Neg", x)))))
}

func gaussianLogistic(t *term) string {
	spread := t.add(t.num(1), t.times(t.variance(), math.Pi/8*t.Scale*t.Scale))
	return t.win(t.Op("Div", t.difference(), t.Op("Sqrt", spread)))
}

func gaussianDraws(t *term) string {
	z := t.Op("Unsqueeze", t.input("draws", onnx.Dims(t.Draws)), t.Ints(0))
	column := func(x string) string { return t.Op("Unsqueeze", x, t.Ints(1)) }
	x := t.add(t.mul(column(t.times(t.Op("Sqrt", t.variance()), t.Scale)), z), column(t.difference())) // [items, draws]
	mean := func(x string) string {
		return t.OpA("ReduceMean", onnx.Attrs{"keepdims": 0}, t.softplus(x), t.Ints(1))
	}
	p, rest := t.better()
	return t.add(t.mul(p, mean(t.Op("Neg", x))), t.mul(rest, mean(x)))
}
