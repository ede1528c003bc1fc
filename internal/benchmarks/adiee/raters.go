package adiee

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
)

// differentFiles refuses duplicate files of ratings.
func differentFiles(files []string) error {
	first := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
		if other, twice := first[text]; twice {
			return fmt.Errorf("%s: the same ratings as in %s: want files of different raters", file,
				filepath.Base(other))
		}
		first[text] = file
	}
	return nil
}

// raterFile is the file of one rater.
type raterFile struct {
	name, first string // of this file and of the first one, which names the items
	rater       int
	header      []string
	value       func(sc, pq float64) float64
	problems    *protocol.Problems
}

// readRater reads one file: a header "uid, method, ...", then one line per source with a cell "[SC, PQ]" per method.
// The first file defines the items; the others must have the same.
func (s *hub) readRater(path, firstPath string, r int, value func(sc, pq float64) float64, p *protocol.Problems) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))), "\n")
	f := &raterFile{
		name:     filepath.Base(path),
		first:    filepath.Base(firstPath),
		rater:    r,
		header:   strings.Split(strings.TrimRight(lines[0], "\r"), "\t"),
		value:    value,
		problems: p,
	}
	if f.header[0] != "uid" || len(f.header) < 2 {
		return fmt.Errorf("%s:1: the header begins with %q: want \"uid\" and the methods, separated by tabs",
			f.name, f.header[0])
	}
	for c, m := range f.header {
		if slices.Contains(f.header[:c], m) {
			return fmt.Errorf("%s:1: a second column %q", f.name, m)
		}
	}
	s.raters = append(s.raters, slices.Repeat([]float64{math.NaN()}, len(s.Keys)))
	if r == 0 {
		s.Names = slices.DeleteFunc(slices.Clone(f.header[1:]), func(m string) bool { return m == leftOut })
	}
	for _, m := range s.Names {
		if !slices.Contains(f.header, m) {
			p.Add(f.name+":1", "there is no column %q, which %s has", m, f.first)
		}
	}
	rated := map[string]int{} // line of each source
	for n, line := range lines[1:] {
		where := fmt.Sprintf("%s:%d", f.name, n+2)
		cells := strings.Split(strings.TrimRight(line, "\r"), "\t")
		if len(cells) != len(f.header) {
			p.Add(where, "%d columns: want %d, as in the header", len(cells), len(f.header))
			continue
		}
		if before, ok := rated[cells[0]]; ok {
			p.Add(where, "a second row for %s (the first is line %d)", cells[0], before)
			continue
		}
		rated[cells[0]] = n + 2
		s.readRatings(f, where, cells)
	}
	for i, v := range s.raters[r] {
		if math.IsNaN(v) && rated[s.Keys[i].ID] == 0 && s.Group[i] == 0 {
			p.Add(f.name, "there is no row for %s, which %s has", s.Keys[i].ID, f.first)
		}
	}
	return nil
}

// readRatings reads the ratings of one source.
func (s *hub) readRatings(f *raterFile, where string, cells []string) {
	if f.rater == 0 {
		s.UnitItems = append(s.UnitItems, nil)
	}
	for c, method := range f.header[1:] {
		g := slices.Index(s.Names, method)
		if g < 0 {
			if method != leftOut {
				f.problems.Add(where, "the column %q is not in %s", method, f.first)
			}
			continue
		}
		v, err := protocol.ParseNumbers(method, json.RawMessage(cells[c+1]))
		if err != nil || len(v) != 2 || min(v[0], v[1]) < 0 || max(v[0], v[1]) > 1 {
			f.problems.Add(where, "%s has %q: want [SC, PQ], two numbers from 0 to 1", method, cells[c+1])
			continue
		}
		key := protocol.Key{ID: cells[0], Model: method}
		i, ok := s.index[key]
		if f.rater == 0 {
			i, ok = len(s.Keys), true
			s.index[key] = i
			s.Keys, s.Group = append(s.Keys, key), append(s.Group, g)
			s.UnitItems[len(s.UnitItems)-1] = append(s.UnitItems[len(s.UnitItems)-1], i)
			s.raters[0] = append(s.raters[0], 0)
		}
		if !ok {
			f.problems.Add(where, "%v is not rated in %s", key, f.first)
			continue
		}
		s.raters[f.rater][i] = f.value(v[0], v[1])
	}
}
