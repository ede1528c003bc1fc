// Package captions has a model that answers in words describe the sources and targets of edits. ADIEE's CLIP-D compares
// such captions, which some data sets do not have (arXiv 2507.07317, appendix A).
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
	Columns map[string]string `yaml:"columns"` // our column: the table's
	Given   string            `yaml:"given"`   // captions that the table has: keep, replace
	Prompts string            `yaml:"prompts"` // file of dialogues; "": those that ship
	Store   string            `yaml:"store"`   // folder in which answers are kept; "": beside the user's own store

	Model  LocalModel  `yaml:"model"`  // on this machine
	Server chat.Server `yaml:"server"` // or on a server

	MaxNewTokens int     `yaml:"max_new_tokens"` // of an answer; one that is cut off is an error of its row
	Temperature  float64 `yaml:"temperature"`    // 0: greedy
	Seed         uint64  `yaml:"seed"`           // of sampling

	Remote bool `yaml:"-"` // Server is meant
}

// LocalModel is a checkpoint on this machine.
type LocalModel struct {
	Backbone string `yaml:"backbone"` // Hugging Face checkpoint directory
	Adapter  string `yaml:"adapter"`  // over it, in PEFT's files
	Device   string `yaml:"device"`   // auto, cpu, cuda:N
	DType    string `yaml:"dtype"`    // on CUDA: auto, float32, bfloat16
	Threads  int    `yaml:"threads"`  // of the CPU; 0: all cores
	Answers  int    `yaml:"answers"`  // that are made at a time

	// Cache is that of keys and values, as 4GiB or in bytes; 0: 2 GiB, on CUDA what the device has room for.
	Cache strictyaml.Bytes `yaml:"cache"`
}

// Prompts are the dialogues.
type Prompts struct {
	Source Dialogue `yaml:"source"`
	Target Dialogue `yaml:"target"`
}

// Dialogue is a list of questions, each with the answers before it. The last answer is the caption.
type Dialogue []Turn

// Turn is a question, with pictures in front of it.
type Turn struct {
	Pictures []string `yaml:"pictures"` // source, target
	Ask      string   `yaml:"ask"`
}

// What questions hold in place of an edit's texts.
const (
	Instruction   = "[INSTRUCTION]"
	SourceCaption = "[SOURCE_CAPTION]"
)

//go:embed prompts.yaml
var ownPrompts []byte

// Load reads a configuration and its prompts. The error lists everything that is wrong with them, with file and line.
// Paths in it are relative to the file's folder, and absolute in the result.
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
	want(c.In != "", "in", "a table of edits is wanted")
	ext := filepath.Ext(c.Out)
	want(ext == ".jsonl" || ext == ".parquet", "out", "a table to write is wanted, .jsonl or .parquet, not %q", c.Out)
	want(c.Given == "keep" || c.Given == "replace", "given", "want keep or replace, not %q", c.Given)
	want(c.Remote != (c.Model.Backbone != ""), "model",
		"either model: {backbone: DIR} or server: {url, model} says who writes")
	want(c.Model.Adapter == "" || c.Model.Backbone != "", "model.adapter", "is over a backbone: name it")
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
			d.Problem(name, "a dialogue is wanted: a list of questions, {pictures: [...], ask: TEXT}")
		}
		for i, t := range talk {
			key := fmt.Sprintf("%s[%d]", name, i)
			if strings.TrimSpace(t.Ask) == "" {
				d.Problem(key+".ask", "a question is wanted")
			}
			if name == "source" && strings.Contains(t.Ask, SourceCaption) {
				d.Problem(key+".ask", "%s is what this dialogue is about to find", SourceCaption)
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
