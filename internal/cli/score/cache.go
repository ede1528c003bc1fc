package score

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/store"
	"assay/internal/strictyaml"
)

func init() { register(NewCache) }

// NewCache returns the command that lists, verifies and prunes stores, including those of train and label.
func NewCache() *cobra.Command {
	c := &cobra.Command{
		Use:   "cache",
		Short: "List, verify or prune stored features, embeddings and answers",
		Long: `cache manages the folders in which train, score and label store image features, hidden states, embeddings
and digests. Records are addressed by content and recomputed if missing, so anything may be removed at any time.

Without --folder it is the user's store: ` + store.FolderVariable + `, or assay/store in the user's cache folder.
Runs have one in RUN/cache (or cache.folder), label jobs in OUT/cache (or encoders.cache).`,
		Example: `  score cache list
  score cache list --folder build/demo/labels/cache --json
  score cache verify
  score cache prune --older 30d --most 10GiB
  score cache prune --damaged
  score cache hub`,
	}
	var folder string
	c.PersistentFlags().StringVar(&folder, "folder", "", "folder of the store (default: the user's)")
	add := func(use, short string, run func(c *cobra.Command, folder string) error) *cobra.Command {
		sub := &cobra.Command{Use: use, Short: short, RunE: func(c *cobra.Command, _ []string) error {
			if folder == "" {
				own, err := store.DefaultFolder()
				if err != nil {
					return exit.Usage(err)
				}
				return run(c, own)
			}
			if info, err := os.Stat(folder); err != nil || !info.IsDir() {
				return exit.Usagef("--folder %s: no such folder", folder)
			}
			return run(c, folder)
		}}
		c.AddCommand(sub)
		return sub
	}
	c.AddCommand(newCacheHub(&folder))
	add("list", "List the stored records, by kind and model", listCache)
	add("verify", "Read every record and count the damaged ones (which are never used)", verifyCache)
	var kind, older, most string
	var damaged bool
	prune := add("prune", "Remove the least recently used records", func(c *cobra.Command, folder string) error {
		if damaged {
			if kind != "" || older != "" || most != "" {
				return exit.Usagef("--damaged removes only damaged records: omit --kind, --older and --most")
			}
			return dropDamaged(c, folder)
		}
		return pruneCache(c, folder, kind, older, most)
	})
	prune.Flags().StringVar(&kind, "kind", "", "only records of this kind, as named by list")
	prune.Flags().StringVar(&older, "older", "", "records unused for this long: 36h, 30d")
	prune.Flags().StringVar(&most, "most", "", "remove down to this size of the folder: 500MiB, 10GiB; 0: remove all")
	prune.Flags().BoolVar(&damaged, "damaged", false, "only the damaged records that verify finds")
	return c
}

func dropDamaged(c *cobra.Command, folder string) error {
	v, err := store.DropDamaged(folder)
	if err != nil {
		return err
	}
	return cli.Print(c, v, func(w io.Writer) {
		fmt.Fprintf(w, "%d damaged files rewritten with their %d intact records, %s removed from %s\n",
			v.Files, v.Records, mebibytes(v.Bytes), folder)
		if v.Busy > 0 {
			fmt.Fprintf(w, "%d damaged files are left: a process is writing to them\n", v.Busy)
		}
	})
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func listCache(c *cobra.Command, folder string) error {
	list, err := store.List(folder)
	if err != nil {
		return err
	}
	var total int64
	for _, l := range list {
		total += l.Bytes
	}
	v := struct {
		Folder string           `json:"folder"`
		Bytes  int64            `json:"bytes"`
		Kept   []store.Contents `json:"kept"`
	}{folder, total, append([]store.Contents{}, list...)}
	return cli.Print(c, v, func(w io.Writer) {
		for _, l := range list {
			fmt.Fprintf(w, "%-14s %s %9d records %12s, last used %s\n", l.Kind, l.Model, l.Records, mebibytes(l.Bytes),
				l.Used.Format("2006-01-02 15:04"))
		}
		fmt.Fprintf(w, "%s in %s\n", mebibytes(total), folder)
	})
}

func verifyCache(c *cobra.Command, folder string) error {
	v, err := store.Verify(folder)
	if err != nil {
		return err
	}
	words := func(w io.Writer) {
		for _, d := range v.Damaged {
			fmt.Fprintln(w, d)
		}
		fmt.Fprintf(w, "%d intact records in %d files of %s, %d damaged, %d bytes after the last records\n", v.Records,
			v.Files, folder, len(v.Damaged), v.Lost)
	}
	if err := cli.Print(c, v, words); err != nil || len(v.Damaged) == 0 {
		return err
	}
	return exit.Reported(fmt.Errorf("%d records are damaged: they are recomputed when needed; the disk may "+
		"be failing", len(v.Damaged)))
}

func pruneCache(c *cobra.Command, folder, kind, older, most string) error {
	p := store.Pruning{Kind: kind, Most: -1}
	if older == "" && most == "" {
		return exit.Usagef("--older, --most or --damaged is needed: what to remove (--most 0 removes all)")
	}
	if older != "" {
		age, err := parseAge(older)
		if err != nil {
			return exit.Usage(fmt.Errorf("--older: %w", err))
		}
		p.Older = time.Now().Add(-age)
	}
	if most != "" {
		if err := (*strictyaml.Bytes)(&p.Most).Set(most); err != nil {
			return exit.Usage(fmt.Errorf("--most: %w", err))
		}
	}
	v, err := store.Prune(folder, p)
	if err != nil {
		return err
	}
	return cli.Print(c, v, func(w io.Writer) {
		fmt.Fprintf(w, "%d files removed, %s; %s left in %s\n", v.Files, mebibytes(v.Bytes), mebibytes(v.Left), folder)
		if v.Busy > 0 {
			fmt.Fprintf(w, "%d files are left: a process is writing to them\n", v.Busy)
		}
	})
}

// parseAge parses a duration, which may be in days.
func parseAge(text string) (time.Duration, error) {
	age, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		age = time.Duration(n * float64(24*time.Hour))
	}
	if err != nil || age < 0 {
		return 0, fmt.Errorf("want a time like 36h or 30d, not %q", text)
	}
	return age, nil
}
