package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/exit"
	"assay/internal/hub"
	"assay/internal/remote"
	"assay/internal/strictyaml"
)

// fetch downloads what the file names on the Hugging Face Hub, and replaces the names with local paths. Transient
// errors are returned; others become problems of the file.
func (c *Config) fetch(d *strictyaml.Document, folder string) error {
	if hub.Is(c.Out) {
		d.Problem("out", "%s: a run writes into a local folder", c.Out)
	}
	models := map[string]*string{"backbone": &c.Backbone, "init": &c.Init}
	for key, r := range c.scoringRewards() {
		models[key] = &r.Judge
	}
	for _, key := range slices.Sorted(maps.Keys(models)) {
		if strings.HasPrefix(*models[key], filepath.Clean(c.Out)+"/") {
			continue // output of an earlier run in the same folder
		}
		if remote.Is(*models[key]) { // refuseStorage must see it as it was written
			continue
		}
		var needs []string
		if key == "backbone" {
			needs = []string{"config.json"}
		}
		path, err := hub.Beside(folder, *models[key], needs...)
		if err := told(d, key, err); err != nil {
			return err
		}
		*models[key] = path
	}
	for key, tables := range map[string]Strings{"data.train": c.Data.Train, "data.validation": c.Data.Validation.Tables} {
		for i, table := range tables {
			path, err := hub.ResolveURI(table)
			if err := told(d, key, err); err != nil {
				return err
			}
			tables[i] = path
		}
	}
	return nil
}

// told records a download error as a problem of a key, unless the error is transient.
func told(d *strictyaml.Document, key string, err error) error {
	if err == nil || exit.Code(exit.Named(err)) != exit.Wrong {
		return err
	}
	if !d.Bad(key) {
		d.Problem(key, "%v", err)
	}
	return nil
}
