package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"assay/edit"
	"assay/internal/atomicfile"
	"assay/internal/benchmarks/protocol"
	"assay/internal/exit"
	"assay/internal/journal"
	"assay/internal/table"
)

// componentLine is a line of the file that a measurement resumes from.
type componentLine struct {
	protocol.Key
	Content string          `json:"of"`
	Value   json.RawMessage `json:"value,omitempty"`
}

// Component is a judge that fills one or several components of a benchmark.
type Component struct {
	Judge edit.Judge
	// Names are the components: a single one holds the judge's score, class or numbers; with Dimensions, each is the
	// judge's number of that name; nil: the judge's own name.
	Names      []string
	Dimensions bool
	By         string                // what measures it: model, prompts, digest; "": the name and the digest
	Together   int                   // items that are measured at a time; 0: GOMAXPROCS
	Dir        string                // of component-NAME.jsonl and its .progress file
	Progress   func(done, total int) // nil: not called
	Failed     []Failure             // items that could not be measured
}

// Measure measures all items and writes component-NAME.jsonl, whose path it returns. Items measured
// before are not measured again, unless they failed, or one of their pictures or texts changed since. An item that
// cannot be measured does not stop the others.
func (c *Component) Measure(ctx context.Context, set protocol.Measurable, items []*edit.Edit) (path string,
	err error) {
	if c.Names == nil {
		c.Names = []string{c.Judge.Info().Name}
	}
	fingerprint, err := c.Judge.Fingerprint()
	if err != nil {
		return "", err
	}
	name := strings.Join(c.Names, "_")
	if c.By == "" {
		c.By = fmt.Sprintf("%s (%.8s)", name, fingerprint)
	}
	path = filepath.Join(c.Dir, protocol.ComponentFile(c.Names...))
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return "", err
	}
	head := struct {
		Component string `json:"component"`
		Metric    string `json:"metric"`
	}{name, fingerprint}
	j, old, err := journal.Open[componentLine](path+".progress", head)
	if err != nil {
		return "", exit.Named(err)
	}
	f := newItemFile(items, func(lines []table.Line[componentLine]) error {
		var rows []componentLine
		for _, l := range lines {
			rows = append(rows, l.Value)
		}
		return j.Write(rows...)
	})
	for _, o := range old {
		row, known := f.row[o.Key]
		if !known || o.Value == nil {
			continue
		}
		if content, _ := protocol.Content(items[row]); content == o.Content {
			f.hold(o.Key, o)
		}
	}
	err = c.job(items).Run(ctx, f, 0, len(items))
	if err := errors.Join(err, j.Close()); err != nil {
		return path, err
	}
	c.Failed = f.failed
	return path, c.write(path, set, f)
}

// job returns the work of measuring items, in batches.
func (c *Component) job(items []*edit.Edit) *table.Job[*edit.Edit, componentLine] {
	return &table.Job[*edit.Edit, componentLine]{
		Options: table.Options{Progress: c.Progress},
		Rows:    len(items),
		Read:    func(i int) (*edit.Edit, error) { return items[i], nil },
		Content: func(e *edit.Edit, _ error) (string, error) {
			content, _ := protocol.Content(e)
			return content, nil
		},
		Prepare: c.Judge.Prepare,
		Work: func(ctx context.Context, tasks []table.Task[*edit.Edit]) ([]componentLine, []error, error) {
			scores, errs, err := c.Judge.Score(ctx, table.Inputs(tasks))
			if err != nil {
				return nil, nil, err
			}
			lines := make([]componentLine, len(tasks))
			for i, t := range tasks {
				lines[i] = componentLine{Key: protocol.ItemKey(t.Row), Content: t.Content}
				if errs[i] == nil {
					lines[i].Value, errs[i] = c.value(&scores[i])
				}
			}
			return lines, errs, nil
		},
		Batches: table.Chunks(cmp.Or(c.Together, runtime.GOMAXPROCS(0))),
	}
}

// value returns the components' part of a score: with Dimensions, an object of numbers by component.
func (c *Component) value(s *edit.Score) (json.RawMessage, error) {
	if !c.Dimensions {
		return json.Marshal(s.Plain())
	}
	values, said := map[string]float64{}, s.ByName()
	for _, name := range c.Names {
		d, ok := said[name]
		if !ok {
			return nil, fmt.Errorf("the judge's answer has no %s", name)
		}
		values[name] = d.Value
	}
	return json.Marshal(values)
}

// write writes the file of components.
func (c *Component) write(path string, set protocol.Measurable, f *itemFile[componentLine]) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		for i, it := range f.items {
			if !f.Has(i) {
				continue
			}
			l, err := f.Line(i)
			if err != nil {
				return err
			}
			values := map[string]any{c.Names[0]: l.Value.Value}
			if c.Dimensions {
				if err := json.Unmarshal(l.Value.Value, &values); err != nil {
					return fmt.Errorf("%s.progress: %w", path, err)
				}
			}
			if err := e.Encode(set.Line(protocol.ItemKey(it), values, c.By)); err != nil {
				return err
			}
		}
		return nil
	})
}
