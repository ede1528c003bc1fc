package curate

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/jsonfile"
	"assay/internal/scoring"
)

// Emotions are the eight categories of Mikels et al. (2005), as used by EmoSet and AIM-Bench.
var Emotions = []string{"amusement", "anger", "awe", "contentment", "disgust", "excitement", "fear", "sadness"}

// TripletColumns are the names of a triplet's columns, for [data.WithColumns].
var TripletColumns = map[string]string{"source": "input", "edit": "target", "target": "original"}

// Triplet is an input, an instruction and the target picture, with values of judges and encoders.
type Triplet struct {
	Row            int
	Source, Target string  // identify the pictures
	Emotion        string  // of the target
	ClipI          float64 // cosine of the original and the repainted picture
	VIE            float64 // (SC + PQ) / 2
	ClipT          float64
	Aesthetic      float64
	Quality        float64 // set by Select
}

// Rules of AIM-Bench's paper.
const (
	// AIMBench keeps the best edits of each source by quality = 0.5 VIE + 0.3 CLIP-T + 0.2 aesthetic, each min-max
	// normalised over the edits of the source (section 3.4, equation 3).
	AIMBench = "aim-bench"
	// AIM40k keeps targets that still resemble their originals, by CLIP-I, and equally many of each emotion (section
	// 5.1).
	AIM40k = "aim-40k"
)

// RuleNames lists the rules.
func RuleNames() []string { return []string{AIMBench, AIM40k} }

// TripletSelection selects triplets by a rule.
type TripletSelection struct {
	// Rule is AIMBench or AIM40k. "" applies both, as before rules had names: the threshold of AIM40k, then the best
	// of each target by AIMBench, normalised over the table, then the balance.
	Rule string

	ClipI      float64 // AIM40k: CLIP-I must exceed it; 0.85 in the paper
	PerEmotion int     // AIM40k: triplets of each emotion, by highest CLIP-I; 0: as many as the rarest has
	Top        int     // AIMBench: edits of each source; 5 of 8 in the paper; 0: all
	OverTable  bool    // AIMBench: normalise over the table; the paper does not say over what
}

// rule is the columns that a selection needs, and its filters.
type rule struct {
	columns []string
	steps   []func(*sieve) error
}

var rules = map[string]rule{
	AIMBench: {[]string{"vie", "clip_t", "aesthetic"}, []func(*sieve) error{
		func(s *sieve) error {
			if s.OverTable {
				return s.rate(func(*Triplet) string { return "" })
			}
			return s.rate(func(t *Triplet) string { return t.Source })
		},
		func(s *sieve) error { return s.best("source", func(t *Triplet) string { return t.Source }) },
	}},
	AIM40k: {[]string{"clip_i", "emotion"}, []func(*sieve) error{
		(*sieve).emotions, (*sieve).resembling,
		func(s *sieve) error {
			return s.balance("clip_i %g is not among the %d highest of %s", func(t *Triplet) float64 { return t.ClipI })
		},
	}},
	"": {[]string{"vie", "clip_i", "clip_t", "aesthetic", "emotion"}, []func(*sieve) error{
		(*sieve).emotions, (*sieve).resembling,
		func(s *sieve) error { return s.rate(func(*Triplet) string { return "" }) },
		func(s *sieve) error { return s.best("target", func(t *Triplet) string { return t.Target }) },
		func(s *sieve) error {
			return s.balance("quality %.4f is not among the %d best of %s", func(t *Triplet) float64 { return t.Quality })
		},
	}},
}

// Select applies the rule. It returns the chosen triplets by row, and a reason for every other row, also with an
// error.
func (s TripletSelection) Select(all []Triplet) (chosen []Triplet, dropped map[int]string, err error) {
	v := sieve{TripletSelection: s, left: slices.Clone(all), dropped: map[int]string{}}
	err = v.run()
	return v.left, v.dropped, err
}

// sieve is a selection in progress.
type sieve struct {
	TripletSelection
	left    []Triplet
	dropped map[int]string
	lost    []loss
}

// loss counts the rows that one filter dropped.
type loss struct {
	one, many string // of the rows: "has ...", "have ..."
	n, first  int    // how many rows, and the first one
}

func (s *sieve) run() error {
	for _, step := range rules[s.Rule].steps {
		if err := step(s); err != nil {
			return err
		}
	}
	slices.SortFunc(s.left, func(a, b Triplet) int { return a.Row - b.Row })
	return nil
}

func (s *sieve) drop(row int, reason string) {
	s.dropped[row] = reason
	l := &s.lost[len(s.lost)-1]
	if l.n++; l.n == 1 || row < l.first {
		l.first = row
	}
}

