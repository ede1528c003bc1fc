package released

import (
	"fmt"
	"strings"

	"assay/internal/pystring"
	"assay/model"
)

// pythonFormat turns a template of Python's str.format with the field {name} into a prompt with [INSTRUCTION].
func pythonFormat(template, name string) (string, error) {
	if strings.Contains(template, model.InstructionMark) {
		return "", fmt.Errorf("the prompt contains %s, which is replaced by the instruction here", model.InstructionMark)
	}
	pieces, err := pystring.Cut(template, map[string]string{"{" + name + "}": "instruction"}, true)
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
		if p.Mark != "" {
			b.WriteString(model.InstructionMark)
		}
	}
	return b.String(), err
}
