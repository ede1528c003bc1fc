package score

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/hub"
)

func init() { register(NewFetch) }

// NewFetch returns score fetch, which downloads models and data sets from the Hugging Face Hub into the cache.
func NewFetch() *cobra.Command {
	var o fetchOptions
	c := &cobra.Command{
		Use:   "fetch NAME...",
		Short: "Fetch scorers, checkpoints and data sets from the Hugging Face Hub",
		Long: `fetch downloads models and data sets by name into the cache that huggingface_hub uses, and prints their
folders. A name is org/name, org/name@revision, hf://org/name@revision/folder, or hf://datasets/org/name. Flags and
files that name a model accept the same names, and fetch them automatically.

If there are weights in several formats, only one is fetched, preferably safetensors. An interrupted fetch resumes.
Files are verified by their digests. HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE, HF_HOME and HF_HUB_CACHE work as in
huggingface_hub.`,
		Example: `  score fetch Qwen/Qwen2.5-VL-7B-Instruct
  score fetch TIGER-Lab/EditReward-Qwen2.5-VL-7B --dry-run
  score fetch hf://org/scorers@v1/fast --out fast`,
		Args: cobra.MinimumNArgs(1),
		RunE: o.run,
	}
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "list the files and their sizes, fetch nothing")
	c.Flags().StringVar(&o.out, "out", "", "folder to make: a copy of the fetched files that can be changed")
	cli.Makes(c, "out")
	return c
}

type fetchOptions struct {
	dryRun bool
	out    string
}

// fetched is the output of fetch for a name.
type fetched struct {
	Name    string     `json:"name"`
	Commit  string     `json:"commit,omitempty"`
	Path    string     `json:"path,omitempty"`
	Files   []hub.File `json:"files,omitempty"`
	Missing int64      `json:"missing,omitempty"` // bytes that are not in the cache
}

func (o *fetchOptions) run(c *cobra.Command, args []string) error {
	if o.out != "" && (len(args) > 1 || o.dryRun) {
		return exit.Usagef("--out copies one fetched name: give one name, and no --dry-run")
	}
	h, err := hub.FromEnvironment()
	if err != nil {
		return exit.Usage(err)
	}
	h.Monitor = cli.FetchMonitor(c)
	var list []fetched
	for _, arg := range args {
		name := arg
		if !hub.Is(arg) {
			name = hub.Scheme + arg
		}
		n, err := hub.Parse(name)
		if err != nil {
			return exit.Usage(err)
		}
		f := fetched{Name: n.String()}
		if o.dryRun {
			f.Commit, f.Files, f.Missing, err = planned(c, h, n)
		} else if f.Path, err = h.Fetch(c.Context(), n); err == nil {
			if at, ok := hub.NameOf(f.Path); ok {
				f.Commit = at.Revision
			}
		}
		if err != nil {
			return exit.Named(err)
		}
		list = append(list, f)
	}
	if o.out != "" {
		if err := copyTo(o.out, list[0].Path); err != nil {
			return err
		}
		list[0].Path = o.out
	}
	return cli.Print(c, map[string]any{"fetched": list}, func(w io.Writer) {
		for _, f := range list {
			for _, file := range f.Files {
				fmt.Fprintf(w, "%10s  %s\n", hub.Size(file.Size), file.Path)
			}
			if o.dryRun {
				fmt.Fprintf(w, "%s is at %s: %d files, %s to fetch\n", f.Name, f.Commit, len(f.Files), hub.Size(f.Missing))
			} else {
				fmt.Fprintln(w, f.Path)
			}
		}
	})
}

// planned lists the files of a name, and sums up the bytes of those that are not in the cache.
func planned(c *cobra.Command, h *hub.Hub, n hub.Name) (commit string, all []hub.File, bytes int64, err error) {
	commit, all, missing, err := h.Plan(c.Context(), n)
	for _, f := range missing {
		bytes += f.Size
	}
	return commit, all, bytes, err
}

// copyTo copies a file or folder of the cache, without its links, into a new folder.
func copyTo(out, path string) error {
	return atomicfile.WriteDir(out, func(tmp string) error {
		return filepath.WalkDir(path, func(file string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(path, file)
			if err != nil {
				return err
			}
			switch {
			case d.IsDir():
				return os.MkdirAll(filepath.Join(tmp, name), 0o777)
			case name == ".":
				name = filepath.Base(file)
			}
			return atomicfile.Copy(file, filepath.Join(tmp, name))
		})
	})
}

// newCacheHub lists the cache of huggingface_hub.
func newCacheHub(folder *string) *cobra.Command {
	return &cobra.Command{
		Use:   "hub",
		Short: "List the models and data sets that were fetched from the Hugging Face Hub",
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := hub.FromEnvironment()
			if err != nil {
				return exit.Usage(err)
			}
			if *folder != "" {
				h.Cache = *folder
			}
			list, err := h.Kept()
			if err != nil {
				return err
			}
			v := map[string]any{"folder": h.Cache, "kept": append([]hub.Kept{}, list...)}
			return cli.Print(c, v, func(w io.Writer) {
				for _, k := range list {
					fmt.Fprintf(w, "%10s %4d files, last used %s  %s %v\n", hub.Size(k.Bytes), k.Files,
						k.Used.Format("2006-01-02"), k.Name, k.Refs)
				}
				fmt.Fprintf(w, "%d revisions in %s (`hf cache` of huggingface_hub removes them)\n", len(list), h.Cache)
			})
		},
	}
}
