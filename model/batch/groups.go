package batch

// BatchesBy sorts the indices 0..n-1 into batches of one kind. kind returns the kind of an index, and how many of that
// kind make a full batch; one always fits.
func BatchesBy[K comparable](n int, kind func(i int) (k K, most int)) [][]int {
	at := map[K]int{}
	var batches [][]int
	for i := range n {
		k, most := kind(i)
		j, ok := at[k]
		if !ok || len(batches[j]) >= max(most, 1) {
			j = len(batches)
			batches, at[k] = append(batches, nil), j
		}
		batches[j] = append(batches[j], i)
	}
	return batches
}

// Pick returns the elements at the given indices.
func Pick[T any](all []T, indices []int) []T {
	out := make([]T, len(indices))
	for i, j := range indices {
		out[i] = all[j]
	}
	return out
}
