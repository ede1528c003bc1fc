// Package pystring reads string constants from Python source. Prompts of other projects stay in their code, and are
// read from the user's copy of it. [Find] and [Plain] return a constant, and [Cut] splits a template at its
// placeholders. [Lines] and [Strip] cut texts as Python does.
package pystring

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// ErrAbsent is wrapped by the error for a name that is not defined at the start of a line.
var ErrAbsent = errors.New("is not defined at the start of a line")

// Plain is [Find] with f-strings as errors, for templates of str.format.
func Plain(source, name string) (string, error) { return find(source, name, true) }

// Find returns the string that a module assigns to a name at the start of a line: string literals in any quotes, raw
// or not, adjacent or joined by +. F-strings keep their fields as {name}, with doubled braces made single. Anything
// else, and several definitions of the name, are errors.
func Find(source, name string) (string, error) { return find(source, name, false) }

func find(source, name string, plain bool) (string, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n") // as Python reads it
	begin := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `[ \t]*(?::[^=\n]*)?=[ \t]*`)
	at := begin.FindAllStringIndex(source, -1)
	if len(at) == 0 {
		return "", fmt.Errorf("%s %w", name, ErrAbsent)
	}
	if len(at) > 1 {
		return "", fmt.Errorf("%s is defined %d times at the start of a line, want once", name, len(at))
	}
	r := reader{rest: source[at[0][1]:], plain: plain}
	text, err := r.expression()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// reader reads an expression of string literals.
type reader struct {
	rest   string
	inside bool // in parentheses, where line ends do not count
	plain  bool // f-strings are errors
}

func (r *reader) expression() (string, error) {
	r.skip()
	if strings.HasPrefix(r.rest, "(") {
		r.inside, r.rest = true, r.rest[1:]
	}
	var b strings.Builder
	for n := 0; ; n++ {
		r.skip()
		joined := n > 0 && strings.HasPrefix(r.rest, "+")
		if joined {
			r.rest = r.rest[1:]
			r.skip()
		}
		text, ok, err := r.literal()
		if err != nil {
			return "", err
		}
		if !ok {
			if n == 0 || joined || !r.ends() {
				line, _, _ := strings.Cut(r.rest, "\n")
				return "", fmt.Errorf("%.40q is not a plain string", line)
			}
			return b.String(), nil
		}
		b.WriteString(text)
	}
}

// skip skips blanks, comments, and line ends that do not end the expression.
func (r *reader) skip() {
	for {
		before := r.rest
		r.rest = strings.TrimLeft(r.rest, " \t")
		r.rest = strings.TrimPrefix(r.rest, "\\\n")
		if strings.HasPrefix(r.rest, "#") {
			_, line, found := strings.Cut(r.rest, "\n")
			if r.rest = line; found {
				r.rest = "\n" + line
			}
		}
		if r.inside {
			r.rest = strings.TrimLeft(r.rest, "\n")
		}
		if r.rest == before {
			return
		}
	}
}

// ends reports whether the expression ends here.
func (r *reader) ends() bool {
	if r.inside {
		if !strings.HasPrefix(r.rest, ")") {
			return false
		}
		r.inside, r.rest = false, r.rest[1:]
		r.skip()
	}
	return r.rest == "" || r.rest[0] == '\n' || r.rest[0] == ';'
}

// literal reads one string literal, if there is one.
func (r *reader) literal() (text string, ok bool, err error) {
	n := 0
	for n < 2 && n < len(r.rest) && strings.ContainsRune("rRuUfF", rune(r.rest[n])) {
		n++
	}
	prefix, body := strings.ToLower(r.rest[:n]), r.rest[n:]
	quote := ""
	for _, q := range []string{`"""`, `'''`, `"`, `'`} {
		if strings.HasPrefix(body, q) {
			quote = q
			break
		}
	}
	if quote == "" {
		return "", false, nil
	}
	body = body[len(quote):]
	var b strings.Builder
	for i := 0; i < len(body); {
		switch {
		case strings.HasPrefix(body[i:], quote):
			r.rest = body[i+len(quote):]
			text = b.String()
			if strings.Contains(prefix, "f") {
				if r.plain {
					return "", false, fmt.Errorf("%.40q is an f-string, not a plain string", text)
				}
				text, err = fields(text)
			}
			return text, true, err
		case body[i] == '\n' && len(quote) == 1:
			return "", false, fmt.Errorf("a line ends inside a string")
		case body[i] == '\\' && i+1 < len(body):
			size, err := escape(&b, body[i:], strings.Contains(prefix, "r"))
			if err != nil {
				return "", false, err
			}
			i += size
		default:
			b.WriteByte(body[i])
			i++
		}
	}
	return "", false, fmt.Errorf("unterminated string literal")
}

var escapes = map[byte]string{
	'n': "\n", 't': "\t", 'r': "\r", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\\': `\`, '\'': "'", '"': `"`, '\n': "",
}

// escape writes the character of the escape sequence at the start of a text, and returns the length of the sequence.
func escape(b *strings.Builder, text string, raw bool) (int, error) {
	if raw {
		b.WriteString(text[:2])
		return 2, nil
	}
	if c, known := escapes[text[1]]; known {
		b.WriteString(c)
		return 2, nil
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[1]]
	if digits > 0 && len(text) >= 2+digits {
		var c rune
		if _, err := fmt.Sscanf(text[2:2+digits], "%x", &c); err == nil && utf8.ValidRune(c) {
			b.WriteRune(c)
			return 2 + digits, nil
		}
	}
	return 0, fmt.Errorf("the escape sequence %.4q is not supported", text)
}

var field = regexp.MustCompile(`^\{[A-Za-z_][A-Za-z_0-9]*\}`)

// fields makes the doubled braces of an f-string single, and keeps its fields if they are plain names.
func fields(text string) (string, error) {
	var b strings.Builder
	for len(text) > 0 {
		size := 1
		switch {
		case strings.HasPrefix(text, "{{"), strings.HasPrefix(text, "}}"):
			b.WriteByte(text[0])
			size = 2
		case text[0] == '{':
			if size = len(field.FindString(text)); size == 0 {
				return "", fmt.Errorf("the field %.20q is more than a plain name", text)
			}
			b.WriteString(text[:size])
		case text[0] == '}':
			return "", fmt.Errorf("a single } in an f-string")
		default:
			b.WriteByte(text[0])
		}
		text = text[size:]
	}
	return b.String(), nil
}
