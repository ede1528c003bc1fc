// Package readers reads datasets of edited pictures in their published layouts, for building label tables. Each file
// of the package registers its layouts: the fields to look for with their published columns, and a function that
// opens the downloaded files. Readers return samples one at a time, in any order, from local files only.
//
//	Layout    a name (layout: in a configuration), its fields, its options
//	Reader    an open dataset: Read returns sample i, in any order
//	Sample    an instruction, a source and the known results, or a chain of edits
//	rows      the records of a table in several files, tar shards or arrow files (rows.go, webdataset.go, arrow.go)
//	cells     one record by field name, with all its problems
package readers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"assay/data"
	"assay/heuristics"
)

// Sample is one item of a dataset: an instruction for a source picture with all known results, or a chain of edits.
// Pictures are bytes, or paths that resolve from any working directory.
type Sample struct {
	ID      string // unique in the dataset
	Session string // samples of one session show the same scene, so a split must not separate them; may be empty
	Split   string // from the dataset: train, test, ...; may be empty

	Source, Target               data.Image // Target may be zero
	Instruction                  string
	SourceCaption, TargetCaption string
	Outputs                      []Output
	Preference                   *Preference // between Outputs 0 and 1

	Chain *Chain // if set, the fields between Split and this one are empty
}

// Output is an editor's result for the source.
type Output struct {
	Picture              data.Image
	heuristics.Candidate        // its editor, and the label and similarities that came with the data
	Profile              string // with which the similarities were measured; "": not known
}

// Preference is the preferred one of a sample's two outputs.
type Preference struct {
	Better int // 0 or 1, -1: neither
}

// Chain is a sequence of edits: Instructions[j] turns Pictures[j] into Pictures[j+1].
type Chain struct {
	Pictures     []data.Image
	Instructions []string
}

// Reader returns the samples of a dataset. They can be read in any order, as restarts and shards require, and only
// the current one is held in memory. A reader is not safe for concurrent use.
type Reader interface {
	Len() int
	// Read returns sample i, from 0. Samples that are skipped on purpose return a Left error.
	Read(i int) (*Sample, error)
	Close() error
}

// Left is the reason why an existing sample is skipped: a known corrupt folder, or a task that was not requested.
type Left string

func (e Left) Error() string { return string(e) }

// Options configure what to read and how.
type Options struct {
	Path       string            // file or folder
	Pictures   string            // base of relative picture paths, if not the folder of the tables
	Columns    map[string]string // field -> column in the file; see Fields of the layout
	Editor     string            // editor of outputs for which the file names none
	Tasks      []string          // Emu-Edit: only these; none: all
	Chains     bool              // MagicBrush: sessions as chains, not turns one by one
	Drop       []string          // SEED-Data-Edit: folders whose samples are skipped, besides the known corrupt ones
	LabelRange [2]float64        // of labels in the file; zero: the layout's own
	Unpack     string            // folder for pictures extracted from archives without random access
	Profile    string            // with which the similarities in the file were measured, if the file does not say

	mapped map[string]bool // fields that Columns named
}

// Layout is a published layout.
type Layout struct {
	Name   string
	About  string
	Fields map[string]string // field -> published column; nil: the layout has no columns
	Needed []string          // fields whose columns every table of the layout has; a|b: one of them is enough
	Takes  []string          // which of tasks, chains and drop it supports; other layouts ignore them
	Many   bool              // the path may be a pattern for several files: see Files
	open   func(ctx context.Context, o Options) (Reader, error)
}

// layouts is filled by register, in the init functions of this package.
var layouts = map[string]Layout{}

func register(l Layout) { layouts[l.Name] = l }

// Layouts returns all layouts, sorted by name.
func Layouts() []Layout {
	var out []Layout
	for _, name := range slices.Sorted(maps.Keys(layouts)) {
		out = append(out, layouts[name])
	}
	return out
}

// Lookup returns a layout by name.
func Lookup(name string) (Layout, bool) {
	l, ok := layouts[name]
	return l, ok
}

// Open opens a dataset. Errors name the file and the problem. Only a layout with archives to unpack takes long; ctx
// cancels that.
func Open(ctx context.Context, layout string, o Options) (Reader, error) {
	l, ok := layouts[layout]
	if !ok {
		return nil, fmt.Errorf("no layout %q, only %v", layout, slices.Sorted(maps.Keys(layouts)))
	}
	columns := maps.Clone(l.Fields)
	o.mapped = map[string]bool{}
	for field, column := range o.Columns {
		if _, ok := columns[field]; !ok {
			return nil, fmt.Errorf("columns: layout %s has no field %q, only %v", layout, field,
				slices.Sorted(maps.Keys(columns)))
		}
		columns[field] = column
		o.mapped[field] = true
	}
	o.Columns = columns
	r, err := l.open(ctx, o)
	if err == nil {
		if err = resolve(l, r); err != nil {
			err = errors.Join(err, r.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", layout, err)
	}
	return r, nil
}
