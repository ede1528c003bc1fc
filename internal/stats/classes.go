package stats

// Accuracy returns the share of equal elements of two lists of the same length, NaN if they are empty.
func Accuracy[T comparable](truth, predicted []T) float64 {
	hits := 0
	for i := range truth {
		if truth[i] == predicted[i] {
			hits++
		}
	}
	return float64(hits) / float64(len(truth))
}

// MacroF1 returns the mean over classes of F1 = 2 TP / (2 TP + FP + FN); a class that neither occurs nor is predicted
// has 0 (scikit-learn's f1_score with labels=classes, average="macro", zero_division=0).
func MacroF1[T comparable](truth, predicted, classes []T) float64 {
	sum := 0.0
	for _, c := range classes {
		tp, other := 0, 0
		for i := range truth {
			switch t, p := truth[i] == c, predicted[i] == c; {
			case t && p:
				tp++
			case t || p:
				other++
			}
		}
		if tp > 0 {
			sum += float64(2*tp) / float64(2*tp+other)
		}
	}
	return sum / float64(len(classes))
}
