package distil

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/scoring"
	"assay/internal/store"
	"assay/internal/table"
	"assay/textjudge"
)

// Words is a text judge as a teacher: each of its passes is a rating.
type Words struct {
	*textjudge.Judge
	Model    *chat.Kept
	Workers  int
	Progress func(done, total int)
}

// Name implements Teacher.
func (w *Words) Name() string { return w.Config.Name }

// Passes implements Teacher.
func (w *Words) Passes() int { return w.Config.Passes }

// Asked implements Teacher.
func (w *Words) Asked() any { return w.Model.Asked() }

// Rate implements Teacher. The time per score is estimated from the answers that the model generated in this run:
// stored answers take no time and are not counted.
func (w *Words) Rate(ctx context.Context, in, prefix string) ([]Rated, float64, error) {
	out := prefix + "-answers.jsonl"
	start, before := time.Now(), w.Model.Asked().Answers
	result, err := w.Judge.Table(ctx, table.Options{In: in, Out: out, Workers: w.Workers, Progress: w.Progress})
	if err != nil {
		return nil, 0, err
	}
	var seconds float64
	if asked := w.Model.Asked().Answers - before; asked > 0 {
		each := float64(result.Answers) / float64(max(1, result.Rows))
		seconds = time.Since(start).Seconds() / float64(asked) * each
	}
	rated, err := readRated(out, func(_ *data.Table, _ int, rec *data.Record) (r Rated, err error) {
		r.Ratings, r.Why, r.Err = w.Ratings(rec)
		return r, nil
	})
	return rated, seconds, err
}

// readRated reads the ratings of a table's rows. An unreadable row gets its error as result; an error of read ends
// the reading.
func readRated(path string, read func(t *data.Table, row int, rec *data.Record) (Rated, error)) ([]Rated, error) {
	t, err := data.OpenTable(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	rated := make([]Rated, t.Len())
	for i := range rated {
		rec, err := t.Record(i)
		if err != nil {
			rated[i].Err = err
			continue
		}
		if rated[i], err = read(t, i, &rec); err != nil {
			return nil, err
		}
	}
	return rated, nil
}

// Scorers are several numeric judges as a teacher: each is a pass.
type Scorers struct {
	Names    []string
	Judges   []edit.Judge
	Progress func(done, total int)
}

// Name implements Teacher.
func (s *Scorers) Name() string { return strings.Join(s.Names, " + ") }

// Passes implements Teacher.
func (s *Scorers) Passes() int { return len(s.Judges) }

// Asked implements Teacher.
func (s *Scorers) Asked() any { return nil }

// Fingerprint implements Teacher.
func (s *Scorers) Fingerprint() (string, error) {
	parts := []string{"scorers"}
	for _, j := range s.Judges {
		print, err := j.Fingerprint()
		if err != nil {
			return "", err
		}
		parts = append(parts, print)
	}
	return store.KeyOf(parts...).String(), nil
}

// Rate implements Teacher. An edit at which one of the scorers failed has no ratings.
func (s *Scorers) Rate(ctx context.Context, in, prefix string) ([]Rated, float64, error) {
	var rated []Rated
	seconds, whole := 0.0, true
	for n, j := range s.Judges {
		out := fmt.Sprintf("%s-scores-%d.jsonl", prefix, n+1)
		if _, err := os.Stat(out + ".progress"); err == nil {
			whole = false // a part was scored earlier
		}
		start := time.Now()
		_, err := scoring.Table(ctx, j, scoring.Options{
			Options: table.Options{In: in, Out: out, Progress: s.Progress}, Warn: func(string) {}})
		if err != nil {
			return nil, 0, err
		}
		seconds += time.Since(start).Seconds()
		t, err := data.OpenTable(out)
		if err != nil {
			return nil, 0, err
		}
		scores, err := scoring.Read(t)
		if err := errors.Join(err, t.Close()); err != nil {
			return nil, 0, err
		}
		if rated == nil {
			rated = make([]Rated, t.Len())
		}
		for i := range rated {
			if err := scores.Err(i); err != nil {
				rated[i] = Rated{Err: fmt.Errorf("%s: %w", s.Names[n], err)}
			} else if rated[i].Err == nil {
				rated[i].Ratings = append(rated[i].Ratings, scores.Lines[i].Value.Score01)
				rated[i].Unbounded = rated[i].Unbounded || scores.Lines[i].Value.Unbounded
			}
		}
	}
	if !whole {
		return rated, 0, nil
	}
	return rated, seconds / float64(max(1, len(rated))), nil
}

// People is a teacher whose ratings are already in the tables, in the column ratings: from people, or from an
// external judge.
type People struct {
	Order bool // trust only the order of the ratings, which may be on any scale
}

// Name implements Teacher.
func (People) Name() string { return "the tables' ratings" }

// Passes implements Teacher.
func (People) Passes() int { return 0 }

// Asked implements Teacher.
func (People) Asked() any { return nil }

// Fingerprint implements Teacher.
func (People) Fingerprint() (string, error) { return "ratings", nil }

// Rate implements Teacher.
func (p People) Rate(_ context.Context, in, _ string) ([]Rated, float64, error) {
	rated, err := readRated(in, func(t *data.Table, row int, rec *data.Record) (r Rated, err error) {
		v, _ := rec.Get("ratings")
		if r.Ratings, r.Err = data.Numbers(v); r.Err == nil && len(r.Ratings) == 0 {
			r.Err = errors.New("no ratings: the column ratings is empty")
		}
		for _, x := range r.Ratings {
			if !p.Order && (x < 0 || x > 1) { // on another scale, probably like the full table
				return r, exit.Usage(t.At(row, fmt.Errorf("ratings must be numbers from 0 to 1, not %v", x)))
			}
		}
		return r, nil
	})
	return rated, 0, err
}
