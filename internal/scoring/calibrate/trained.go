package calibrate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
)

// trainedOn finds the training tables of a scorer: config.yaml of the run directory around it names them. known is
// false if the tables are incomplete, as for a scorer that was moved or imported.
func trainedOn(scorer string) (tables []learned, known bool, err error) {
	for range 100 { // a run may be initialised from the scorer of another run
		folder, err := filepath.Abs(filepath.Join(scorer, ".."))
		if err != nil {
			return nil, false, err
		}
		file := filepath.Join(folder, "config.yaml")
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return tables, false, nil
		} else if err != nil {
			return nil, false, err
		}
		var c struct {
			Init string `yaml:"init"`
			Data struct {
				Train   any               `yaml:"train"`
				Split   string            `yaml:"train_split"`
				Columns map[string]string `yaml:"columns"`
			} `yaml:"data"`
		}
		if err := yaml.Unmarshal(text, &c); err != nil {
			return nil, false, fmt.Errorf("%s: %w", file, err)
		}
		var names []string
		switch v := c.Data.Train.(type) {
		case string:
			names = []string{v}
		case []any:
			for _, name := range v {
				names = append(names, fmt.Sprint(name))
			}
		}
		if len(names) == 0 {
			return tables, false, nil
		}
		for _, name := range names {
			if !filepath.IsAbs(name) {
				name = filepath.Join(folder, name)
			}
			if _, err := os.Stat(name); err != nil {
				return tables, false, nil
			}
			tables = append(tables, learned{name, c.Data.Columns, c.Data.Split})
		}
		if c.Init == "" {
			return tables, true, nil
		}
		if scorer = c.Init; !filepath.IsAbs(scorer) {
			scorer = filepath.Join(folder, scorer)
		}
	}
	return tables, false, nil
}
