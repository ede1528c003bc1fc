package fedbench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
)

// coverage returns which samples a number is based on, out of the lines and the triplets without lines.
func (j *fedPredictions) coverage(number string) *protocol.Coverage {
	methods := map[string]bool{}
	for _, s := range j.samples {
		methods[s.key.Model] = true
	}
	var missing []protocol.Key
	add := func(id, method, kind string) {
		if len(methods) < 2 { // the numbers of two methods may be compared if they lack the same
			method = ""
		}
		missing = append(missing, protocol.Key{ID: id, Model: method + "/" + kind})
	}
	for _, s := range j.samples {
		if v, ok := s.values[number]; !ok || s.err != nil || math.IsNaN(v) {
			add(s.key.ID, s.key.Model, s.tags["instructions"])
		}
	}
	for _, m := range j.missing {
		add(m.sample, m.method, m.kind)
	}
	slices.SortFunc(missing, func(a, b protocol.Key) int {
		return cmp.Or(strings.Compare(a.Model, b.Model), strings.Compare(a.ID, b.ID))
	})
	c := protocol.NewCoverage(len(j.samples)+len(j.missing), missing)
	c.Items = j.items
	return &c
}

// nameItems identifies the samples if no triplets are given. As many samples as the paper has are taken to be the
// paper's.
func (j *fedPredictions) nameItems() {
	names := j.sampleNames()
	if len(j.triplets) > 0 || len(names) == fedSize {
		return
	}
	slices.Sort(names)
	var keys []protocol.Key
	for _, name := range names {
		keys = append(keys, protocol.Key{ID: name})
	}
	j.items = protocol.KeysDigest(keys)
}

// Leaderboard implements Board: the methods by dense and by simple instructions, as the paper's Table 4.
func (j *fedPredictions) Leaderboard() []protocol.Entry {
	type part struct{ method, kind string }
	var order []part
	groups := map[part]*fedPredictions{}
	for _, s := range j.samples {
		k := part{s.tags["method"], s.tags["instructions"]}
		if groups[k] == nil {
			order = append(order, k)
			groups[k] = &fedPredictions{fed: j.fed, by: j.by, part: true}
		}
		groups[k].samples = append(groups[k].samples, s)
	}
	if len(order) < 2 {
		return nil
	}
	ids := j.names()
	var out []protocol.Entry
	for _, k := range order {
		g := groups[k]
		has := map[string]bool{}
		for _, s := range g.samples {
			has[s.key.ID] = true
		}
		for _, id := range slices.Sorted(maps.Keys(ids[k.kind])) {
			if !has[id] {
				g.missing = append(g.missing, fedPart{id, k.method, k.kind})
			}
		}
		out = append(out, protocol.Entry{Name: k.method, Subset: k.kind, Predictions: g})
	}
	return out
}

// names returns the samples of each kind of instructions, from the data and from all methods' lines.
func (j *fedPredictions) names() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, s := range j.samples {
		kind := s.tags["instructions"]
		if out[kind] == nil {
			out[kind] = map[string]bool{}
			for _, t := range j.triplets {
				out[kind][t.name] = true
			}
		}
		out[kind][s.key.ID] = true
	}
	return out
}

// polarity groups the seven expressions as in the paper's section 3.
func polarity(expression string) string {
	switch expression {
	case "happy":
		return "positive"
	case "neutral":
		return "neutral"
	case "angry", "disgust", "fear", "sad", "surprise":
		return "negative"
	}
	return ""
}

// printedColumns are the columns of the paper's Table 4.
var printedColumns = []string{"id", "bg_rmse", "pq", "sc", "gta", "reg", "fed_score"}

