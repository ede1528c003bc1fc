package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"assay/benchmarks/protocol"
	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/journal"
	"assay/internal/workers"
	"assay/metrics"
)

// measuredItem is a line of the file that a measurement goes on from.
type measuredItem struct {
	protocol.Key
	Content string          `json:"of"`
	Value   json.RawMessage `json:"value,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// Component is a metric that is run on the items of a benchmark.
type Component struct {
	Metric   metrics.Measurer
	Dir      string                // of component-NAME.jsonl, and of the progress beside it
	Progress func(done, total int) // nil: not called
	Failed   []Failure             // items that could not be measured
}

// Measure measures all items and writes component-NAME.jsonl, whose path it returns. What was measured before is not
// measured again, unless it failed, or a picture or a text of it changed since. An item that cannot be measured does
// not keep the others from it.
func (c *Component) Measure(ctx context.Context, set protocol.Measurable, items []protocol.Item) (path string,
	err error) {
	name := c.Metric.Name()
	path = filepath.Join(c.Dir, "component-"+name+".jsonl")
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return "", err
	}
	head := struct {
		Component string `json:"component"`
		Metric    string `json:"metric"`
	}{name, c.Metric.Fingerprint()}
	j, old, err := journal.Open[measuredItem](path+".progress", head)
	if err != nil {
		return "", err
	}
	done := map[protocol.Key]measuredItem{}
	for _, o := range old {
		done[o.Key] = o
	}
	err = c.rest(ctx, items, done, j)
	if e := j.Close(); err == nil {
		err = e
	}
	if err != nil {
		return path, err
	}
	return path, c.write(path, set, items, done)
}

// rest measures the items that are not done, some at a time.
func (c *Component) rest(ctx context.Context, items []protocol.Item, done map[protocol.Key]measuredItem,
	j *journal.Journal[measuredItem]) error {
	content := make([]string, len(items))
	todo := workers.Left(len(items), func(i int) bool {
		content[i] = items[i].Content()
		d, ok := done[items[i].Key]
		return ok && d.Error == "" && d.Content == content[i] // what failed is tried again
	})
	finished := len(items) - len(todo)
	for part := range slices.Chunk(todo, runtime.GOMAXPROCS(0)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		lines := make([]measuredItem, len(part))
		workers.Do(len(part), func(k int) { lines[k] = c.one(ctx, items[part[k]], content[part[k]]) })
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.Write(lines...); err != nil {
			return err
		}
		for _, line := range lines {
			done[line.Key] = line
		}
		if finished += len(part); c.Progress != nil {
			c.Progress(finished, len(items))
		}
	}
	return nil
}

// one measures an item.
func (c *Component) one(ctx context.Context, it protocol.Item, content string) measuredItem {
	line := measuredItem{Key: it.Key, Content: content}
	value, err := c.value(ctx, it)
	if err == nil {
		line.Value, err = json.Marshal(value)
	}
	if err != nil {
		line.Error = err.Error()
	}
	return line
}

func (c *Component) value(ctx context.Context, it protocol.Item) (any, error) {
	s := &metrics.Sample{ID: it.ID, Model: it.Model, Pictures: map[string]*data.Picture{},
		Texts: map[string]string{"caption": it.Captions[1], "source_caption": it.Captions[0],
			"instruction": it.Instruction}}
	from := map[string]protocol.Picture{"source": it.Source, "edit": it.Edit, "target": it.Target}
	for _, role := range c.Metric.Roles() {
		if from[role].None() {
			return nil, fmt.Errorf("there is no picture %q", role)
		}
		var err error
		if s.Pictures[role], err = decodePicture(it, role, from[role]); err != nil {
			return nil, err
		}
	}
	return c.Metric.Value(ctx, s)
}

// write writes the file of components.
func (c *Component) write(path string, set protocol.Measurable, items []protocol.Item,
	done map[protocol.Key]measuredItem) error {
	by := fmt.Sprintf("%s (%.8s)", c.Metric.Name(), c.Metric.Fingerprint())
	return atomicfile.Write(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		for _, it := range items {
			d := done[it.Key]
			if d.Error != "" {
				c.Failed = append(c.Failed, Failure{Key: it.Key, Error: d.Error})
				continue
			}
			if err := e.Encode(set.Line(it.Key, c.Metric.Name(), d.Value, by)); err != nil {
				return err
			}
		}
		return nil
	})
}
