package cli

import (
	"github.com/spf13/cobra"

	"assay/internal/exit"
	"assay/internal/hub"
)

// Target parses the name of a repository to push to, and returns an error if the push would fail.
func Target(name string) (*hub.Hub, hub.Name, error) {
	n, err := hub.ParseTarget(name)
	if err != nil {
		return nil, n, exit.Usage(err)
	}
	h, err := hub.FromEnvironment()
	if err == nil {
		err = h.CheckPush(n)
	}
	return h, n, exit.Usage(err)
}

// PushScorer pushes a scorer directory to a repository on the Hub. backbone is the name of its backbone there; "": as
// in scorer.yaml.
func PushScorer(c *cobra.Command, dir, name, backbone string, p hub.Push) (*hub.Pushed, error) {
	h, n, err := Target(name)
	if err != nil {
		return nil, err
	}
	if backbone != "" {
		if _, err := hub.ParseTarget(backbone); err != nil {
			return nil, exit.Usagef("--backbone: %w", err)
		}
		if !hub.Is(backbone) {
			backbone = hub.Scheme + backbone
		}
	}
	if p.Files, err = hub.ScorerFiles(dir, backbone); err != nil {
		return nil, exit.Usage(err)
	}
	bar := &Bar{Command: c, What: "uploading (MB)", Unit: "MB"}
	p.Progress, p.Stale = bar.SetBytes, hub.Stale
	r, err := h.Push(c.Context(), n, p)
	bar.Close()
	return r, err
}
