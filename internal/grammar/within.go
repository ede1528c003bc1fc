package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// Choice returns the language that consists of the given texts.
func Choice(texts ...string) (*Grammar, error) {
	var all []expr
	for _, t := range texts {
		all = append(all, literal(t))
	}
	return grammarOf(either(all...))
}

// Within returns the language of the texts in which exactly one of the choices occurs, once or more often.
func Within(choices ...string) (*Grammar, error) {
	if len(choices) == 0 || slices.Contains(choices, "") {
		return nil, errNothing
	}
	return grammarOf(newWithin(choices))
}

// within is the rest of a text in which exactly one of some choices must occur: a state of a precomputed automaton
// from which an end can be reached.
type within struct {
	of    *occurrences
	state int32
}

func (w within) done() bool  { return w.of.distance[w.state] == 0 }
func (w within) least() int  { return int(w.of.distance[w.state]) }
func (w within) key() string { return fmt.Sprintf("(%s at %d)", w.of.name, w.state) }

func (w within) after(b byte) expr {
	next := w.of.next[w.state][w.of.class[b]]
	if next < 0 || w.of.distance[next] < 0 {
		return nil
	}
	return within{w.of, next}
}

// occurrences is the automaton. A state holds which choice occurred, how the text ends, and the position in a UTF-8
// character.
type occurrences struct {
	choices  []string
	name     string
	class    [256]uint8 // bytes of one class lead to the same states
	next     [][]int32  // by state and class; -1: no transition
	distance []int32    // bytes to the nearest end; -1: none
}

// place is a state of the automaton.
type place struct {
	found int    // the choice that occurred; -1: none yet
	end   string // the longest suffix of the text that is a prefix of a choice
	inner int    // index into inners: the position in a character
}

// inners are the positions in a UTF-8 character: the bytes that may come next, and the position that they lead to.
var inners = []struct {
	low, high byte
	next      int
}{
	{}, {0x80, 0xBF, 0}, {0x80, 0xBF, 1}, {0x80, 0xBF, 2}, {0xA0, 0xBF, 1}, {0x80, 0x9F, 1}, {0x90, 0xBF, 2},
	{0x80, 0x8F, 2},
}

// inner returns the position that a byte leads to; -1: the byte is not allowed.
func inner(from int, b byte) int {
	if from > 0 {
		if at := inners[from]; b >= at.low && b <= at.high {
			return at.next
		}
		return -1
	}
	switch {
	case b < 0x80:
		return 0
	case b >= 0xC2 && b <= 0xDF:
		return 1
	case b == 0xE0:
		return 4
	case b == 0xED:
		return 5
	case b >= 0xE1 && b <= 0xEF:
		return 2
	case b == 0xF0:
		return 6
	case b >= 0xF1 && b <= 0xF3:
		return 3
	case b == 0xF4:
		return 7
	}
	return -1
}

func newWithin(choices []string) expr {
	o := &occurrences{choices: choices, name: short(fmt.Sprintf("within %q", choices))}
	var bytes []byte // one byte of each class
	classes := map[string]uint8{}
	for b := range 256 {
		where := fmt.Sprint(strings.IndexByte(strings.Join(choices, ""), byte(b)))
		for from := range inners {
			where += fmt.Sprint(" ", inner(from, byte(b)))
		}
		if _, known := classes[where]; !known {
			classes[where] = uint8(len(bytes))
			bytes = append(bytes, byte(b))
		}
		o.class[b] = classes[where]
	}
	o.explore(bytes)
	if o.distance[0] < 0 {
		return nil
	}
	return within{o, 0}
}

// explore finds all states, and then the distance of each from an end.
func (o *occurrences) explore(bytes []byte) {
	places := []place{{found: -1}}
	known := map[place]int32{places[0]: 0}
	before := [][]int32{nil} // by state: the states that lead to it
	for at := int32(0); int(at) < len(places); at++ {
		row := make([]int32, len(bytes))
		for k, b := range bytes {
			next, ok := o.step(places[at], b)
			if !ok {
				row[k] = -1
				continue
			}
			to, seen := known[next]
			if !seen {
				to = int32(len(places))
				known[next], places, before = to, append(places, next), append(before, nil)
			}
			row[k], before[to] = to, append(before[to], at)
		}
		o.next = append(o.next, row)
	}
	var queue []int32
	for i, p := range places {
		o.distance = append(o.distance, -1)
		if p.found >= 0 && p.inner == 0 {
			o.distance[i], queue = 0, append(queue, int32(i))
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, from := range before[queue[0]] {
			if o.distance[from] < 0 {
				o.distance[from], queue = o.distance[queue[0]]+1, append(queue, from)
			}
		}
	}
}

// step returns the state that a byte leads to; ok is false if the byte makes the text ill-formed or lets a second
// choice occur.
func (o *occurrences) step(p place, b byte) (next place, ok bool) {
	if p.inner = inner(p.inner, b); p.inner < 0 {
		return p, false
	}
	text := p.end + string([]byte{b})
	for i, c := range o.choices {
		if !strings.HasSuffix(text, c) {
			continue
		}
		if p.found >= 0 && p.found != i {
			return p, false
		}
		p.found = i
	}
	for !slices.ContainsFunc(o.choices, func(c string) bool { return strings.HasPrefix(c, text) }) {
		text = text[1:]
	}
	p.end = text
	return p, true
}