// keep drops triplets for which why returns a reason.
func (s *sieve) keep(one, many string, why func(t *Triplet) string) {
	s.lost = append(s.lost, loss{one: one, many: many})
	s.left = slices.DeleteFunc(s.left, func(t Triplet) bool {
		reason := why(&t)
		if reason != "" {
			s.drop(t.Row, reason)
		}
		return reason != ""
	})
}

func (s *sieve) emotions() error {
	for i := range s.left {
		s.left[i].Emotion = strings.ToLower(strings.TrimSpace(s.left[i].Emotion))
	}
	s.keep("has none of the eight emotions", "have none of the eight emotions", func(t *Triplet) string {
		if slices.Contains(Emotions, t.Emotion) {
			return ""
		}
		return fmt.Sprintf("emotion %q: want one of %s", t.Emotion, strings.Join(Emotions, ", "))
	})
	return nil
}

func (s *sieve) resembling() error {
	s.keep("has too low a clip_i", "have too low a clip_i", func(t *Triplet) string {
		if t.ClipI > s.ClipI {
			return ""
		}
		return fmt.Sprintf("clip_i %g is not above %g", t.ClipI, s.ClipI)
	})
	return nil
}

// rate sets the quality of each triplet (equation 3), normalised over the triplets with the same key.
func (s *sieve) rate(key func(*Triplet) string) error {
	groups := map[string][]*Triplet{}
	for i := range s.left {
		t := &s.left[i]
		t.Quality = 0
		groups[key(t)] = append(groups[key(t)], t)
	}
	for _, g := range groups {
		vie := minMax(g, func(t *Triplet) float64 { return t.VIE })
		text := minMax(g, func(t *Triplet) float64 { return t.ClipT })
		aesthetic := minMax(g, func(t *Triplet) float64 { return t.Aesthetic })
		for _, t := range g {
			t.Quality = 0.5*vie(t.VIE) + 0.3*text(t.ClipT) + 0.2*aesthetic(t.Aesthetic)
		}
	}
	return nil
}

// minMax maps values onto 0..1 over all triplets; a constant becomes 0.
func minMax(all []*Triplet, value func(*Triplet) float64) func(float64) float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, t := range all {
		lo, hi = min(lo, value(t)), max(hi, value(t))
	}
	if !(hi > lo) {
		return func(float64) float64 { return 0 }
	}
	return func(v float64) float64 { return (v - lo) / (hi - lo) }
}

// best keeps the Top triplets of highest quality with the same key.
func (s *sieve) best(what string, key func(*Triplet) string) error {
	slices.SortStableFunc(s.left, func(a, b Triplet) int { return cmp.Compare(b.Quality, a.Quality) })
	of := map[string]int{}
	text := "not among the best of its " + what
	s.keep("is "+text, "are "+text, func(t *Triplet) string {
		if of[key(t)]++; s.Top == 0 || of[key(t)] <= s.Top {
			return ""
		}
		return fmt.Sprintf("quality %.4f is not among the %d best of its %s", t.Quality, s.Top, what)
	})
	return nil
}

// balance keeps equally many triplets of each emotion, by highest value.
func (s *sieve) balance(reason string, value func(*Triplet) float64) error {
	slices.SortStableFunc(s.left, func(a, b Triplet) int { return cmp.Compare(value(&b), value(&a)) })
	counts := map[string]int{}
	for _, t := range s.left {
		counts[t.Emotion]++
	}
	each := s.PerEmotion
	if each == 0 {
		each = len(s.left)
		for _, e := range Emotions {
			each = min(each, counts[e])
		}
	}
	var short []string
	for _, e := range Emotions {
		if counts[e] < max(each, 1) {
			short = append(short, fmt.Sprintf("%s %d", e, counts[e]))
		}
	}
	if len(short) > 0 && len(s.left) > 0 {
		s.left = nil
		return fmt.Errorf("the emotions cannot be balanced: too few are left of some (%s)", strings.Join(short, ", "))
	}
	clear(counts)
	s.keep("is more than the others", "are more than the others", func(t *Triplet) string {
		if counts[t.Emotion]++; counts[t.Emotion] <= each {
			return ""
		}
		return fmt.Sprintf(reason, value(t), each, t.Emotion)
	})
	return nil
}

// TripletCounts counts what [TripletSelection.Write] did.
type TripletCounts struct {
	Rows, Chosen, Dropped int
	Sources               int // of the chosen triplets
}

