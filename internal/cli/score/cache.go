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

// NewCache is the housekeeping of stores: those of train and label, too.
func NewCache() *cobra.Command {
	c := &cobra.Command{
		Use:   "cache",
		Short: "List, verify or prune stored features, embeddings and answers",
		Long: `cache manages the folders in which train, score and label keep image features, hidden states, embeddings and
digests. Records are addressed by content and computed again if missing, so anything may be removed at any time.

Without --folder it is the user's own store: ` + store.FolderVariable + `, or assay/store in the user's cache folder.
Runs have one
in RUN/cache (or cache.folder), label jobs in OUT/cache (or encoders.cache).`,
		Example: `  score cache list
  score cache list --folder build/demo/labels/cache --json
  score cache verify
  score cache prune --older 30d --most 10GiB
  score cache prune --damaged
  score cache hub`,
	}
	var folder string
	c.PersistentFlags().StringVar(&folder, "folder", "", "folder of the store (default: the user's own)")
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
				return exit.Usagef("--folder %s: there is no such folder", folder)
			}
			return run(c, folder)
		}}
		c.AddCommand(sub)
		return sub
	}
	c.AddCommand(newCacheHub(&folder))
	add("list", "What is kept, by kind and model", listCache)
	add("verify", "Read every record and count the damaged ones (which are never served)", verifyCache)
	var kind, older, most string
	var damaged bool
	prune := add("prune", "Remove what was used longest ago", func(c *cobra.Command, folder string) error {
		if damaged {
			if kind != "" || older != "" || most != "" {
				return exit.Usagef("--damaged removes damaged records alone: it does not go with --kind, --older or --most")
			}
			return dropDamaged(c, folder)
		}
		return pruneCache(c, folder, kind, older, most)
	})
	prune.Flags().StringVar(&kind, "kind", "", "of this kind only, as list names it")
	prune.Flags().StringVar(&older, "older", "", "what was not used for so long: 36h, 30d")
	prune.Flags().StringVar(&most, "most", "", "until the folder holds no more than this: 500MiB, 10GiB; 0: nothing")
	prune.Flags().BoolVar(&damaged, "damaged", false, "only the damaged records that verify finds")
	return c
}

func dropDamaged(c *cobra.Command, folder string) error {
	v, err := store.DropDamaged(folder)
	if err != nil {
		return err
	}
	return cli.Print(c, v, func(w io.Writer) {
		fmt.Fprintf(w, "%d damaged files rewritten, %d whole records of them kept, %s removed from %s\n",
			v.Files, v.Records, mebibytes(v.Bytes), folder)
		if v.Busy > 0 {
			fmt.Fprintf(w, "%d damaged files stay: a process writes to them\n", v.Busy)
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
		fmt.Fprintf(w, "%d whole records in %d files of %s, %d damaged, %d bytes behind the last records\n", v.Records,
			v.Files, folder, len(v.Damaged), v.Lost)
	}
	if err := cli.Print(c, v, words); err != nil || len(v.Damaged) == 0 {
		return err
	}
	return exit.Reported(fmt.Errorf("%d records are damaged: they are computed again when they are wanted; the disk may "+
		"be failing", len(v.Damaged)))
}

func pruneCache(c *cobra.Command, folder, kind, older, most string) error {
	p := store.Pruning{Kind: kind, Most: -1}
	if older == "" && most == "" {
		return exit.Usagef("--older, --most or --damaged is wanted: what is to be removed (--most 0 removes all)")
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
		fmt.Fprintf(w, "%d files removed, %s; %s are left in %s\n", v.Files, mebibytes(v.Bytes), mebibytes(v.Left), folder)
		if v.Busy > 0 {
			fmt.Fprintf(w, "%d files stay: a process writes to them\n", v.Busy)
		}
	})
}

// parseAge reads a duration, also in days.
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
