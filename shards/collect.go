package shards

import "fmt"

// Collect gives the results of a shard's rows in their order, out of those by row.
func Collect[T any](s Shard, done map[int]T) ([]T, error) {
	rows := make([]T, 0, s.To-s.From)
	for i := s.From; i < s.To; i++ {
		row, ok := done[i]
		if !ok {
			return nil, fmt.Errorf("row %d has no result", i+1)
		}
		rows = append(rows, row)
	}
	return rows, nil
}
