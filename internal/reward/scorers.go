package reward

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"assay/edit"
	"assay/internal/reward/pace"
)

// scorerSet holds the served scorers. The first one is the default for requests that name none.
type scorerSet struct {
	names []string // in their order
	by    map[string]*Replicated
}

func newScorerSet(names []string, scorers []edit.Judge) (*scorerSet, error) {
	s := &scorerSet{names, map[string]*Replicated{}}
	for i, name := range names {
		if name == "" || strings.ContainsAny(name, " \t\r\n/") || s.by[name] != nil {
			return nil, fmt.Errorf("scorer name %q: want a unique name without spaces and slashes", name)
		}
		copies, ok := scorers[i].(*Replicated)
		if !ok {
			copies = newReplicated(scorers[i])
		}
		for _, role := range slices.Concat(copies.info.Pictures, copies.info.Texts) {
			if role != "instruction" {
				return nil, fmt.Errorf("scorer %s needs %q, which requests do not have", name, role)
			}
		}
		copies.name, copies.estimators = name, [2]*pace.Estimator{{}, {}}
		s.by[name] = copies
	}
	return s, nil
}

func (s *scorerSet) all() (list []*Replicated) {
	for _, name := range s.names {
		list = append(list, s.by[name])
	}
	return list
}

// copies returns the largest number of copies of a scorer, at least 1.
func (s *scorerSet) copies() int {
	n := 1
	for _, v := range s.by {
		n = max(n, len(v.at))
	}
	return n
}

// find returns a scorer by name; "" is the first one.
func (s *scorerSet) find(name string) (*Replicated, error) {
	if len(s.names) == 0 {
		return nil, apiErrorf(http.StatusUnprocessableEntity, "unknown_scorer", "this server has no scorer")
	}
	if name == "" {
		name = s.names[0]
	}
	if v := s.by[name]; v != nil {
		return v, nil
	}
	return nil, apiErrorf(http.StatusUnprocessableEntity, "unknown_scorer", "no scorer %q; available: %s",
		name, strings.Join(s.names, ", "))
}

func (s *scorerSet) warm(ctx context.Context) error {
	for _, v := range s.all() {
		if v.info.Words {
			continue // each request costs money
		}
		if err := v.warm(ctx, func(d time.Duration) { v.estimators[scoreKind].Observe(1, d) }); err != nil {
			return fmt.Errorf("scorer %s: %w", v.name, err)
		}
	}
	return nil
}
