package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"
)

// maxBlanks is the maximum number of whitespace characters in one place between the parts of JSON: without a limit a
// model may never stop writing them.
const maxBlanks = 12

var (
	blanks = several(bytesOf(' ', ' ', '\n', '\n', '\t', '\t'), 0, maxBlanks)

	trail = bytesOf(0x80, 0xBF)
	// beyond are the characters of more than one byte, well-formed according to RFC 3629.
	beyond = either(
		then(bytesOf(0xC2, 0xDF), trail), then(bytesOf(0xE0, 0xE0), bytesOf(0xA0, 0xBF), trail),
		then(bytesOf(0xE1, 0xEC, 0xEE, 0xEF), trail, trail), then(bytesOf(0xED, 0xED), bytesOf(0x80, 0x9F), trail),
		then(bytesOf(0xF0, 0xF0), bytesOf(0x90, 0xBF), trail, trail),
		then(bytesOf(0xF1, 0xF3), trail, trail, trail),
		then(bytesOf(0xF4, 0xF4), bytesOf(0x80, 0x8F), trail, trail),
	)

	hex = bytesOf('0', '9', 'a', 'f', 'A', 'F')
	// escaped is a character written with a backslash; surrogates come only in pairs.
	escaped = then(literal(`\`), either(
		bytesOf('"', '"', '\\', '\\', '/', '/', 'b', 'b', 'f', 'f', 'n', 'n', 'r', 'r', 't', 't'),
		then(literal("u"), bytesOf('0', '9', 'a', 'c', 'A', 'C', 'e', 'f', 'E', 'F'), hex, hex, hex),
		then(literal("u"), bytesOf('d', 'd', 'D', 'D'), bytesOf('0', '7'), hex, hex),
		then(literal("u"), bytesOf('d', 'd', 'D', 'D'), bytesOf('8', '9', 'a', 'b', 'A', 'B'), hex, hex,
			literal(`\u`), bytesOf('d', 'd', 'D', 'D'), bytesOf('c', 'f', 'C', 'F'), hex, hex),
	))
	// character is a character of a JSON string.
	character = either(bytesOf(' ', '!', '#', '[', ']', 0x7F), beyond, escaped)
)

// text is a JSON string of from to to characters; to -1: no upper limit.
func text(from, to int) expr { return then(literal(`"`), several(character, from, to), literal(`"`)) }

// spelled returns the one JSON spelling of a value that is allowed.
func spelled(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// array is a JSON array of from to to items; to -1: no upper limit.
func array(item expr, from, to int) expr {
	if to >= 0 && to < from || item == nil && from > 0 {
		return nil
	}
	if to == 0 || item == nil {
		return then(literal("["), blanks, literal("]"))
	}
	more := to
	if to > 0 {
		more--
	}
	items := then(item, several(then(blanks, literal(","), blanks, item), max(from-1, 0), more), blanks)
	if from == 0 {
		items = optional(items)
	}
	return then(literal("["), blanks, items, literal("]"))
}

// field is a key of an object.
type field struct {
	name     string
	value    expr
	required bool
}

// object is a JSON object with these fields, in this order or in any order.
type object struct {
	fields  []field
	ordered bool
	keys    []expr // each field's name, colon and value
	name    string
}

// maxFields is the maximum number of fields of an object: the fields already written are the bits of a word.
const maxFields = 64

func objectOf(fields []field, ordered bool) (expr, error) {
	if len(fields) > maxFields {
		return nil, fmt.Errorf("%d properties, at most %d are supported", len(fields), maxFields)
	}
	o := &object{ordered: ordered}
	name := fmt.Sprintf("object %t", ordered)
	for _, f := range fields {
		if f.value == nil && !f.required {
			continue // it can never occur
		}
		key, err := spelled(f.name)
		if err != nil {
			return nil, err
		}
		whole := then(literal(key), blanks, literal(":"), blanks, f.value, blanks)
		if whole == nil {
			return nil, fmt.Errorf("%q: required, but its schema allows no value", f.name)
		}
		o.fields, o.keys = append(o.fields, f), append(o.keys, whole)
		name += fmt.Sprintf(" %t%s", f.required, whole.key())
	}
	o.name = short(name)
	return then(literal("{"), blanks, &members{o, 0}), nil
}

// members is the rest of an object after the fields already written.
type members struct {
	of    *object
	there uint64 // bit set of the fields already written
}

func (m *members) done() bool { return false }

func (m *members) least() int {
	n := len("}")
	if m.there != 0 {
		n += len(",")
	}
	missing := 0
	for i, f := range m.of.fields {
		if f.required && m.there>>i&1 == 0 {
			n += m.of.keys[i].least() + len(",")
			missing++
		}
	}
	if missing > 0 || m.there != 0 {
		n -= len(",")
	}
	return n
}

func (m *members) after(b byte) expr {
	var next []expr
	starts, start := byte('"'), 0
	if m.there != 0 {
		starts = ','
	}
	if m.of.ordered {
		start = bits.Len64(m.there)
	}
	missing := false
	for i := start; i < len(m.of.fields) && !(missing && m.of.ordered); i++ {
		if m.there>>i&1 != 0 {
			continue
		}
		missing = missing || m.of.fields[i].required
		if b != starts {
			continue
		}
		entry := then(m.of.keys[i], &members{m.of, m.there | 1<<i})
		if m.there != 0 {
			entry = then(literal(","), blanks, entry)
		}
		next = append(next, entry.after(b))
	}
	if !missing {
		next = append(next, literal("}").after(b))
	}
	return either(next...)
}

func (m *members) key() string { return short(fmt.Sprintf("(%s there %x)", m.of.name, m.there)) }
