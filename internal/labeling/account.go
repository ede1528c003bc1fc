package labeling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Account counts what became of each of Total items: every item is labelled, unlabelled, skipped or a duplicate.
type Account struct {
	Total      int            `json:"total"`
	Labelled   int            `json:"labelled"`
	Unlabelled map[string]int `json:"unlabelled"` // reason -> count
	Skipped    map[string]int `json:"skipped"`    // kind -> count; skipped.jsonl has the reasons
	Duplicates int            `json:"duplicates"`
}

// state is the class of an item, with the reason.
type state struct {
	class int
	why   string
}

// The classes, from worst to best: a sample has the class of its best row.
const (
	stateNone = iota
	stateSkipped
	stateDuplicate
	stateUnlabelled
	stateLabelled
)

func newAccount() Account { return Account{Unlabelled: map[string]int{}, Skipped: map[string]int{}} }

func (a *Account) add(s state) {
	switch s.class {
	case stateLabelled:
		a.Labelled++
	case stateUnlabelled:
		a.Unlabelled[s.why]++
	case stateDuplicate:
		a.Duplicates++
	case stateSkipped:
		a.Skipped[s.why]++
	}
}

// check returns an error if the sum is not the total, which is a bug in this package.
func (a *Account) check(what string) error {
	sum := a.Labelled + a.Duplicates
	for _, m := range []map[string]int{a.Unlabelled, a.Skipped} {
		for _, n := range m {
			sum += n
		}
	}
	if sum != a.Total {
		return fmt.Errorf("internal error, please report it: %d %s came in, but %d are accounted for: %s", a.Total, what, sum,
			a)
	}
	return nil
}

// String returns a text like "10: 5 labelled, 2 without a label (no rule applies 2), 1 skipped (bad 1), 2
// duplicates".
func (a *Account) String() string {
	list := func(m map[string]int) (string, int) {
		var parts []string
		sum := 0
		for _, why := range slices.Sorted(maps.Keys(m)) {
			parts = append(parts, fmt.Sprintf("%s %d", why, m[why]))
			sum += m[why]
		}
		if parts == nil {
			return "", 0
		}
		return " (" + strings.Join(parts, "; ") + ")", sum
	}
	without, n := list(a.Unlabelled)
	skipped, m := list(a.Skipped)
	return fmt.Sprintf("%d: %d labelled, %d without a label%s, %d skipped%s, %d duplicates", a.Total, a.Labelled, n,
		without, m, skipped, a.Duplicates)
}

// ledger keeps the best state of every sample: of its outputs if it has any, otherwise of its other rows (source and
// target). It takes two bytes per sample.
type ledger struct {
	states []state // seen so far
	codes  map[state]uint8
	of     [][2][]uint8 // by source: for outputs, for the rest; indexes into states
}

func newLedger(p *plan) *ledger {
	l := &ledger{states: []state{{}}, codes: map[state]uint8{{}: 0}}
	for _, s := range p.Sources {
		l.of = append(l.of, [2][]uint8{make([]uint8, s.Samples), make([]uint8, s.Samples)})
	}
	return l
}

// note gives a sample a state, unless it has a better one. rest: the row is not one of its outputs.
func (l *ledger) note(source, sample int, rest bool, s state) {
	code, ok := l.codes[s]
	if !ok {
		code = uint8(len(l.states))
		l.codes[s], l.states = code, append(l.states, s)
	}
	list := l.of[source][0]
	if rest {
		list = l.of[source][1]
	}
	if sample < len(list) && cmp.Compare(l.states[list[sample]].class, s.class) < 0 {
		list[sample] = code
	}
}

// account sums up the states. A sample without a state was lost and is not counted.
func (l *ledger) account() Account {
	a := newAccount()
	for _, lists := range l.of {
		a.Total += len(lists[0])
		for i, code := range lists[0] {
			if code == 0 {
				code = lists[1][i]
			}
			a.add(l.states[code])
		}
	}
	return a
}
