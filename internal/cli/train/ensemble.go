package train

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/exit"
	"assay/model"
)

func init() { register(newEnsembleCommand) }

// ensembleResult is what train ensemble reports.
type ensembleResult struct {
	Out     string `json:"out"`
	Members int    `json:"members"`
}

func newEnsembleCommand() *cobra.Command {
	var scorers []string
	var out, backbone string
	c := &cobra.Command{
		Use:   "ensemble --scorer DIR --scorer DIR... --out DIR",
		Short: "Combine several trainings into one scorer, with their spread as sigma",
		Long: `ensemble writes a scorer directory whose members are other scorers, such as trainings with several seeds.
They have the same configuration and backbone, and separate adapters and heads. All members score an edit in one pass
over the backbone. The score is their mean, sigma their standard deviation. Members with DoRA or adapters of the vision
tower are not supported. Members' calibrations are dropped: score calibrate fits one for the ensemble.`,
		Example: `  train ensemble --scorer runs/1/scorer --scorer runs/2/scorer --scorer runs/3/scorer --out runs/ensemble`,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" || len(scorers) == 0 {
				return exit.Usagef("ensemble needs --scorer twice or more, and --out")
			}
			if err := model.WriteEnsemble(scorers, backbone, out); err != nil {
				return err
			}
			for _, dir := range scorers {
				member, err := model.ReadScorerConfig(filepath.Join(dir, model.ConfigFile))
				if err == nil && member.Calibration != "" {
					cli.Warner(c)(dir + " is calibrated, but the ensemble is not: see score calibrate")
				}
			}
			r := &ensembleResult{Out: out, Members: len(scorers)}
			return cli.Print(c, r, func(w io.Writer) { fmt.Fprintf(w, "%s: a scorer with %d members\n", r.Out, r.Members) })
		},
	}
	f := c.Flags()
	f.StringArrayVar(&scorers, "scorer", nil, "scorer directory of a member; given once per member")
	f.StringVar(&out, "out", "", "scorer directory to make")
	f.StringVar(&backbone, "backbone", "", "where the members' backbone is now (default: where scorer.yaml says)")
	cli.Makes(c, "out")
	return c
}