// Write selects triplets of a table with the columns of [TripletColumns] and the values that the rule needs, and
// writes a folder for DiffSynth-Studio. dropped.jsonl has the reason for each other row. If no triplet is left, or the
// emotions cannot be balanced, the error counts what each filter dropped.
func (s TripletSelection) Write(t *data.Table, scores scoring.Scores, out string, copied bool) (*TripletCounts, error) {
	v := sieve{TripletSelection: s, dropped: map[int]string{},
		lost: []loss{{one: "cannot be used", many: "cannot be used"}}}
	rows := map[int]data.Row{}
	for i := range t.Len() {
		row, triplet, err := readTriplet(t, i, rules[s.Rule].columns)
		if err == nil {
			err = scores.Err(i)
		}
		if err != nil {
			v.drop(i, err.Error())
			continue
		}
		rows[i], v.left = row, append(v.left, triplet)
	}
	if err := v.run(); err != nil {
		return nil, fmt.Errorf("%w. Of %s", err, v.losses(t))
	}
	if len(v.left) == 0 {
		return nil, fmt.Errorf("no triplet is left of %s", v.losses(t))
	}
	left := []scoring.FailedRow{}
	for _, i := range slices.Sorted(maps.Keys(v.dropped)) {
		left = append(left, scoring.FailedRow{Row: i, ID: rows[i].ID, Error: v.dropped[i]})
	}
	sources := map[string]bool{}
	err := atomicfile.WriteDir(out, func(dir string) error {
		var examples []RewardLabel
		pictures := newPictures(t, dir, copied)
		for _, triplet := range v.left {
			sources[triplet.Source] = true
			row, score := rows[triplet.Row], scores.Lines[triplet.Row].Value
			err := errors.New("its score is unbounded: levels need a range")
			var e RewardLabel
			if !score.Unbounded {
				e, err = pictures.label(triplet.Row, &row, row.Instruction, 10*score.Score01, "input", "target")
			}
			if err != nil {
				return t.At(triplet.Row, err)
			}
			examples = append(examples, e)
		}
		balance(examples)
		if err := Layouts["diffsynth"](dir, out, examples); err != nil {
			return err
		}
		return jsonfile.WriteLines(filepath.Join(dir, "dropped.jsonl"), left)
	})
	if err != nil {
		return nil, err
	}
	return &TripletCounts{t.Len(), len(v.left), len(left), len(sources)}, nil
}

// losses returns the number of rows, and of rows that each filter dropped, with the reason for the first.
func (s *sieve) losses(t *data.Table) string {
	count := func(n int, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	var steps []string
	for _, l := range s.lost {
		if l.n > 0 {
			first := t.At(l.first, errors.New(s.dropped[l.first]))
			steps = append(steps, fmt.Sprintf("%s (%v)", count(l.n, l.one, l.many), first))
		}
	}
	return strings.TrimSuffix(count(t.Len(), "row: ", "rows: ")+strings.Join(steps, ", "), ": ")
}

// readNumber reads a column into to. ok reports whether there is a value.
func readNumber(rec *data.Record, name string, to *float64) (ok bool, err error) {
	raw, _ := rec.Get(name)
	n, err := data.Finite(raw)
	if err == nil && n != nil && strings.HasPrefix(name, "clip_") && math.Abs(*n) > 1 {
		err = fmt.Errorf("%v is not a cosine: want -1 to 1", *n)
	}
	if err != nil {
		return false, fmt.Errorf("column %q: %w", name, err)
	}
	if n != nil {
		*to = *n
	}
	return n != nil, nil
}

// readTriplet reads a row and the needed values.
func readTriplet(t *data.Table, i int, needed []string) (data.Row, Triplet, error) {
	triplet := Triplet{Row: i}
	rec, err := t.Record(i)
	if err != nil {
		return data.Row{}, triplet, err
	}
	row, err := t.Row(rec)
	if err != nil {
		return row, triplet, err
	}
	identity := func(m data.Image) string {
		if len(m.Bytes) == 0 {
			return m.Path
		}
		sum := sha256.Sum256(m.Bytes) // the path of a picture inside the table is only a name, which others may share
		return string(sum[:])
	}
	triplet.Source, triplet.Target = identity(row.Source), identity(row.Edit)
	for _, m := range row.References {
		triplet.Source += "\x00" + identity(m)
	}
	fields := map[string]*float64{"vie": &triplet.VIE, "clip_i": &triplet.ClipI, "clip_t": &triplet.ClipT,
		"aesthetic": &triplet.Aesthetic}
	for _, name := range needed {
		if name == "emotion" {
			emotion, _ := rec.Get(name)
			if triplet.Emotion, err = data.Text(emotion); err != nil {
				return row, triplet, err
			}
			continue
		}
		ok, err := readNumber(&rec, name, fields[name])
		if name == "vie" && !ok && err == nil {
			var sc, pq float64
			if ok, err = readNumber(&rec, "sc", &sc); ok {
				ok, err = readNumber(&rec, "pq", &pq)
			}
			triplet.VIE = (sc + pq) / 2
		}
		switch {
		case err != nil:
			return row, triplet, err
		case !ok && name == "vie":
			return row, triplet, errors.New("vie is missing (or sc and pq)")
		case !ok:
			return row, triplet, fmt.Errorf("%s is missing", name)
		}
	}
	return row, triplet, nil
}
