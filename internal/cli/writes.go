package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/remote"
)

// writes is the annotation of a flag that names a file to write: its values are the allowed file extensions.
const writes = "writes"

// Writes declares that flags of c name files to write, whose names end in one of endings (any, if there are none).
// What would fail only after everything is computed is refused first: a path that is a folder, or whose folder does
// not exist or is not writable. So is a file that another flag names.
func Writes(c *cobra.Command, endings []string, flags ...string) {
	annotate(c, flags, writes, endings...)
}

// makes is the annotation of a flag that names a folder to make.
const makes = "makes"

// Makes declares that flags of c name folders to create. A folder that exists and is not empty is refused before
// anything is computed.
func Makes(c *cobra.Command, flags ...string) { annotate(c, flags, makes) }

func checkMakes(_ *cobra.Command, f *pflag.Flag) error {
	path := f.Value.String()
	if _, ok := f.Annotations[makes]; !ok || path == "" {
		return nil
	}
	if err := atomicfile.Vacant(path); err != nil {
		return exit.Usage(fmt.Errorf("--%s %w", f.Name, err))
	}
	return nil
}

func checkWrites(c *cobra.Command, f *pflag.Flag) error {
	path := f.Value.String()
	endings, ok := f.Annotations[writes]
	if !ok || path == "" {
		return nil
	}
	if remote.Is(path) {
		return checkObject(c.Context(), f)
	}
	if err := checkFile(path, endings); err != nil {
		return exit.Usage(fmt.Errorf("--%s %w", f.Name, err))
	}
	return checkReplaced(c, f)
}

// checkReplaced refuses to write to a file that another flag also names, for reading or writing.
func checkReplaced(c *cobra.Command, f *pflag.Flag) (err error) {
	path := f.Value.String()
	c.Flags().Visit(func(other *pflag.Flag) {
		_, written := other.Annotations[writes]
		named := []string{other.Value.String()}
		if list, ok := other.Value.(pflag.SliceValue); ok {
			named = list.GetSlice()
		}
		for _, name := range named {
			if _, e := os.Stat(name); err == nil && other != f && (written || e == nil) && atomicfile.Same(path, name) {
				err = exit.Usagef("--%s %s is also the file of --%s and would replace it: write to another file", f.Name,
					path, other.Name)
			}
		}
	})
	return err
}

// checkObject asks the storage whether the bucket to write to exists. Unreachable storage is not a usage error.
func checkObject(ctx context.Context, f *pflag.Flag) error {
	if _, takes := f.Annotations[storage]; !takes || !remote.Built {
		return nil // refused by checkStorage
	}
	err := remote.CheckOutput(ctx, f.Value.String())
	if err == nil {
		return nil
	}
	err = fmt.Errorf("--%s: %w", f.Name, err)
	if remote.Failed(err) {
		return err
	}
	return exit.Usage(err)
}

func checkFile(path string, endings []string) error {
	if len(endings) > 0 && !slices.Contains(endings, strings.ToLower(filepath.Ext(path))) {
		return fmt.Errorf("%s: want a name that ends in %s", path, strings.Join(endings, " or "))
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s: is a folder, want a file", path)
	}
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no folder %s: create it first", path, folder)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case !info.IsDir():
		return fmt.Errorf("%s: %s is a file, want a folder", path, folder)
	}
	const writable = 2
	if err := syscall.Access(folder, writable); err != nil {
		return fmt.Errorf("%s: cannot write to the folder %s: %w", path, folder, err)
	}
	return nil
}
