package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/exit"
	"assay/internal/hub"
)

// modelFlags are the flags that name models: besides paths they accept names on the Hugging Face Hub, with or without
// hf://. A repository without the files listed here is refused before anything is fetched.
var modelFlags = map[string][]string{
	"scorer":        {"scorer.yaml", "reward.yaml"},
	"backbone":      {"config.json"},
	"chat-backbone": {"config.json"},
	"base":          {"config.json"},
	"adapter":       {"adapter_config.json"},
	"chat-adapter":  {"adapter_config.json"},
	"weights":       nil,
	"clip":          nil,
	"dino":          nil,
	"encoder":       nil,
	"tokenizer":     {"tokenizer.json"},
}

// own annotates a flag that names a folder in which the command writes.
const own = "own"

// Own declares that flags of c name folders in which the command writes, so names on the Hub are refused.
func Own(c *cobra.Command, flags ...string) { annotate(c, flags, own) }

// fetchBefore makes a command fetch what its flags and arguments name on the Hub, before it runs.
func fetchBefore(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := fetchNamed(c, args); err != nil {
				return err
			}
			return run(c, args)
		}
	}
}

// fetchNamed fetches what flags and arguments name on the Hub, and replaces the names with paths. Later fetches, of
// names found in files, show their progress through the same command.
func fetchNamed(c *cobra.Command, args []string) error {
	plan, _ := c.Flags().GetBool("dry-run") // without such a flag it is false
	hub.Begin(&hub.Session{Context: c.Context(), Monitor: FetchMonitor(c), NoWeights: plan})
	if c.Name() == "fetch" || c.Name() == "push" { // they fetch and push themselves
		return nil
	}
	var failed error
	c.Flags().Visit(func(f *pflag.Flag) {
		if failed == nil {
			failed = fetchFlag(c, f)
		}
	})
	for i, arg := range args {
		if failed == nil && hub.Is(arg) {
			args[i], failed = hub.Resolve(c.Context(), arg)
		}
	}
	return exit.Named(failed)
}

func fetchFlag(c *cobra.Command, f *pflag.Flag) error {
	if _, anything := f.Annotations[text]; anything {
		return nil
	}
	has := func(annotation string) bool { _, ok := f.Annotations[annotation]; return ok }
	written := has(writes) || has(makes) || has(own)
	change := func(value string) (string, error) {
		name, prefix := value, ""
		if label, rest, ok := strings.Cut(value, "="); ok && !strings.Contains(label, "/") { // name=directory
			name, prefix = rest, label+"="
		}
		needs, isModel := modelFlags[f.Name]
		if !isModel && !hub.Is(name) {
			return value, nil
		}
		if _, named, _ := hub.Of("", name); named && written {
			return "", exit.Usagef("--%s %s: %s writes into this folder: make a local copy first (score fetch "+
				"%s --out DIR)", f.Name, value, c.CommandPath(), name)
		}
		path, err := hub.Resolve(c.Context(), name, needs...)
		if err != nil {
			return "", fmt.Errorf("--%s: %w", f.Name, err)
		}
		return prefix + path, nil
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values := slices.Clone(list.GetSlice())
		for i := range values {
			var err error
			if values[i], err = change(values[i]); err != nil {
				return err
			}
		}
		return list.Replace(values)
	}
	if f.Value.Type() != "string" {
		return nil
	}
	value, err := change(f.Value.String())
	if err != nil || value == f.Value.String() {
		return err
	}
	if o, ok := f.Value.(*once); ok { // the path replaces the given name
		return o.Value.Set(value)
	}
	return f.Value.Set(value)
}

// FetchMonitor shows what a command fetches: first the size, then a progress bar.
func FetchMonitor(c *cobra.Command) hub.Monitor {
	var bar *Bar
	return hub.Monitor{
		Begin: func(p *hub.Plan) {
			if !JSON(c) {
				resumed := ""
				if p.Present > 0 {
					resumed = fmt.Sprintf(" (%s already fetched)", hub.Size(p.Present))
				}
				fmt.Fprintf(c.ErrOrStderr(), "fetching %s at %.8s: %d files, %s%s, from %s into %s\n", p.Name, p.Commit, p.Files,
					hub.Size(p.Bytes), resumed, p.Endpoint, p.Folder)
			}
			bar = &Bar{Command: c, What: "fetching (MB)", Unit: "MB"}
		},
		Bytes: func(done, total int64) { bar.SetBytes(done, total) },
		End: func(*hub.Plan, error) {
			bar.Close()
		},
		Warn: Warner(c),
		Note: Noter(c),
	}
}
