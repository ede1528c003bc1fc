package benchmarks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// differentFiles refuses a file of ratings that is there twice.
func differentFiles(files []string) error {
	first := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
		if other, twice := first[text]; twice {
			return fmt.Errorf("%s: the same ratings as in %s: files of different raters were expected", file,
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
	problems    *problems
}

// readRater reads one file: a header "uid, method, ...", then one line per source with a cell "[SC, PQ]" per method.
// The first file names the items, the others must have the same.
func (s *hub) readRater(path, firstPath string, r int, value func(sc, pq float64) float64, p *problems) error {
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
		return fmt.Errorf("%s:1: the header begins with %q: \"uid\" and the methods, separated by tabs, were expected",
			f.name, f.header[0])
	}
	for c, m := range f.header {
		if slices.Contains(f.header[:c], m) {
			return fmt.Errorf("%s:1: a second column %q", f.name, m)
		}
	}
	s.raters = append(s.raters, slices.Repeat([]float64{math.NaN()}, len(s.keys)))
	if r == 0 {
		s.names = slices.DeleteFunc(slices.Clone(f.header[1:]), func(m string) bool { return m == leftOut })
	}
	for _, m := range s.names {
		if !slices.Contains(f.header, m) {
			p.add(f.name+":1", "the column %q of %s is not there", m, f.first)
		}
	}
	rated := map[string]int{} // line of each source
	for n, line := range lines[1:] {
		where := fmt.Sprintf("%s:%d", f.name, n+2)
		cells := strings.Split(strings.TrimRight(line, "\r"), "\t")
		if len(cells) != len(f.header) {
			p.add(where, "%d columns: %d were expected, as in the header", len(cells), len(f.header))
			continue
		}
		if before, ok := rated[cells[0]]; ok {
			p.add(where, "a second row for %s (the first is line %d)", cells[0], before)
			continue
		}
		rated[cells[0]] = n + 2
		s.readRatings(f, where, cells)
	}
	for i, v := range s.raters[r] {
		if math.IsNaN(v) && rated[s.keys[i].ID] == 0 && s.group[i] == 0 {
			p.add(f.name, "there is no row for %s, which %s has", s.keys[i].ID, f.first)
		}
	}
	return nil
}

// readRatings reads the ratings of one source.
func (s *hub) readRatings(f *raterFile, where string, cells []string) {
	if f.rater == 0 {
		s.units = append(s.units, nil)
	}
	for c, method := range f.header[1:] {
		g := slices.Index(s.names, method)
		if g < 0 {
			if method != leftOut {
				f.problems.add(where, "the column %q is not in %s", method, f.first)
			}
			continue
		}
		v, err := parseNumbers(method, json.RawMessage(cells[c+1]))
		if err != nil || len(v) != 2 || min(v[0], v[1]) < 0 || max(v[0], v[1]) > 1 {
			f.problems.add(where, "%s has %q: [SC, PQ], two numbers from 0 to 1, was expected", method, cells[c+1])
			continue
		}
		key := Key{cells[0], method}
		i, ok := s.index[key]
		if f.rater == 0 {
			i, ok = len(s.keys), true
			s.index[key] = i
			s.keys, s.group = append(s.keys, key), append(s.group, g)
			s.units[len(s.units)-1] = append(s.units[len(s.units)-1], i)
			s.raters[0] = append(s.raters[0], 0)
		}
		if !ok {
			f.problems.add(where, "%v is not rated in %s", key, f.first)
			continue
		}
		s.raters[f.rater][i] = f.value(v[0], v[1])
	}
}
