package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/trainer/config"
)

func init() { app.Register(newPublishCommand) }

//go:embed cards/*.md
var cards embed.FS

func newPublishCommand() *cobra.Command {
	var run, out, notes string
	c := &cobra.Command{
		Use:   "publish backbone|clip|dino",
		Short: "Copy a finished checkpoint and write its model card",
		Example: `  pretrain publish backbone --run build/pretrain/backbone --out backbones/tiny
  pretrain publish clip --run build/pretrain/clip --out backbones/tiny-clip --notes measured.md`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return publish(args[0], run, out, notes) },
	}
	c.Flags().StringVar(&run, "run", "", "run directory of the training")
	c.Flags().StringVar(&out, "out", "", "folder to write; replaced if it exists")
	c.Flags().StringVar(&notes, "notes", "", "Markdown file with further measurements, appended to the card")
	c.MarkFlagRequired("run")
	c.MarkFlagRequired("out")
	return c
}

// provenance describes a finished run, from its last checkpoint and its resolved configuration, with further fields
// of the card.
type provenance struct {
	Step    int64             `json:"step"`
	Samples int64             `json:"samples"`
	Seconds float64           `json:"seconds"`
	Data    map[string]string `json:"data"`
	Last    struct {
		Rows         int
		Spearman, L1 float64
		Accuracy     float64
	} `json:"last"`
	Config string `json:"config"`

	Parameters int
	Bytes      int64
	Version    string
	Notes      string
}

func publish(kind, run, out, notes string) error {
	text, err := cards.ReadFile("cards/" + kind + ".md")
	if err != nil {
		return exit.Usagef("%q: want backbone, clip or dino", kind)
	}
	card, err := template.New(kind).
		Funcs(template.FuncMap{"minutes": func(s float64) string { return fmt.Sprintf("%.0f", s/60) },
			"photos": func(s string) string { return strings.Join(strings.Fields(strings.Trim(s, "[]")), ", ") }}).
		Parse(string(text))
	if err != nil {
		return err
	}
	p, err := readProvenance(run, notes)
	if err != nil {
		return err
	}
	weights, err := checkpoints.OpenWeights(filepath.Join(run, config.ScorerDir))
	if err != nil {
		return fmt.Errorf("the run has no result yet: %w", err)
	}
	defer weights.Close()
	for _, name := range weights.Names() {
		info, _ := weights.Info(name)
		n := 1
		for _, d := range info.Shape {
			n *= int(d)
		}
		p.Parameters += n
	}
	return atomicfile.ReplaceDir(out, func(dir string) error {
		if err := weights.SaveInto(dir, nil); err != nil {
			return err
		}
		err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				var info fs.FileInfo
				if info, err = e.Info(); err == nil {
					p.Bytes += info.Size()
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		return atomicfile.Write(filepath.Join(dir, "README.md"), func(w io.Writer) error { return card.Execute(w, p) })
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func readProvenance(run, notes string) (*provenance, error) {
	last, _, err := checkpoints.Latest(filepath.Join(run, config.CheckpointsDir))
	if err == nil && last == "" {
		err = errors.New("no checkpoint")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", run, err)
	}
	raw, err := os.ReadFile(filepath.Join(last, "state.json"))
	if err != nil {
		return nil, err
	}
	p := &provenance{Version: cli.Version}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("%s: %w", last, err)
	}
	p.Config = brief(p.Config)
	if notes != "" {
		raw, err := os.ReadFile(notes)
		if err != nil {
			return nil, err
		}
		p.Notes = strings.TrimSpace(string(raw))
	}
	return p, nil
}

// brief keeps the parts of a resolved configuration that describe the training.
func brief(config string) string {
	var out []string
	keep := false
	for line := range strings.Lines(config) {
		if !strings.HasPrefix(line, " ") {
			switch key, _, _ := strings.Cut(line, ":"); key {
			case "optimizer", "schedule", "batch_size", "clip_norm", "steps", "seed", "pair", "pair_size", "threads":
				keep = true
			default:
				keep = false
			}
		}
		if keep {
			out = append(out, line)
		}
	}
	return strings.TrimSpace(strings.Join(out, ""))
}
