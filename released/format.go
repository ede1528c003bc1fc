package released

import (
	"fmt"
	"strings"
)

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
