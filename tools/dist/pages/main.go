// Program pages generates manual pages and completions for bash, zsh and fish from the commands, into a folder with
// the layout of /usr/share: pages DIR. SOURCE_DATE_EPOCH is the date of the pages.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/internal/cli/assay"
	"assay/internal/cli/label"
	"assay/internal/cli/score"
	"assay/internal/cli/train"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pages DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	if err := manuals(dir, assay.App.Tree(), time.Unix(seconds, 0)); err != nil {
		return err
	}
	for name, app := range map[string]*cli.App{"assay": &assay.App, "train": &train.App, "score": &score.App,
		"label": &label.App} {
		if err := completions(dir, name, app.Tree()); err != nil {
			return err
		}
		if name != "assay" { // NAME has the page of assay NAME
			err := file(dir, "man/man1/"+name+".1", func(w io.Writer) error {
				_, err := fmt.Fprintf(w, ".so man1/assay-%s.1\n", name)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// manuals writes the pages of a command and of its subcommands.
func manuals(dir string, c *cobra.Command, date time.Time) error {
	err := file(dir, "man/man1/"+cli.ManName(c)+".1", func(w io.Writer) error { return cli.WriteMan(w, c, date) })
	if err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if cli.HasMan(sub) {
			if err := manuals(dir, sub, date); err != nil {
				return err
			}
		}
	}
	return nil
}

// completions writes the completions of a program.
func completions(dir, name string, root *cobra.Command) error {
	for path, generate := range map[string]func(w io.Writer) error{
		"bash-completion/completions/" + name:         func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh/site-functions/_" + name:                 root.GenZshCompletion,
		"fish/vendor_completions.d/" + name + ".fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
	} {
		if err := file(dir, path, generate); err != nil {
			return err
		}
	}
	return nil
}

func file(dir, name string, write func(w io.Writer) error) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, write)
}
