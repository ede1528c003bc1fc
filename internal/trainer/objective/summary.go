package objective

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/losses"
)

// Summary counts the training tables: edits, groups, labels, ranks and preferences.
type Summary struct {
	Layouts     map[string]int `json:"layouts"`          // tables by layout
	Edits       int            `json:"edits"`            // distinct edits
	Groups      int            `json:"groups"`           //
	Sizes       [3]float64     `json:"sizes"`            // edits per group: minimum, mean, maximum
	Sampled     int            `json:"sampled"`          // groups of which an epoch sees only data.group_edits
	Dimensions  []string       `json:"dimensions"`       // of labels and ranks; score is the score itself
	Labels      int            `json:"labels"`           // edits with a label in any dimension
	Ranks       int            `json:"ranks"`            // edits with a rank
	Preferences int            `json:"preferences"`      // annotated comparisons
	Ties        int            `json:"ties"`             // comparisons without a winner
	Margins     int            `json:"margins"`          // comparisons with a margin
	Votes       int            `json:"votes"`            // comparisons with vote counts
	Items       map[string]int `json:"items"`            // items of each term in an epoch: edits, pairs, orders
	Same        int            `json:"same"`             // comparisons of an edit with itself, which are ignored
	Unused      int            `json:"unused"`           // edits without anything that the losses use: left out
	Unread      map[string]int `json:"unread,omitempty"` // edits by dimension that no loss uses
	EqualPairs  map[string]int `json:"equal_pairs"`      // ties of each term over pairs
}

// Summarize computes the summary; nil if the run neither compares edits nor keeps groups together.
func (o *Objective) Summarize(d *dataset.Data) *Summary {
	table := d.Train
	if table.Made() || o.groups == nil && len(o.terms) == 0 {
		return nil
	}
	f := &Summary{Layouts: map[string]int{}, Items: map[string]int{}, EqualPairs: map[string]int{}}
	for _, t := range d.Tables {
		f.Layouts[t.Layout]++
	}
	order := dataset.NewOrder(0, table.Units(), config.WholeGroups)
	all := &Objective{o.terms, dataset.NewGroups(order, table, math.MaxInt)}
	f.Same, f.Unused, f.Unread = all.groups.Same, d.Unlabelled, d.Unread
	f.Groups, f.Sizes[0] = len(order.Units), math.Inf(1)
	dimensions := map[string]bool{}
	for u, rows := range order.Units {
		n := float64(len(rows))
		f.Edits += len(rows)
		f.Sizes[0], f.Sizes[2] = min(f.Sizes[0], n), max(f.Sizes[2], n)
		if o.groups != nil && len(rows) > o.groups.Bound {
			f.Sampled++
		}
		f.group(table, rows, dimensions)
		for _, c := range all.groups.Pairs[u] {
			f.compare(&c)
		}
		if o.groups != nil {
			rows = rows[:o.groups.Size(order, u)]
		}
		f.terms(all, table, u, rows)
	}
	f.Sizes[1] = float64(f.Edits) / float64(max(1, f.Groups))
	for d := range dimensions {
		d = cmp.Or(d, "score")
		f.Dimensions = append(f.Dimensions, d)
	}
	slices.Sort(f.Dimensions)
	return f
}

func (f *Summary) group(table *dataset.Samples, rows []int, dimensions map[string]bool) {
	for _, i := range rows {
		s := &table.Rows[i].Annotations
		if len(s.Labels) > 0 {
			f.Labels++
		}
		if len(s.Ranks) > 0 {
			f.Ranks++
		}
		for d := range s.Labels {
			dimensions[d] = true
		}
		for d := range s.Ranks {
			dimensions[d] = true
		}
	}
}

func (f *Summary) compare(c *dataset.Comparison) {
	f.Preferences++
	if c.Verdict.Majority()[1] == 1 {
		f.Ties++
	}
	if c.Verdict.Margin != nil {
		f.Margins++
	}
	if c.Verdict.Counted {
		f.Votes++
	}
}

// terms counts what each term compares in a group.
func (f *Summary) terms(all *Objective, table *dataset.Samples, unit int, rows []int) {
	part := make([]dataset.Example, len(rows))
	for k, i := range rows {
		part[k] = dataset.Example{Index: i, Annotations: table.Rows[i].Annotations, Group: unit}
	}
	for t, items := range all.Items(part) {
		name := all.termName(t)
		f.Items[name] += len(items)
		if all.terms[t].Over() != losses.Pairs {
			continue
		}
		for _, it := range items {
			if it.Outcome[1] == 1 {
				f.EqualPairs[name]++
			}
		}
	}
}

// leftOut describes what the run does not learn from.
func (f *Summary) leftOut() (out []string) {
	if f.Same > 0 {
		out = append(out, fmt.Sprintf("%d comparisons are of an edit with itself (the same bytes)", f.Same))
	}
	if f.Unused > 0 {
		out = append(out, fmt.Sprintf("%d edits have nothing that the losses use", f.Unused))
	}
	for _, d := range slices.Sorted(maps.Keys(f.Unread)) {
		out = append(out, fmt.Sprintf("%d edits have labels, ranks or comparisons of %s, which no loss uses", f.Unread[d],
			d))
	}
	return out
}

// Print writes the summary as text.
func (f *Summary) Print(w io.Writer) {
	fmt.Fprintf(w, "groups       %d of %g to %g edits, %.1f on average; %d distinct edits\n", f.Groups,
		f.Sizes[0], f.Sizes[2], f.Sizes[1], f.Edits)
	if f.Sampled > 0 {
		fmt.Fprintf(w, "             %d are larger than a step allows: each epoch draws some of their edits\n", f.Sampled)
	}
	if len(f.Dimensions) > 0 {
		fmt.Fprintf(w, "judged       %d edits with labels, %d with ranks; dimensions: %s\n", f.Labels, f.Ranks,
			strings.Join(f.Dimensions, ", "))
	}
	if f.Preferences > 0 {
		fmt.Fprintf(w, "preferences  %d; %d ties, %d with margins, %d with votes\n", f.Preferences, f.Ties,
			f.Margins, f.Votes)
	}
	for _, text := range f.leftOut() {
		fmt.Fprintf(w, "left out     %s\n", text)
	}
	names := make([]string, 0, len(f.Items))
	for name := range f.Items {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		ties := ""
		if n := f.EqualPairs[name]; n > 0 {
			ties = fmt.Sprintf(", %d of them ties", n)
		}
		fmt.Fprintf(w, "loss         %s: %d in an epoch%s\n", name, f.Items[name], ties)
	}
}