// asPrinted returns the paper's Table 4: the methods with their numbers for dense instructions and, next to them, for
// simple ones, the best for dense ones first. Nothing if there is only one kind.
func (j *fedPredictions) asPrinted() []protocol.Table {
	ids := j.names()
	units := map[[2]string][]int{} // by method and kind
	methods := map[string]bool{}
	for i, s := range j.samples {
		method, kind := s.tags["method"], s.tags["instructions"]
		if methods[method] = true; s.err == nil {
			units[[2]string{method, kind}] = append(units[[2]string{method, kind}], i)
		}
	}
	if len(ids["dense"]) == 0 || len(ids["simple"]) == 0 {
		return nil
	}
	t := protocol.Table{Title: "methods by dense and simple instructions (the paper's Table 4)"}
	for _, kind := range fedKinds {
		for _, c := range printedColumns {
			t.Columns, t.Better = append(t.Columns, kind+": "+c), append(t.Better, j.direction(c))
		}
	}
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		row := protocol.TableRow{Name: method}
		for _, kind := range fedKinds {
			in := units[[2]string{method, kind}]
			for _, c := range printedColumns {
				row.Cells = append(row.Cells, j.cell(in, c, len(ids[kind])))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	score := len(printedColumns) - 1
	slices.SortStableFunc(t.Rows, func(a, b protocol.TableRow) int {
		return cmp.Compare(b.Cells[score].Value, a.Cells[score].Value)
	})
	noteParts(&t)
	return []protocol.Table{t}
}

// noteParts explains the marks of cells that do not cover all samples.
func noteParts(t *protocol.Table) {
	partly := func(r protocol.TableRow) bool {
		return slices.ContainsFunc(r.Cells, func(c protocol.Cell) bool { return c.Mark != "" })
	}
	if slices.ContainsFunc(t.Rows, partly) {
		t.Notes = append(t.Notes, "a cell that does not cover all samples of its column shows how many it covers; "+
			"such cells are not comparable")
	}
}

// byExpression returns the FED-Score of every method by expression and by polarity, for each kind of instructions.
func (j *fedPredictions) byExpression() []protocol.Table {
	kinds, expressions, methods := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range j.samples {
		kinds[s.tags["instructions"]], methods[s.tags["method"]] = true, true
		if e := s.tags["expression"]; e != "" {
			expressions[e] = true
		}
	}
	if len(expressions) == 0 {
		return nil
	}
	columns := slices.Sorted(maps.Keys(expressions))
	for _, p := range []string{"positive", "neutral", "negative"} {
		if slices.ContainsFunc(columns, func(e string) bool { return polarity(e) == p }) {
			columns = append(columns, "all "+p)
		}
	}
	var out []protocol.Table
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t := protocol.Table{Title: "fed_score by expression", Columns: columns, Better: slices.Repeat([]int{1},
			len(columns))}
		if kind != "" {
			t.Title += ", " + kind + " instructions"
		}
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			row := protocol.TableRow{Name: method}
			any := false
			for _, c := range columns {
				cell, some := j.expressionCell(kind, method, c)
				row.Cells, any = append(row.Cells, cell), any || some
			}
			if any {
				t.Rows = append(t.Rows, row)
			}
		}
		noteParts(&t)
		out = append(out, t)
	}
	return out
}

// expressionCell returns the FED-Score of a method for a column of byExpression; some: it has any samples.
func (j *fedPredictions) expressionCell(kind, method, column string) (cell protocol.Cell, some bool) {
	in := func(expression string) bool {
		return expression == column || expression != "" && "all "+polarity(expression) == column
	}
	wanted := map[string]bool{} // the data's, and those of all methods' lines
	for _, t := range j.triplets {
		if in(t.expression) {
			wanted[t.name] = true
		}
	}
	var units []int
	for i, s := range j.samples {
		if s.tags["instructions"] != kind || !in(s.tags["expression"]) {
			continue
		}
		wanted[s.key.ID] = true
		if s.tags["method"] == method && s.err == nil {
			units = append(units, i)
		}
	}
	return j.cell(units, "fed_score", len(wanted)), len(units) > 0
}

