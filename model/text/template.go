package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// templateFiles is where checkpoints keep their chat template, in the order of preference: transformers 5, processors
// of transformers 4 in two spellings, and tokenizers. If both exist, the tokenizer's template may not support
// pictures.
var templateFiles = []string{
	"chat_template.jinja",
	"chat_template.json",
	"processor_config.json",
	"tokenizer_config.json",
}

// TemplateFile returns the file that a checkpoint's chat template is read from, "" if there is none.
func TemplateFile(dir string) string {
	_, origin, err := findTemplate(dir)
	if err != nil {
		return ""
	}
	return origin
}

// findTemplate returns the source of a checkpoint's chat template and the file it was in.
func findTemplate(dir string) (source, origin string, err error) {
	path := filepath.Join(dir, templateFiles[0])
	data, err := os.ReadFile(path)
	if err == nil {
		return string(data), path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	for _, name := range templateFiles[1:] {
		fields, err := readObject(dir, name)
		if err != nil {
			return "", "", err
		}
		raw, ok := fields["chat_template"]
		if !ok || string(raw) == "null" {
			continue
		}
		path := filepath.Join(dir, name)
		if source, err = pickTemplate(raw); err != nil {
			return "", "", fmt.Errorf("%s: chat_template: %w", path, err)
		}
		return source, path, nil
	}
	return "", "", fmt.Errorf(
		"%s has no chat template (looked for %s, then \"chat_template\" in %s): add one, or set a template in scorer.yaml",
		dir, templateFiles[0], strings.Join(templateFiles[1:], ", "))
}

// pickTemplate reads the three forms of "chat_template": a string, a list of {name, template}, an object of name:
// template. Of several, the one named "default" is the chat template.
func pickTemplate(raw json.RawMessage) (string, error) {
	var source string
	if json.Unmarshal(raw, &source) == nil {
		return source, nil
	}
	named := map[string]string{}
	var list []struct{ Name, Template string }
	if json.Unmarshal(raw, &list) == nil {
		for _, t := range list {
			named[t.Name] = t.Template
		}
	} else if json.Unmarshal(raw, &named) != nil {
		return "", errors.New("expected a string or named templates")
	}
	if source, ok := named["default"]; ok {
		return source, nil
	}
	return "", fmt.Errorf("none of the %d templates is named \"default\"", len(named))
}

// chatTemplate is a compiled template and the variables it may refer to.
type chatTemplate struct {
	template  *exec.Template
	origin    string
	variables map[string]string

	numbers, placeholder string // see WithNumbers
}

// compileTemplate parses Jinja source, with trim_blocks and lstrip_blocks as transformers sets them; errors name
// origin. Templates cannot read files.
func compileTemplate(source, origin string, variables map[string]string) (t *chatTemplate, err error) {
	defer recoverTemplate(origin, &err)
	settings := config.New()
	settings.TrimBlocks, settings.LeftStripBlocks = true, true
	loader, err := loaders.NewMemoryLoader(map[string]string{"/chat": respellLiterals(source)})
	if err != nil {
		return nil, err
	}
	compiled, err := exec.NewTemplate("/chat", settings, loader, environment)
	if err != nil {
		// The library's message repeats the whole source before the cause.
		return nil, fmt.Errorf("%s: chat template: %w", origin, cause(err))
	}
	return &chatTemplate{template: compiled, origin: origin, variables: variables}, nil
}

// render returns one user turn, pictures first, followed by the generation prompt.
func (t *chatTemplate) render(pictures int, question string) (prompt string, err error) {
	return t.renderAmong(pictures, pictures, question)
}

// renderAmong is render with only the first pictures, before in number, in front of the question.
func (t *chatTemplate) renderAmong(pictures, before int, question string) (prompt string, err error) {
	var content []Content
	for i := range pictures {
		if i == before {
			content = append(content, Content{Text: question})
		}
		if t.numbers != "" {
			content = append(content, Content{Text: t.number(i)})
		}
		content = append(content, Content{Image: true})
	}
	if before == pictures {
		content = append(content, Content{Text: question})
	}
	prompt, err = t.renderMessages([]Message{{Role: "user", Content: content}}, true)
	if err == nil && t.numbers != "" {
		err = t.checkNumbers(prompt, pictures)
	}
	return prompt, err
}

// number returns the text in front of picture i, counted from 0.
func (t *chatTemplate) number(i int) string {
	return strings.ReplaceAll(t.numbers, NumberMark, strconv.Itoa(i+1))
}

// checkNumbers refuses a template that moves the numbers away from their pictures.
func (t *chatTemplate) checkNumbers(prompt string, pictures int) error {
	parts := strings.Split(prompt, t.placeholder)
	for i := range pictures {
		if i >= len(parts) || !strings.Contains(parts[i], t.number(i)) {
			return fmt.Errorf("%s: chat template: %q is not before picture %d, as number_pictures requires: "+
				"set chat_template to one that keeps the parts of a turn in their order", t.origin, t.number(i), i+1)
		}
	}
	return nil
}

// recoverTemplate turns a panic of the template engine into an error: templates are external input.
func recoverTemplate(origin string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s: chat template: %v", origin, r)
	}
}

// cause returns the innermost error of a chain: the engine wraps at every level of the template.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
