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

// plackettLuce has one row for each edit that has others to be compared with: the choice of it out of those that are
// not better. others is 0 for these, and far below any score for all the rest of the run's edits. The chosen one's
// score is subtracted first: of large scores only the differences matter.
func plackettLuce(t *term) string {
	x := t.times(t.head.Score, t.Scale)
	chosen := t.Op("Unsqueeze", t.gather(x, "a", false), t.Ints(1))
	left := t.add(t.sub(t.Op("Unsqueeze", x, t.Ints(0)), chosen), t.input("others", onnx.Dims("items", "examples")))
	return t.OpA("ReduceLogSumExp", onnx.Attrs{"keepdims": 0}, left, t.Ints(1))
}
