package losses

import "assay/onnx"

// listwise are the losses over orders: all edits of a group at once.
var listwise = []Row{
	{
		Kind: "plackett_luce", Over: Orders, Outputs: Value, Options: []string{"scale", "ties"},
		Formula: "sum over the edits i of an order of log sum_j e^(x_j - x_i), j the edits that are not better than i",
		Source: "Plackett, 1975; Luce, 1959. ties: breslow counts equal ones as still to come (Breslow, 1974, for Cox's " +
			"likelihood, which is this one); ties: refuse makes a tie an error of its group",
		build: plackettLuce,
	},
}

// plackettLuce has one row for each edit that can be compared with others: the choice of this edit among the edits
// that are not better. others is 0 for these, and far below any score for all other edits of the run. The score of
// the chosen edit is subtracted first: only differences matter, and scores may be large.
func plackettLuce(t *term) string {
	x := t.times(t.head.Score, t.Scale)
	chosen := t.Op("Unsqueeze", t.gather(x, "a", false), t.Ints(1))
	left := t.add(t.sub(t.Op("Unsqueeze", x, t.Ints(0)), chosen), t.input("others", onnx.Dims("items", "examples")))
	return t.OpA("ReduceLogSumExp", onnx.Attrs{"keepdims": 0}, left, t.Ints(1))
}
