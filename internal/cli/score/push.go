package score

import (
	"fmt"
	"io"
	"strings"

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
		Long: `push uploads a scorer directory with its card to a model repository, as one commit: all files or none. A
repository that does not exist is created. NAME is org/name, or hf://org/name@branch. It needs a token with write
access: HF_TOKEN, or the token of hf auth login.

A scorer refers to its backbone. If scorer.yaml names a local folder, --backbone gives the backbone's name on the Hub;
opening the scorer with other weights fails. Files with different content in the repository are replaced only with
--overwrite, which also removes an adapter or backbone that the new scorer lacks. Other files stay.`,
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
				if len(r.Files)+len(r.Removed) == 0 {
					fmt.Fprintf(w, "%s has all files already, at %s\n", r.URL, r.Commit)
					return
				}
				fmt.Fprintf(w, "%s: %d files, %s, commit %s\n", r.URL, len(r.Files), hub.Size(r.Bytes), r.Commit)
				if len(r.Removed) > 0 {
					fmt.Fprintf(w, "removed from it: %s\n", strings.Join(r.Removed, ", "))
				}
			})
		},
	}
	f := c.Flags()
	f.StringVar(&backbone, "backbone", "",
		"name of the backbone on the Hub, if scorer.yaml has a folder (hf://org/name@commit)")
	f.StringVar(&message, "message", "Upload a scorer", "commit message")
	f.BoolVar(&p.Private, "private", false, "make a new repository private; refuse one that is public")
	f.BoolVar(&p.Overwrite, "overwrite", false, "replace files with different content, remove those of another scorer")
	return c
}