// cell returns the mean of a number over samples, marked if it does not cover all wanted ones.
func (j *fedPredictions) cell(units []int, number string, wanted int) protocol.Cell {
	n := 0
	for _, i := range units {
		if v, ok := j.samples[i].values[number]; ok && !math.IsNaN(v) {
			n++
		}
	}
	return protocol.Cell{Value: j.mean(units, number), Mark: protocol.Partial(n, wanted)}
}

// scorerAgreement returns tables of a scorer's agreement with the components, and of all of them with human ratings.
func (j *fedPredictions) scorerAgreement() ([]protocol.Table, error) {
	take := func(name string) protocol.Column {
		return protocol.Column{Name: name, Values: j.column(name), Lower: j.direction(name) < 0}
	}
	var components []protocol.Column
	for _, name := range []string{"id", "bg_rmse", "pq", "sc", "gta", "s_reg", "s_fid", "s_align", "fed_score"} {
		components = append(components, take(name))
	}
	index := map[string][]int{}
	for i, s := range j.samples {
		k := fmt.Sprint(s.key, s.tags["instructions"])
		index[k], index[fmt.Sprint(s.key)] = append(index[k], i), append(index[fmt.Sprint(s.key)], i)
	}
	return protocol.Agreements(take("score"), components, j.human, func(r *protocol.Line) int {
		s := fedSample{key: protocol.Key{ID: r.ID(r.First("sample", "id", "name"))}, tags: map[string]string{}}
		if err := s.readTags(r); err != nil {
			r.Fail("%w", err)
		}
		at := index[fmt.Sprint(s.key, s.tags["instructions"])]
		if len(at) != 1 {
			r.Fail("%d samples are called %v (%s): want one", len(at), s.key, s.tags["instructions"])
			return -1
		}
		return at[0]
	})
}

// rowNames names the row of a sample in the table of a tag. Where methods have other kinds of instructions than their
// neighbours, their means must not mix them.
func (j *fedPredictions) rowNames(tag string) func(*fedSample) (string, bool) {
	kinds := map[string]map[string]bool{}
	for _, s := range j.samples {
		m := s.tags["method"]
		if kinds[m] == nil {
			kinds[m] = map[string]bool{}
		}
		kinds[m][s.tags["instructions"]] = true
	}
	sets := map[string]bool{}
	for _, k := range kinds {
		sets[strings.Join(slices.Sorted(maps.Keys(k)), "\n")] = true
	}
	return func(s *fedSample) (string, bool) {
		name, ok := s.tags[tag]
		if kind := s.tags["instructions"]; tag == "method" && len(sets) > 1 && kind != "" {
			name += ", " + kind
		}
		return name, ok
	}
}

// perTag computes the means for each value of a tag.
func (j *fedPredictions) perTag(tag string, units []int) (map[string]map[string]protocol.Value, protocol.Table) {
	groups := map[string][]int{}
	rowName := j.rowNames(tag)
	for _, i := range units {
		if v, ok := rowName(&j.samples[i]); ok {
			groups[v] = append(groups[v], i)
		}
	}
	out := map[string]map[string]protocol.Value{}
	t := protocol.Table{Title: "per " + tag, Columns: slices.Concat([]string{"n"}, fedColumns[:11])}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		least, most := j.used(groups[name])
		out[name] = map[string]protocol.Value{"n": protocol.Value(least)}
		line := protocol.TableRow{Name: name, Cells: []protocol.Cell{protocol.CountFromTo(least, most)}}
		for k, n := range j.numbers(groups[name]) {
			out[name][n.Name] = protocol.Value(n.Value)
			if k < 11 {
				line.Cells = append(line.Cells, protocol.Cell{Value: n.Value})
			}
		}
		t.Rows = append(t.Rows, line)
	}
	return out, t
}

// used returns how many of the units the means cover: for FED-Score, and for the number that covers most.
func (j *fedPredictions) used(units []int) (least, most int) {
	count := func(column string) (n int) {
		values := j.column(column)
		for _, i := range units {
			if values[i] == values[i] {
				n++
			}
		}
		return n
	}
	for _, c := range fedColumns {
		most = max(most, count(c))
	}
	return count("fed_score"), most
}
