package text

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/testfile"

	"github.com/google/go-cmp/cmp"
)

// All templates, published and small ones, render as in transformers (tools/oracle/chat_templates.py).
func TestTemplatesAsTransformers(t *testing.T) {
	var cases []struct {
		Name, Template, Question, Prompt, Error string
		Pictures                                int
	}
	testfile.ReadJSON(t, "testdata/templates.json", &cases)
	for _, c := range cases {
		compiled, err := compileTemplate(c.Template, c.Name, map[string]string{"bos_token": "<s>", "eos_token": "</s>"})
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := compiled.render(c.Pictures, c.Question)
		if c.Error != "" {
			if err == nil || !strings.Contains(err.Error(), c.Error) {
				t.Errorf("%s: got error %v, want %q", c.Name, err, c.Error)
			}
			continue
		}
		if err != nil {
			t.Error(err)
		} else if d := cmp.Diff(c.Prompt, got); d != "" {
			t.Errorf("%s, %d pictures (-want +got):\n%s", c.Name, c.Pictures, d)
		}
	}
}

// So does a question between two pictures, if the template keeps the parts of a turn in order.
func TestAmongAsTransformers(t *testing.T) {
	var cases []struct {
		Name, Template, Question, Prompt string
		Pictures                         int
	}
	testfile.ReadJSON(t, "testdata/among.json", &cases)
	moved := 0
	for _, c := range cases {
		compiled, err := compileTemplate(c.Template, c.Name, map[string]string{"bos_token": "<s>", "eos_token": "</s>"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := compiled.renderAmong(c.Pictures, 1, c.Question)
		if d := cmp.Diff(c.Prompt, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.Name, err, d)
		}
		if first, _ := compiled.render(c.Pictures, c.Question); first == got {
			moved++ // the template moves the pictures to the front
		}
	}
	if moved == 0 || moved == len(cases) {
		t.Errorf("%d of %d templates move the pictures", moved, len(cases))
	}
}

// Numbers before pictures are the same as Qwen's own templates write with add_vision_id. A template that moves pictures
// to the front is refused.
func TestNumbersAsTransformers(t *testing.T) {
	var cases []struct {
		Name, Template, Question, Prompt string
		Pictures                         int
	}
	testfile.ReadJSON(t, "testdata/numbered.json", &cases)
	for _, c := range cases {
		compiled, err := compileTemplate(c.Template, c.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		compiled.numbers, compiled.placeholder = "Picture {n}: ", "<|image_pad|>"
		got, err := compiled.render(c.Pictures, c.Question)
		if d := cmp.Diff(c.Prompt, got); err != nil || d != "" {
			t.Errorf("%s, %d pictures: %v (-want +got):\n%s", c.Name, c.Pictures, err, d)
		}
	}
	moving, err := compileTemplate("{% for c in messages[0].content | selectattr('type', 'equalto', 'image') %}<image>"+
		"{% endfor %}{% for c in messages[0].content | selectattr('type', 'equalto', 'text') %}{{ c.text }}{% endfor %}",
		"moving", nil)
	if err != nil {
		t.Fatal(err)
	}
	moving.numbers, moving.placeholder = "Picture {n}: ", "<image>"
	const want = `"Picture 1: " is not before picture 1`
	if _, err := moving.render(2, "q"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}

func TestFindTemplate(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // "" expects an error that contains fail
		fail  string
	}{
		{"jinja before all", map[string]string{"chat_template.jinja": "A", "chat_template.json": `{"chat_template": "B"}`},
			"A", ""},
		{"json", map[string]string{"chat_template.json": `{"chat_template": "B"}`,
			"tokenizer_config.json": `{"chat_template": "C"}`}, "B", ""},
		{"processor before tokenizer",
			map[string]string{"processor_config.json": `{"chat_template": "P"}`,
				"tokenizer_config.json": `{"chat_template": "C"}`}, "P", ""},
		{"tokenizer", map[string]string{"tokenizer_config.json": `{"chat_template": "C"}`,
			"processor_config.json": `{"chat_template": null}`}, "C", ""},
		{"named", map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "tool", "template": "T"}, ` +
			`{"name": "default", "template": "D"}]}`}, "D", ""},
		{"named object", map[string]string{"tokenizer_config.json": `{"chat_template": {"default": "D"}}`}, "D", ""},
		{"none is default", map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "tool", "template": ` +
			`"T"}]}`}, "", `named "default"`},
		{"broken JSON", map[string]string{"chat_template.json": `{"chat_template": `}, "", "chat_template.json"},
		{"wrong type", map[string]string{"chat_template.json": `{"chat_template": 3}`}, "", "expected a string"},
		{"nothing", nil, "", "looked for chat_template.jinja"},
	} {
		dir := t.TempDir()
		for name, content := range c.files {
			write(t, filepath.Join(dir, name), content)
		}
		got, origin, err := findTemplate(dir)
		switch {
		case c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)):
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.fail)
		case c.fail == "" && (err != nil || got != c.want || !strings.HasPrefix(origin, dir)):
			t.Errorf("%s: got %q from %q, error %v; want %q", c.name, got, origin, err, c.want)
		}
	}
}

func TestBadTemplates(t *testing.T) {
	for _, source := range []string{"{% for x in %}", "{{ 'a' ", "{% if true %}", "{% nonsense %}",
		"{% generation 3 %}x{% endgeneration %}"} {
		if _, err := compileTemplate(source, "file.jinja", nil); err == nil || !strings.Contains(err.Error(), "file.jinja") {
			t.Errorf("%s: error %v should name the file", source, err)
		}
	}
	for _, source := range []string{"{{ messages.nothing.at.all() }}", "{% include '/etc/hostname' %}",
		"{{ messages | nofilter }}"} {
		c, err := compileTemplate(source, "file.jinja", nil)
		if err == nil {
			_, err = c.render(1, "q")
		}
		if err == nil || !strings.Contains(err.Error(), "file.jinja") {
			t.Errorf("%s: error %v should name the file", source, err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
