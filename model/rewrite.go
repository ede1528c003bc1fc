package model

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/atomicfile"
	"assay/internal/calibration"
)

// withKeys returns the text of a YAML mapping with some of its keys set to other values; nil removes a key. All other
// lines, including comments, are unchanged.
func withKeys(text []byte, set yaml.MapSlice) ([]byte, error) {
	if n := len(text); n > 0 && text[n-1] != '\n' {
		text = append(slices.Clone(text), '\n')
	}
	lines := strings.SplitAfter(string(text), "\n")
	for _, item := range set {
		var value []byte
		if item.Value != nil {
			var err error
			if value, err = yaml.Marshal(yaml.MapSlice{item}); err != nil {
				return nil, err
			}
		}
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, fmt.Sprint(item.Key, ":")) })
		if at < 0 {
			lines = append(lines, string(value))
			continue
		}
		end := at + 1
		for next := end; next < len(lines) && lines[next] != ""; next++ { // the key's block: indented, a list, or blank
			if strings.ContainsRune(" \t-", rune(lines[next][0])) {
				end = next + 1
			} else if strings.TrimSpace(lines[next]) != "" {
				break
			}
		}
		lines = slices.Replace(lines, at, end, string(value))
	}
	return []byte(strings.Join(lines, "")), nil
}

// writeKeys writes text to a scorer.yaml with other values for some keys: see withKeys.
func writeKeys(file string, text []byte, set yaml.MapSlice) error {
	text, err := withKeys(text, set)
	if err != nil {
		return err
	}
	if _, err := parseScorer(text); err != nil {
		return fmt.Errorf("%s would become unreadable: write its keys as `key: value`, one per line: %w", file, err)
	}
	return atomicfile.WriteBytes(file, text)
}

// setKeys rewrites a scorer.yaml.
func setKeys(file string, set yaml.MapSlice) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return writeKeys(file, text, set)
}

// identityKeys are the keys that identify a scorer's files.
func (c *ScorerConfig) identityKeys() yaml.MapSlice {
	keys := yaml.MapSlice{{Key: "digests"}}
	if c.Digests != nil {
		keys[0].Value = c.Digests
	}
	if c.Origin != nil { // which had digests in earlier versions
		keys = append(keys, yaml.MapItem{Key: "origin", Value: c.Origin})
	}
	return keys
}

// addDigests records missing digests in a scorer.yaml: see [digests.Digests].
func addDigests(file string) error {
	c, err := ReadScorerConfig(file)
	if err != nil {
		return err
	}
	if err := c.completeDigests(filepath.Dir(file)); err != nil {
		return err
	}
	return setKeys(file, c.identityKeys())
}

// InstallCalibration writes a calibration next to the head, and names it in scorer.yaml with its digest. A process that
// is killed in between leaves either the old or the new calibration, and a scorer.yaml without its digest.
func (p *ScorerState) InstallCalibration(k *calibration.Calibration) error {
	file, c := filepath.Join(p.Dir, ConfigFile), *p.Config
	if c.Digests != nil && c.Digests.Scorer[c.Calibration] != "" {
		d := *c.Digests
		d.Scorer = maps.Clone(d.Scorer)
		delete(d.Scorer, c.Calibration)
		if err := setKeys(file, yaml.MapSlice{{Key: "digests", Value: &d}}); err != nil {
			return err
		}
	}
	c.Calibration = cmp.Or(c.Calibration, calibration.File)
	if err := k.Write(calibrationFile(p.Dir, &c)); err != nil {
		return err
	}
	if err := c.completeDigests(p.Dir); err != nil {
		return err
	}
	return setKeys(file, append(c.identityKeys(), yaml.MapItem{Key: "calibration", Value: c.Calibration}))
}
