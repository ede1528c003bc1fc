package table

import (
	"fmt"
	"path/filepath"

	"assay/data"
)

// Conversations is a table of conversations that is read line by line: the questions of Ask, or training data. It is
// safe for concurrent use.
type Conversations struct {
	path    string
	lines   *data.Lines
	columns []string
}

// Open opens a .jsonl file. columns are further keys that its rows have.
func Open(path string, columns ...string) (*Conversations, error) {
	if err := format(path); err != nil {
		return nil, err
	}
	lines, err := data.OpenLines(path)
	return &Conversations{path, lines, columns}, err
}

// Path returns the file's path.
func (c *Conversations) Path() string { return c.path }

// Folder is the folder that picture paths are relative to.
func (c *Conversations) Folder() string { return filepath.Dir(c.path) }

// Len is the number of rows.
func (c *Conversations) Len() int { return c.lines.Len() }

// Read reads a row. Its pictures are not opened.
func (c *Conversations) Read(i int) (*Row, error) {
	line, err := c.lines.Read(i)
	if err != nil {
		return nil, err
	}
	r, err := parse(line, c.columns...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.lines.Where(i), err)
	}
	return r, nil
}

// Close closes the file.
func (c *Conversations) Close() error { return c.lines.Close() }
