package score

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/hub"
)

func init() { register(newPush) }

func newPush() *cobra.Command {
	var backbone, message string
	var p hub.Push
	c := &cobra.Command{
		Use:   "push SCORER NAME",
		Short: "Push a scorer to the Hugging Face Hub",
		Long: `push sends a scorer directory with its card to a model repository, as one commit: all files are there
afterwards, or none. A repository that does not exist is made. NAME is org/name, or hf://org/name@branch. It needs a
token that may write: HF_TOKEN, or the one of hf auth login.

A scorer refers to its backbone. If scorer.yaml names a folder of this machine, --backbone says what the backbone is on
the Hub; whoever opens the scorer is refused other weights. Files of the repository with another content are only
replaced with --overwrite.`,
		Example: `  score push runs/first/best org/my-scorer
  score push runs/first/best org/my-scorer --backbone hf://Qwen/Qwen2.5-VL-3B-Instruct --private`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			p.Message = message
			r, err := cli.PushScorer(c, args[0], args[1], backbone, p)
			if err != nil {
				return err
			}
			return cli.Print(c, r, func(w io.Writer) {
				if len(r.Files) == 0 {
					fmt.Fprintf(w, "%s has all files already, at %s\n", r.URL, r.Commit)
					return
				}
				fmt.Fprintf(w, "%s: %d files, %s, commit %s\n", r.URL, len(r.Files), hub.Size(r.Bytes), r.Commit)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&backbone, "backbone", "",
		"name of the backbone on the Hub, if scorer.yaml has a folder (hf://org/name@commit)")
	f.StringVar(&message, "message", "Upload a scorer", "of the commit")
	f.BoolVar(&p.Private, "private", false, "of a repository that is made")
	f.BoolVar(&p.Overwrite, "overwrite", false, "replace files that have another content")
	return c
}
