package trainer

import (
	"fmt"

	"assay/data"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	_ "assay/model/families"
)

func caseExample(c *config.Config, folder string, o oracle.Case) dataset.Example {
	return dataset.Example{
		Base:     folder,
		Question: c.Question[0],
		Answer:   c.Answer[0],
		Label:    o.Label / 10,
		Row: data.Row{
			ID:          fmt.Sprint(o.ID),
			Source:      data.Image{Path: o.Source},
			Edit:        data.Image{Path: o.Edited},
			Instruction: o.Instruction,
		},
	}
}
