package labeling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Account says what became of each of Total things: they are labelled, unlabelled, skipped or duplicates, and nothing
// else.
type Account struct {
	Total      int            `json:"total"`
	Labelled   int            `json:"labelled"`
	Unlabelled map[string]int `json:"unlabelled"` // why -> how many
	Skipped    map[string]int `json:"skipped"`    // kind -> how many; skipped.jsonl has the reasons
	Duplicates int            `json:"duplicates"`
}

// state is one of the four, with its reason.
type state struct {
	class int
	why   string
}

// The classes, from the least to the most: a sample has that of its best row.
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

// check says that the sum is not the total, which is a bug here.
func (a *Account) check(what string) error {
	sum := a.Labelled + a.Duplicates
	for _, m := range []map[string]int{a.Unlabelled, a.Skipped} {
		for _, n := range m {
			sum += n
		}
	}
	if sum != a.Total {
		return fmt.Errorf("internal error, please report it: %d %s came in, and %d are accounted for: %s", a.Total, what, sum,
			a)
	}
	return nil
}

// String is "10: 5 labelled, 2 without a label (no rule applies 2), 1 skipped (bad 1), 2 duplicates".
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

// ledger keeps the best state of every sample: of its outputs if it has any, else of its source and target, which are
// everybody's. It takes two bytes a sample.
type ledger struct {
	states []state // that were met
	codes  map[state]uint8
	of     [][2][]uint8 // by source: of outputs, of the rest; index into states
}

func newLedger(p *plan) *ledger {
	l := &ledger{states: []state{{}}, codes: map[state]uint8{{}: 0}}
	for _, s := range p.Sources {
		l.of = append(l.of, [2][]uint8{make([]uint8, s.Samples), make([]uint8, s.Samples)})
	}
	return l
}

// note gives a sample a state, unless it has a better one. rest: the row is none of its outputs.
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

// account sums up. A sample without a state is one that was lost.
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
