package runner

import (
	"errors"
	"fmt"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
	"assay/internal/journal"
	"assay/internal/jsonfile"
	"assay/internal/table"
)

// itemFile stores results in a file whose lines name their items, so that their order does not matter. Failed items
// are not stored: the next run retries them.
type itemFile[V any] struct {
	table.Memory[V]
	items  []*edit.Edit
	row    map[protocol.Key]int
	write  func(lines []table.Line[V]) error
	failed []Failure
}

func newItemFile[V any](items []*edit.Edit, write func(lines []table.Line[V]) error) *itemFile[V] {
	f := &itemFile[V]{Memory: table.NewMemory[V](), items: items, row: map[protocol.Key]int{}, write: write}
	for i, it := range items {
		f.row[protocol.ItemKey(it)] = i
	}
	return f
}

// hold records a result that is already in the file.
func (f *itemFile[V]) hold(k protocol.Key, v V) {
	f.Memory.Add(table.Line[V]{Row: f.row[k], Value: v})
}

// Add implements table.Results.
func (f *itemFile[V]) Add(lines ...table.Line[V]) error {
	var good []table.Line[V]
	for _, l := range lines {
		if l.Error != "" {
			f.failed = append(f.failed, Failure{protocol.ItemKey(f.items[l.Row]), l.Error, l.Unreadable})
		} else {
			good = append(good, l)
		}
	}
	if err := f.write(good); err != nil {
		return err
	}
	return f.Memory.Add(good...)
}

// reopen opens predictions.jsonl for appending and returns the predictions that it holds. Predictions of
// items that changed since are dropped from it.
func reopen(path string, items []*edit.Edit) (*journal.Lines[Prediction], []Prediction, error) {
	known := make(map[protocol.Key]*edit.Edit, len(items))
	for _, it := range items {
		known[protocol.ItemKey(it)] = it
	}
	file, old, err := journal.OpenLines(path, func(p Prediction) error {
		if known[p.Key] == nil {
			return fmt.Errorf("%v is not an item of it", p.Key)
		}
		return nil
	})
	var line *journal.LineError
	if errors.As(err, &line) {
		err = fmt.Errorf("%s:%d: not a prediction of this run: remove the file or use another --out", path, line.Line)
	}
	if err != nil {
		return nil, nil, err
	}
	var valid []Prediction
	for _, p := range old {
		if content, _ := protocol.Content(known[p.Key]); content == p.Content {
			valid = append(valid, p)
		}
	}
	if len(valid) == len(old) {
		return file, valid, nil
	}
	if err := file.Close(); err != nil {
		return nil, nil, err
	}
	if err := jsonfile.WriteLines(path, valid); err != nil {
		return nil, nil, err
	}
	file, _, err = journal.OpenLines[Prediction](path, nil)
	return file, valid, err
}
