package trainer

import (
	"fmt"

	"assay/data"
	"assay/edit"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	_ "assay/model/families"
)

func caseExample(c *config.Config, folder string, o oracle.Case) dataset.Example {
	picture := func(path string) dataset.RowPicture {
		return dataset.RowPicture{File: data.File{Image: data.Image{Path: path}, Folder: folder}}
	}
	e := edit.New(picture(o.Source), picture(o.Edited), o.Instruction)
	e.ID = fmt.Sprint(o.ID)
	return dataset.Example{
		Edit:     *e,
		Question: c.Question[0],
		Answer:   c.Answer[0],
		Label:    o.Label / 10,
	}
}
