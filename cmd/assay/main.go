// Command assay is train, score and label in one program. Invoked by one of their names, it runs that command.
package main

import (
	"os"
	"path/filepath"

	"assay/internal/cli"
	"assay/internal/cli/assay"
	"assay/internal/cli/label"
	"assay/internal/cli/score"
	"assay/internal/cli/train"
)

func main() {
	app := &assay.App
	byName := map[string]*cli.App{"train": &train.App, "score": &score.App, "label": &label.App}
	if named := byName[filepath.Base(os.Args[0])]; named != nil {
		app = named
	}
	app.Main()
}
