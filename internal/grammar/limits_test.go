package grammar

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// nested nests a schema n times in another, which contains a %s.
func nested(n int, in, around string) string {
	for range n {
		in = strings.ReplaceAll(around, "%s", in)
	}
	return in
}

// listed joins n texts with commas.
func listed(n int, text func(i int) string) string {
	var all []string
	for i := range n {
		all = append(all, text(i))
	}
	return strings.Join(all, ", ")
}

const (
	aList = `{"type": "array", "items": %s, "minItems": 1, "maxItems": 1}`
	aText = `{"type": "string"}`
)

// doubled is a schema of few bytes that expands to 2^n schemas.
func doubled(n int) string {
	return `{"$ref": "#/$defs/0", "$defs": {` + listed(n, func(i int) string {
		next := fmt.Sprintf(`{"$ref": "#/$defs/%d"}`, i+1)
		return fmt.Sprintf(`"%d": {"type": "object", "properties": {"a": %s, "b": %s}}`, i, next, next)
	}) + fmt.Sprintf(`, "%d": %s}}`, n, aText)
}

// TestLimits: a schema that is too large is refused at once, and the error says what is too large.
func TestLimits(t *testing.T) {
	for name, c := range map[string][2]string{
		"2,000 arrays": {nested(2000, aText, aList), "more than 64 nested schemas"},
		"100 arrays":   {nested(100, aText, aList), "more than 64 nested schemas"},
		"anyOf doubled 20 times": {
			nested(20, aText, `{"anyOf": [%s, %s]}`), "bytes",
		},
		"anyOf doubled 7 times": {nested(7, aText, `{"anyOf": [%s, %s]}`), "anyOf has 128 alternatives"},
		"references doubled":    {doubled(20), "more than 5000 schemas"},
		"anyOf of references": {
			`{"$defs": {"a": {"anyOf": [` + listed(33, func(int) string { return aText }) +
				`]}}, "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}`, "anyOf has 66 alternatives",
		},
		"enum":        {`{"enum": [` + listed(5001, func(i int) string { return fmt.Sprint(i) }) + `]}`, "values of enum"},
		"a long text": {`{"const": "` + strings.Repeat("a", 200000) + `"}`, "131072"},
		"a long answer": {
			nested(5, aText, `{"type": "array", "items": %s, "minItems": 65536}`), "shortest text",
		},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := FromSchema(json.RawMessage(c[0]), true)
			if err == nil || !strings.Contains(err.Error(), c[1]) {
				t.Errorf("%s: %v, want %q", name, err, c[1])
			}
			if took := time.Since(began); took > 5*time.Second { // milliseconds on an idle machine
				t.Errorf("%s: got %v until it was refused, want at most 5s", name, took)
			}
		})
	}
}

// allowed are schemas at the limits.
func allowed() map[string]string {
	long := strings.Repeat("-", 60)
	anyOf := func(n int, part func(i int) string) string { return `{"anyOf": [` + listed(n, part) + `]}` }
	fields := func(n int, part func(i int) string) string {
		return `{"type": "object", "properties": {` + listed(n, part) + `}}`
	}
	return map[string]string{
		"depth":  nested(maxDepth-1, aText, aList),
		"depth2": nested(maxDepth-1, aText, strings.Replace(aList, `, "minItems": 1, "maxItems": 1`, "", 1)),
		"const":  `{"const": "` + strings.Repeat("-", maxBytes-20) + `"}`,
		"enum":   `{"enum": [` + listed(maxSchemas-1, func(i int) string { return fmt.Sprintf(`"a%d"`, i*7919) }) + `]}`,
		"long":   `{"enum": [` + listed(1800, func(i int) string { return fmt.Sprintf(`"%s%d"`, long, i) }) + `]}`,
		"texts": anyOf(maxOpen, func(i int) string {
			return fmt.Sprintf(`{"type": "string", "minLength": %d, "maxLength": %d}`, i, 100+i)
		}),
		"numbers": anyOf(maxOpen, func(i int) string {
			return fmt.Sprintf(`{"type": "number", "minimum": %d, "maximum": %d}`, -1000-i, 100000+i)
		}),
		"objects": anyOf(maxOpen, func(i int) string {
			return fields(35, func(j int) string {
				return fmt.Sprintf(`"%d":{"type":"string","maxLength":%d}`, j, 100+i)
			})
		}),
		"fields": fields(maxFields, func(i int) string {
			return fmt.Sprintf(`"%d": `, i) + fields(maxFields, func(j int) string {
				return fmt.Sprintf(`"%d":{"type":"null"}`, j)
			})
		}),
		"references": `{"$defs": {` + listed(1600, func(i int) string {
			return fmt.Sprintf(`"%d": {"type": "string", "maxLength": %d}`, i, i+1)
		}) + `}, "type": "object", "properties": {` + listed(25, func(i int) string {
			return fmt.Sprintf(`"%d": `, i) + fields(maxFields, func(j int) string {
				return fmt.Sprintf(`"%d": {"$ref": "#/$defs/%d"}`, j, i*maxFields+j)
			})
		}) + "}}",
		"lists": anyOf(maxOpen, func(i int) string {
			return nested(20, aText, fmt.Sprintf(`{"type":"array","items":%%s,"minItems":%d}`, i%2))
		}),
	}
}

// BenchmarkLimits compiles schemas at the limits and computes the first masks over 150,000 tokens: at the start and
// after the first bytes.
func BenchmarkLimits(b *testing.B) {
	v := large(b, 150000)
	for name, text := range allowed() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				g, err := FromSchema([]byte(text), false)
				if err != nil {
					b.Fatal(err)
				}
				w := NewMasks(g, v, false).Begin()
				if _, err := w.Mask(1 << 30); err != nil {
					b.Fatal(err)
				}
				for _, next := range `{["0":"1-` {
					w.Take(int64(next)) // as far as it goes
				}
				if _, err := w.Mask(1 << 30); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
