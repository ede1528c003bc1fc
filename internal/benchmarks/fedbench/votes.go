package fedbench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// fedVote is a pair of samples that humans compared, and the majority's choice: 1 the first, -1 the second.
type fedVote struct {
	a, b   int
	choice int
	aspect string // identity, expression, overall, or ""
}

// readVotes reads lines of {a, b, votes: [...]} or {a, b, winner}. a and b name samples; with "id" or "sample" in the
// line they are the methods of that sample. A vote is "a" or "b", or the name itself.
func (j *fedPredictions) readVotes(path string) error {
	index := map[string][]int{}
	for i, s := range j.samples {
		index[s.key.ID] = append(index[s.key.ID], i)
		if s.key.Model != "" {
			index[s.key.ID+"\n"+s.key.Model] = append(index[s.key.ID+"\n"+s.key.Model], i)
		}
	}
	type pair struct {
		one, other int
		aspect     string
	}
	seen := map[pair]string{}
	return protocol.EachLine(path, func(r *protocol.Line) error {
		v, err := readVote(r, index)
		if err != nil || r.Err() != nil {
			return err
		}
		k := pair{min(v.a, v.b), max(v.a, v.b), v.aspect}
		first, twice := seen[k]
		if !twice {
			seen[k] = r.Where
		}
		switch {
		case v.a == v.b:
			return errors.New("a and b are the same sample: want two samples")
		case twice:
			return fmt.Errorf("a second line for a pair (the first is in %s): want one with all votes", first)
		case v.choice == 0:
			j.undone++
		default:
			j.votes = append(j.votes, v)
		}
		return nil
	})
}

// fedVoteWords are the words in votes for the first, the second and neither.
var fedVoteWords = [3][]string{{"a", "A", "left"}, {"b", "B", "right"}, {"tie", ""}}

func readVote(r *protocol.Line, index map[string][]int) (v fedVote, err error) {
	prefix := ""
	if sample := r.First("sample", "id"); r.Has(sample) && !r.Has("pair") {
		prefix = r.ID(sample)
	}
	names := map[string]string{}
	for side, to := range map[string]*int{"a": &v.a, "b": &v.b} {
		name := r.ID(side)
		names[side] = name
		at := index[name]
		if prefix != "" && len(index[prefix+"\n"+name]) > 0 {
			at = index[prefix+"\n"+name]
		}
		if len(at) != 1 {
			return v, fmt.Errorf("%s is %q: %d samples have this name, want one (\"sample\" and the method tell them "+
				"apart)", side, name, len(at))
		}
		*to = at[0]
	}
	if r.Has("aspect") {
		v.aspect = r.Text("aspect")
	}
	var votes []string
	if r.Has("winner") {
		votes = []string{r.Text("winner")}
	} else if err := json.Unmarshal(r.Fields["votes"], &votes); err != nil {
		return v, fmt.Errorf("votes: want a list of \"a\" and \"b\"")
	}
	sum := 0
	for _, vote := range votes {
		side, err := protocol.SideOf(vote, names["a"], names["b"], fedVoteWords)
		if err != nil {
			return v, fmt.Errorf("the vote %w", err)
		}
		sum += side
	}
	v.choice = protocol.Sign(float64(sum))
	return v, nil
}

type fedVotesJSON struct {
	N        int                       `json:"n"`
	Accuracy map[string]protocol.Value `json:"accuracy"`
}

// direction is Benchmark.Direction, with the names of --lower.
func (s *fed) direction(metric string) int { return Benchmark.WithLower(s.lower).Direction(metric) }

// fedHits counts how often metrics agree with votes.
type fedHits struct {
	hits    map[string]map[string][]float64 // by aspect and metric: 1 where they agree
	n       map[string]int                  // pairs, by aspect
	metrics map[string]int                  // pairs that have a value of it
	sources map[string]*protocol.Sources    // of the pairs, by aspect
}

// hits compares the metrics of all pairs whose samples have been read.
func (j *fedPredictions) hits() fedHits {
	h := fedHits{map[string]map[string][]float64{}, map[string]int{}, map[string]int{},
		map[string]*protocol.Sources{}}
	for _, v := range j.votes {
		a, b := j.samples[v.a], j.samples[v.b]
		if a.err != nil || b.err != nil {
			continue
		}
		if h.hits[v.aspect] == nil {
			h.hits[v.aspect], h.sources[v.aspect] = map[string][]float64{}, &protocol.Sources{}
		}
		h.sources[v.aspect].Add(j.sourceOf(a), h.n[v.aspect])
		h.n[v.aspect]++
		for m, x := range a.values {
			y, ok := b.values[m]
			if !ok || m == "reg" || x != x || y != y {
				continue
			}
			h.metrics[m]++
			if j.direction(m) < 0 {
				x, y = y, x
			}
			hit := 0.0
			if protocol.Sign(x-y) == v.choice {
				hit = 1
			}
			h.hits[v.aspect][m] = append(h.hits[v.aspect][m], hit)
		}
	}
	return h
}

// agreement computes the 2AFC accuracy of every metric that all compared samples have, for each aspect of the votes,
// with 95 % intervals of a bootstrap over sources. The gain itself counts by its closeness to 1, which is s_reg's
// order.
func (j *fedPredictions) agreement() (map[string]fedVotesJSON, protocol.Table) {
	h := j.hits()
	hits, n, metrics := h.hits, h.n, h.metrics
	total := 0
	for _, count := range n {
		total += count
	}
	out := map[string]fedVotesJSON{}
	aspects := slices.Sorted(maps.Keys(n))
	t := protocol.Table{Title: "2AFC accuracy against the majority of votes"}
	var names []string
	for _, aspect := range aspects {
		name := aspect
		name = cmp.Or(name, "all")
		names = append(names, name)
		t.Columns = append(t.Columns, fmt.Sprintf("%s (%d pairs)", name, n[aspect]))
		t.Better = append(t.Better, 1)
		out[name] = fedVotesJSON{n[aspect], map[string]protocol.Value{}}
	}
	for _, m := range slices.Sorted(maps.Keys(metrics)) {
		if metrics[m] != total {
			t.Notes = append(t.Notes, fmt.Sprintf("%s is left out: %d of %d pairs have no value of it", m,
				total-metrics[m],
				total))
			continue
		}
		line := protocol.TableRow{Name: m}
		for k, aspect := range aspects {
			list, sources := hits[aspect][m], h.sources[aspect].Samples
			acc := stats.Mean(list)
			out[names[k]].Accuracy[m] = protocol.Value(acc)
			line.Cells = append(line.Cells, protocol.Cell{Value: acc,
				Bounds: protocol.MeanInterval(list, sources, protocol.AgreementResamples, protocol.AgreementSeed)})
		}
		t.Rows = append(t.Rows, line)
	}
	if len(t.Rows) > 0 {
		t.Rows = append(t.Rows, protocol.TableRow{Name: "expected of guessing", Printed: true,
			Cells: slices.Repeat(protocol.Cells(0.5), len(aspects))})
	}
	return out, t
}
