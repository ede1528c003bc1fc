package checkpoints

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"assay/internal/atomicfile"
	"assay/internal/blocks"
	"assay/internal/jsonfile"
)

// manifestName is the last file written into a run's checkpoint; it lists all other files.
const manifestName = "MANIFEST.json"

type manifest struct {
	Format int            `json:"format"`
	Step   int64          `json:"step"`
	Files  []manifestFile `json:"files"`
}

type manifestFile struct {
	Path   string `json:"path"` // below the checkpoint, with slashes
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Save writes the checkpoint root/step-N: complete or absent, whenever the process or the machine stops. write writes
// the files into its folder. They are synced and listed with their SHA-256 in a manifest, and the folder is renamed
// to its final name. Only then are older checkpoints removed, except the newest keep (0: all are kept). If anything
// fails, nothing of the new checkpoint is left and earlier checkpoints are untouched.
func Save(root string, step int64, keep int, write func(dir string) error) error {
	if err := save(root, step, write); err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = fmt.Errorf("%w: free disk space, or keep fewer checkpoints", err)
		}
		return fmt.Errorf("saving checkpoint step-%d in %s: %w (earlier checkpoints are intact)", step, root, err)
	}
	return prune(root, step, keep)
}

func save(root string, step int64, write func(dir string) error) error {
	if err := os.MkdirAll(root, 0o777); err != nil {
		return err
	}
	if err := atomicfile.RemoveLeftovers(root, "step-*"); err != nil {
		return err
	}
	// replaces a damaged checkpoint, or one of a run that is repeated
	return atomicfile.PlaceDir(filepath.Join(root, stepName(step)), func(tmp string) error {
		if err := write(tmp); err != nil {
			return err
		}
		return seal(tmp, step)
	})
}

func stepName(step int64) string { return "step-" + strconv.FormatInt(step, 10) }

// seal syncs the files of dir and writes the manifest.
func seal(dir string, step int64) error {
	m := manifest{Format: 1, Step: step}
	var folders []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			folders = append(folders, path)
			return nil
		case !e.Type().IsRegular():
			return fmt.Errorf("%s: a checkpoint may only contain regular files", path)
		}
		size, sum, err := digest(path, (*os.File).Sync)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, path)
		m.Files = append(m.Files, manifestFile{filepath.ToSlash(below), size, sum})
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range folders {
		if err := atomicfile.SyncDir(f); err != nil {
			return err
		}
	}
	return jsonfile.Write(filepath.Join(dir, manifestName), m)
}

// digest returns size and SHA-256 of a file, after calling first on it.
func digest(path string, first func(*os.File) error) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	if first != nil {
		if err := first(f); err != nil {
			return 0, "", fmt.Errorf("%s: %w", path, err)
		}
	}
	h := sha256.New()
	n, err := blocks.Copy(h, f)
	if err != nil {
		return 0, "", fmt.Errorf("%s: %w", path, err)
	}
	return n, hex.EncodeToString(h.Sum(nil)), nil
}

// steps returns the steps of root's checkpoints, newest first.
func steps(root string) ([]int64, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var out []int64
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "step-")
		if n, err := strconv.ParseInt(number, 10, 64); ok && err == nil && stepName(n) == e.Name() {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out, nil
}

// prune removes all except the newest keep checkpoints up to step. It leaves later ones: they are damaged, or from
// another run.
func prune(root string, step int64, keep int) error {
	if keep <= 0 {
		return nil
	}
	all, err := steps(root)
	if err != nil {
		return err
	}
	kept := 0
	for _, s := range all {
		if s > step {
			continue
		}
		if kept++; kept > keep {
			err = errors.Join(err, atomicfile.RemoveDir(filepath.Join(root, stepName(s))))
		}
	}
	if err != nil {
		return fmt.Errorf("removing old checkpoints: %w", err)
	}
	return nil
}

// DamagedError lists checkpoints that are newer than the one Latest returned and cannot be used, newest first.
type DamagedError struct{ Problems []error }

func (e *DamagedError) Error() string {
	return "damaged checkpoint: " + strings.ReplaceAll(errors.Join(e.Problems...).Error(), "\n", "; ")
}

func (e *DamagedError) Unwrap() []error { return e.Problems }

// Latest returns the newest checkpoint of root whose files all match its manifest. Damaged checkpoints are skipped:
// then err is a [*DamagedError], with a good dir if there is one. Without any checkpoint dir is "" and err nil.
func Latest(root string) (dir string, step int64, err error) {
	all, err := steps(root)
	if err != nil {
		return "", 0, err
	}
	var damaged *DamagedError
	for _, s := range all {
		dir := filepath.Join(root, stepName(s))
		problem := verify(dir)
		if problem == nil {
			if damaged != nil {
				return dir, s, damaged
			}
			return dir, s, nil
		}
		if damaged == nil {
			damaged = &DamagedError{}
		}
		damaged.Problems = append(damaged.Problems, problem)
	}
	if damaged != nil {
		return "", 0, damaged
	}
	return "", 0, nil
}

// verify compares a checkpoint with its manifest: every listed file must exist, with its size and SHA-256.
func verify(dir string) error {
	path := filepath.Join(dir, manifestName)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var m manifest
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if m.Format != 1 || stepName(m.Step) != filepath.Base(dir) {
		return fmt.Errorf("%s: has format %d and step %d, want format 1 and %s", path, m.Format, m.Step,
			filepath.Base(dir))
	}
	for _, f := range m.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return fmt.Errorf("%s: path %q is outside the checkpoint", path, f.Path)
		}
		name := filepath.Join(dir, filepath.FromSlash(f.Path))
		st, err := os.Stat(name)
		if err != nil {
			return err
		}
		if st.Size() != f.Size {
			return fmt.Errorf("%s: has %d bytes, but %d were written", name, st.Size(), f.Size)
		}
		_, sum, err := digest(name, nil)
		if err != nil {
			return err
		}
		if sum != f.SHA256 {
			return fmt.Errorf("%s: its SHA-256 is %s, but %s was written", name, sum, f.SHA256)
		}
	}
	return nil
}
