package checkpoints

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/atomicfile"
)

// CopyCompanions copies the files of the checkpoint in from other than its weights to the folder to: configuration,
// tokenizer, processor, chat templates, model code, licence.
func CopyCompanions(from, to string) error {
	names, err := companions(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o777); err != nil {
			return err
		}
		if err := atomicfile.Copy(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// CopyTo copies the shards to the folder to under their names, and the index if there are several.
func (w *Weights) CopyTo(to string) error {
	for _, s := range w.shards {
		if err := atomicfile.Copy(s.Path(), filepath.Join(to, s.Name)); err != nil {
			return err
		}
	}
	if len(w.shards) == 1 {
		return nil
	}
	return atomicfile.Copy(filepath.Join(w.dir, IndexFile), filepath.Join(to, IndexFile))
}

func companions(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		st, err := os.Stat(filepath.Join(dir, e.Name())) // Hugging Face's cache uses links
		if err == nil && st.Mode().IsRegular() && isCompanion(e.Name()) {
			names = append(names, e.Name())
		}
	}
	// transformers stores additional chat templates here
	templates, err := filepath.Glob(filepath.Join(atomicfile.QuoteGlob(dir), "additional_chat_templates", "*.jinja"))
	for _, t := range templates {
		names = append(names, filepath.Join("additional_chat_templates", filepath.Base(t)))
	}
	return names, err
}

func isCompanion(name string) bool {
	if strings.HasSuffix(name, ".index.json") || strings.HasPrefix(name, "adapter_") {
		return false
	}
	kinds := []string{".json", ".jinja", ".txt", ".model", ".tiktoken", ".md", ".py"}
	return slices.Contains(kinds, filepath.Ext(name)) || strings.HasPrefix(name, "LICENSE") ||
		strings.HasPrefix(name, "NOTICE")
}
