package text

import (
	"fmt"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// Prompt is a Jinja template of a text, in the same Jinja as chat templates.
type Prompt struct{ compiled *chatTemplate }

// NewPrompt parses a template; errors name origin. A newline at the end of the source is dropped.
func NewPrompt(source, origin string) (*Prompt, error) {
	t, err := compileTemplate(source, origin, nil)
	if err != nil {
		return nil, err
	}
	return &Prompt{t}, nil
}

// Render returns the text. Values are inserted as they are: template syntax in them is not evaluated.
func (p *Prompt) Render(values map[string]any) (text string, err error) {
	defer recoverTemplate(p.compiled.origin, &err)
	text, err = p.compiled.template.ExecuteToString(exec.NewContext(values))
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.compiled.origin, cause(err))
	}
	return text, nil
}
