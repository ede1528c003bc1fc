package judges

import (
	"fmt"
	"regexp"
	"strings"
)

// pythonString finds the string that a Python source gives a name at the beginning of a line: in single, double or
// triple quotes, raw or not. Several definitions of a name, formatted and joined strings are errors.
func pythonString(source, name string) (string, bool, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n") // as Python reads it
	begin := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `[ \t]*(?::[^=\n]*)?=[ \t]*\(?\s*`)
	at := begin.FindAllStringIndex(source, -1)
	if len(at) == 0 {
		return "", false, nil
	}
	if len(at) > 1 {
		return "", false, fmt.Errorf("%s is defined %d times", name, len(at))
	}
	text, rest, err := pythonLiteral(source[at[0][1]:])
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", name, err)
	}
	end, _, _ := strings.Cut(rest, "\n")
	if end = strings.TrimSpace(end); end != "" && end != ")" && !strings.HasPrefix(end, "#") {
		return "", false, fmt.Errorf("%s: %q follows its string: only a plain string is read", name, end)
	}
	return text, true, nil
}

// pythonLiteral reads a string literal, and returns what follows it.
func pythonLiteral(source string) (text, rest string, err error) {
	raw := false
	for len(source) > 0 && strings.ContainsRune("rRuU", rune(source[0])) {
		raw = raw || source[0] == 'r' || source[0] == 'R'
		source = source[1:]
	}
	quote := ""
	for _, q := range []string{`"""`, `'''`, `"`, `'`} {
		if strings.HasPrefix(source, q) {
			quote = q
			break
		}
	}
	if quote == "" {
		first, _, _ := strings.Cut(source, "\n")
		return "", "", fmt.Errorf("%.40q is no plain string", first)
	}
	source = source[len(quote):]
	var b strings.Builder
	for i := 0; i < len(source); i++ {
		switch {
		case strings.HasPrefix(source[i:], quote):
			return b.String(), source[i+len(quote):], nil
		case source[i] == '\n' && len(quote) == 1:
			return "", "", fmt.Errorf("the line ends inside a string")
		case source[i] == '\\' && i+1 < len(source):
			i++
			if raw {
				b.WriteByte('\\')
				b.WriteByte(source[i])
				continue
			}
			c, known := pythonEscapes[source[i]]
			if !known {
				return "", "", fmt.Errorf(`the escape \%c is not read`, source[i])
			}
			b.WriteString(c)
		default:
			b.WriteByte(source[i])
		}
	}
	return "", "", fmt.Errorf("the string has no end")
}

var pythonEscapes = map[byte]string{
	'n': "\n", 't': "\t", 'r': "\r", '\\': `\`, '\'': "'", '"': `"`, '\n': "",
}

// pythonFormat turns a template of Python's str.format into one of ours: the field {name} becomes mark, doubled braces
// single ones. Other fields are errors.
func pythonFormat(template, name, mark string) (string, error) {
	if strings.Contains(template, mark) {
		return "", fmt.Errorf("the prompt holds %s, which is replaced by the instruction here", mark)
	}
	var b strings.Builder
	found := false
	for i := 0; i < len(template); i++ {
		rest := template[i:]
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			b.WriteByte(rest[0])
			i++
		case strings.HasPrefix(rest, "{"+name+"}"):
			b.WriteString(mark)
			i += len(name) + 1
			found = true
		case rest[0] == '{' || rest[0] == '}':
			return "", fmt.Errorf("the prompt holds %.20q, and the only field that is known is {%s}", rest, name)
		default:
			b.WriteByte(rest[0])
		}
	}
	if !found {
		return "", fmt.Errorf("the prompt holds no {%s}, which stands for the instruction", name)
	}
	return b.String(), nil
}
