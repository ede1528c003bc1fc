// Package captions lets a vision-language model caption the sources and targets of edits. ADIEE's CLIP-D compares
// such captions, which some data sets lack (arXiv 2507.07317, appendix A).
//
// A Run reads a table of edits, asks the model the questions of two dialogues (Prompts) about each row, and writes the
// rows with the last answers as captions. Run.Examples turns captions that a table already has into conversations for
// training a caption model.
package captions

import (
	_ "embed" // the prompts
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/chat"
	"assay/internal/hub"
	"assay/internal/strictyaml"
	"assay/ort"
)

// Config is one run: a table in, the same rows with captions out.
type Config struct {
	In      string            `yaml:"in"`      // table of edits, of any format
	Out     string            `yaml:"out"`     // .jsonl or .parquet
	Columns map[string]string `yaml:"columns"` // our column name: the table's
	Given   string            `yaml:"given"`   // captions already in the table: keep, replace
	Prompts string            `yaml:"prompts"` // file of dialogues; "": the shipped ones
	Store   string            `yaml:"store"`   // folder for stored answers; "": next to the user's default store

	Model  LocalModel  `yaml:"model"`  // on this machine
	Server chat.Server `yaml:"server"` // or on a server

	MaxNewTokens int     `yaml:"max_new_tokens"` // per answer; a truncated answer is an error of its row
	Temperature  float64 `yaml:"temperature"`    // 0: greedy
	Seed         uint64  `yaml:"seed"`           // of sampling

	Remote bool `yaml:"-"` // the model is on Server
}

// LocalModel is a checkpoint on this machine.
type LocalModel struct {
	Backbone string `yaml:"backbone"` // Hugging Face checkpoint directory
	Adapter  string `yaml:"adapter"`  // for the backbone, in PEFT's format
	Device   string `yaml:"device"`   // auto, cpu, cuda:N
	DType    string `yaml:"dtype"`    // on CUDA: auto, float32, bfloat16
	Threads  int    `yaml:"threads"`  // of the CPU; 0: all cores
	Answers  int    `yaml:"answers"`  // generated at a time

	// Cache is the size of the KV cache, such as 4GiB, or in bytes; 0: 2 GiB, on CUDA as much as the device has room
	// for.
	Cache strictyaml.Bytes `yaml:"cache"`
}

// Prompts are the dialogues.
type Prompts struct {
	Source Dialogue `yaml:"source"`
	Target Dialogue `yaml:"target"`
}

// Dialogue is a list of questions; each is asked with the earlier questions and answers. The last answer is the
// caption.
type Dialogue []Turn

// Turn is a question with pictures before it.
type Turn struct {
	Pictures []string `yaml:"pictures"` // source, target
	Ask      string   `yaml:"ask"`
}

// The placeholders for an edit's texts in questions.
const (
	Instruction   = "[INSTRUCTION]"
	SourceCaption = "[SOURCE_CAPTION]"
)

//go:embed prompts.yaml
var ownPrompts []byte

// Load reads a configuration and its prompts. The error lists all problems with file and line. Paths in the file are
// relative to its folder, and absolute in the result.
func Load(path string) (*Config, *Prompts, error) {
	text, folder, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	c := &Config{Given: "keep", Server: chat.DefaultServer(), MaxNewTokens: 128,
		Model: LocalModel{Answers: 8, Device: "auto", DType: "auto"}}
	d := strictyaml.Decode(path, text, c)
	if d.Unreadable {
		return nil, nil, d.Err()
	}
	c.Remote = d.Has("server")
	for _, p := range []*string{&c.Model.Backbone, &c.Model.Adapter} {
		if *p, err = hub.Beside(folder, *p); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range []*string{&c.In, &c.Out, &c.Prompts, &c.Store} {
		*p = strictyaml.Absolute(folder, *p)
	}
	c.check(d)
	file, words := "prompts.yaml", ownPrompts
	if c.Prompts != "" {
		file = c.Prompts
		if words, err = os.ReadFile(file); err != nil {
			d.Problem("prompts", "%v", err)
			return nil, nil, d.Err()
		}
	}
	prompts, err := readPrompts(file, words)
	return c, prompts, errors.Join(d.Err(), err)
}

func (c *Config) check(d *strictyaml.Document) {
	want := d.Want
	want(c.In != "", "in", "want a table of edits")
	ext := filepath.Ext(c.Out)
	want(ext == ".jsonl" || ext == ".parquet", "out", "want the table to write, .jsonl or .parquet, not %q", c.Out)
	want(c.Given == "keep" || c.Given == "replace", "given", "want keep or replace, not %q", c.Given)
	want(c.Remote != (c.Model.Backbone != ""), "model",
		"want either model: {backbone: DIR} or server: {url, model}")
	want(c.Model.Adapter == "" || c.Model.Backbone != "", "model.adapter", "needs model.backbone")
	want(ort.IsDevice(c.Model.Device), "model.device", "want auto, cpu or cuda:N, not %q", c.Model.Device)
	want(slices.Contains([]string{"auto", "float32", "bfloat16"}, c.Model.DType), "model.dtype",
		"want auto, float32 or bfloat16, not %q", c.Model.DType)
	want(c.Model.Threads >= 0, "model.threads", "want at least 0 (all cores), not %d", c.Model.Threads)
	want(c.Model.Answers >= 1, "model.answers", "want at least 1, not %d", c.Model.Answers)
	want(c.MaxNewTokens >= 1, "max_new_tokens", "want at least 1, not %d", c.MaxNewTokens)
	want(c.Temperature >= 0, "temperature", "want at least 0 (greedy), not %g", c.Temperature)
	for ours := range c.Columns {
		want(slices.Contains(readColumns, ours), "columns."+ours, "want one of %v", readColumns)
	}
	if c.Remote {
		for key, text := range c.Server.Check() {
			d.Problem("server."+key, "%s", text)
		}
	}
}

// readPrompts reads the dialogues of a file.
func readPrompts(file string, text []byte) (*Prompts, error) {
	p := &Prompts{}
	d := strictyaml.Decode(file, text, p)
	if d.Unreadable {
		return nil, d.Err()
	}
	for name, talk := range map[string]Dialogue{"source": p.Source, "target": p.Target} {
		if len(talk) == 0 {
			d.Problem(name, "want a dialogue: a list of questions, {pictures: [...], ask: TEXT}")
		}
		for i, t := range talk {
			key := fmt.Sprintf("%s[%d]", name, i)
			if strings.TrimSpace(t.Ask) == "" {
				d.Problem(key+".ask", "want a question")
			}
			if name == "source" && strings.Contains(t.Ask, SourceCaption) {
				d.Problem(key+".ask", "%s is not available in this dialogue, which produces it", SourceCaption)
			}
			for _, shown := range t.Pictures {
				if shown != "source" && shown != "target" {
					d.Problem(key+".pictures", "want source or target, not %q", shown)
				}
			}
		}
	}
	return p, d.Err()
}

// shows reports whether a dialogue shows a picture.
func (d Dialogue) shows(role string) bool {
	return slices.ContainsFunc(d, func(t Turn) bool { return slices.Contains(t.Pictures, role) })
}
