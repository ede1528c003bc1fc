package shards

import "fmt"

// Collect returns the results of a shard's rows in order; get finds that of a row, if there is one.
func Collect[T any](s Shard, get func(row int) (r T, ok bool, err error)) ([]T, error) {
	rows := make([]T, 0, s.To-s.From)
	for i := s.From; i < s.To; i++ {
		row, ok, err := get(i)
		if err == nil && !ok {
			err = fmt.Errorf("row %d has no result", i+1)
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
