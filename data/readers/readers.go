// Package readers reads data sets of edited pictures in their published layouts. Each file of the package registers its
// layouts: the fields that it looks for with their published columns, and a function that opens what was downloaded.
//
//	Layout    a name (layout: in a configuration), its fields, its options
//	Reader    an opened data set: Read gives sample i, in any order
//	Sample    an instruction, a source and what is known of its results, or a chain of edits
//	rows      the records of a table in several files, tar shards or arrow files (rows.go, webdataset.go, arrow.go)
//	cells     one record by the names of fields, with everything that is wrong with it
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

// Sample is one item of a data set: an instruction for a source picture with all that is known of its results, or a
// chain of edits. Pictures are bytes, or paths that can be opened from anywhere.
type Sample struct {
	ID      string // unique in the data set
	Session string // samples of one session show the same scene, so they belong on one side of a split; may be empty
	Split   string // as the data set says: train, test, ...; may be empty

	Source, Target               data.Image // Target may be zero
	Instruction                  string
	SourceCaption, TargetCaption string
	Outputs                      []Output
	Preference                   *Preference // between Outputs 0 and 1

	Chain *Chain // if it is one, the fields between Split and this one are empty
}

// Output is what an editor made of the source.
type Output struct {
	Picture              data.Image
	heuristics.Candidate        // its editor, and the label and similarities that came with the data
	Profile              string // with which the similarities were measured; "": nobody says
}

// Preference tells which of a sample's two outputs was found better.
type Preference struct {
	Better int // 0 or 1, -1: neither
}

// Chain is a sequence of edits: Instructions[j] turns Pictures[j] into Pictures[j+1].
type Chain struct {
	Pictures     []data.Image
	Instructions []string
}

// Reader gives the samples of a data set. They can be read in any order, which is what restarts and shards need, and
// nothing but the one that is read is kept. A reader is used by one goroutine.
type Reader interface {
	Len() int
	// Read returns sample i, from 0. Left is an error for samples that are left out on purpose.
	Read(i int) (*Sample, error)
	Close() error
}

// Left is the reason why a sample that is there is left out: a known bad folder, a task that was not asked for.
type Left string

func (e Left) Error() string { return string(e) }

// Options say what to read and how.
type Options struct {
	Path       string            // file or folder
	Pictures   string            // where relative paths of pictures start, if that is not beside the tables
	Columns    map[string]string // what a reader looks for -> the file's name for it; see Fields of the layout
	Editor     string            // the editor of outputs that have none in the file
	Tasks      []string          // Emu-Edit: only these; none: all
	Chains     bool              // MagicBrush: sessions as chains, not turns one by one
	Drop       []string          // SEED-Data-Edit: folders whose samples are left out, besides the known corrupt ones
	LabelRange [2]float64        // of labels in the file; zero: the layout's own
	Unpack     string            // folder for pictures out of archives that cannot be read at random
	Profile    string            // with which the similarities in the file were measured, if the file does not say it

	mapped map[string]bool // fields that Columns named
}

// Layout is a published layout.
type Layout struct {
	Name   string
	About  string
	Fields map[string]string // what it looks for -> the published column; nil: it has no columns
	Needed []string          // fields whose columns every table of it has; a | b: one of them is enough
	Takes  []string          // which of tasks, chains and drop, which others pass over, it reads
	Many   bool              // the path may be a pattern of several files: see Files
	open   func(ctx context.Context, o Options) (Reader, error)
}

// layouts is filled by the files of this package, each with its own.
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

// Open opens a data set. Errors name the file and what is wrong with it. Only a layout with archives to unpack takes
// more than a moment; ctx ends that.
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
