package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// kit holds the inputs of the cases.
type kit struct {
	*campaign
	root     string
	pictures []string
	model    string // the backbone that is trained
}

//go:embed cases.yaml
var casesText []byte

// cases writes the inputs of the commands, and lists the commands.
func (c *campaign) cases() ([]command, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	k := &kit{campaign: c, root: root, model: filepath.Join(root, "backbones", "tiny")}
	if c.backbone != "" {
		if k.model, err = filepath.Abs(c.backbone); err != nil {
			return nil, err
		}
	}
	if k.pictures, err = filepath.Glob(filepath.Join(root, "testdata", "oracle", "images", "*.png")); err != nil {
		return nil, err
	}
	if len(k.pictures) < 8 {
		return nil, fmt.Errorf("%d pictures in %s: run this in the checkout", len(k.pictures), root)
	}
	k.pictures = spread(k.pictures, max(8, c.images))
	if err := os.MkdirAll(c.dir, 0o777); err != nil {
		return nil, err
	}
	err = errors.Join(
		writeTable(filepath.Join(c.dir, "edits.jsonl"), k.pictures),
		writeTable(filepath.Join(c.dir, "few.jsonl"), k.pictures[:4]),
		writeQuestions(filepath.Join(c.dir, "questions.jsonl"), k.pictures[:6], "tiny", "words"),
		k.writeBench(),
		os.WriteFile(filepath.Join(c.dir, "question.txt"),
			[]byte("Rate the edit \"[INSTRUCTION]\" from 0 to 2. Answer with the digit alone."), 0o666),
	)
	if err != nil {
		return nil, err
	}
	var list []command
	if err := yaml.Unmarshal(casesText, &list); err != nil {
		return nil, fmt.Errorf("cases.yaml: %w", err)
	}
	url, launcher := startJudge(), k.launcher()
	places, err := k.places(url)
	if err != nil {
		return nil, err
	}
	several := strings.NewReplacer("{mpirun}", launcher, "{judge}", "--url "+url+" --model m --store {out}/store",
		"{bench}", "aim-bench --ratings {aim} --editors {aim}/A,{aim}/B --resamples 20 --out {out}/bench",
		"{encoders}", "--clip {oracle}/clip/model --dino {oracle}/dinov2/model --cache {out}/store")
	list = slices.DeleteFunc(list, func(one command) bool {
		lacks := launcher == "" && strings.Contains(one.Run, "{mpirun}")
		if lacks {
			fmt.Printf("not tested: %s (needs mpirun and %s, which make mpi builds)\n", one.Name, c.mpi)
		}
		return lacks
	})
	for i := range list {
		one := &list[i]
		one.places, one.Run, one.Finish = places, several.Replace(one.Run), several.Replace(one.Finish)
	}
	return list, nil
}

// places returns the values of the single-word names in braces, except those that differ by command.
func (k *kit) places(url string) (map[string]string, error) {
	self, err1 := os.Executable()
	example, err2 := os.ReadFile(filepath.Join(k.root, "examples", "label.yaml"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	aim, oracle := filepath.Join(k.dir, "aim"), filepath.Join(k.root, "testdata", "oracle")
	return map[string]string{
		"{self}": self, "{bin}": k.bin, "{mpi}": k.mpi, "{dir}": k.dir, "{oracle}": oracle,
		"{table}": filepath.Join(k.dir, "edits.jsonl"), "{few}": filepath.Join(k.dir, "few.jsonl"),
		"{tiny}": filepath.Join(k.root, "backbones", "tiny"), "{model}": k.model,
		"{scorer}": filepath.Join(k.root, "backbones", "tiny-scorer"),
		"{url}":    url, "{aim}": aim,
		"{example}": strings.NewReplacer(": ../build/example-label", ": labels", ": ../", ": "+k.root+"/", "path: sessions",
			"path: "+filepath.Join(k.root, "examples", "sessions")).Replace(string(example)),
		"{steps}": fmt.Sprint(k.steps), "{validate}": fmt.Sprint(max(2, k.steps/3)),
	}, nil
}

// launcher returns the command that starts two processes; "" if there is no MPI.
func (k *kit) launcher() string {
	path, err := exec.LookPath("mpirun")
	if err != nil || !exists(filepath.Join(k.mpi, "train")) {
		return ""
	}
	path += " -n 2"
	if version, _ := exec.Command("mpirun", "--version").Output(); strings.Contains(string(version), "Open MPI") {
		path += " --oversubscribe --allow-run-as-root --bind-to none"
	}
	return path
}

// spread takes n entries of a list, evenly spaced.
func spread(list []string, n int) (out []string) {
	n = min(n, len(list))
	for i := range n {
		out = append(out, list[i*len(list)/n])
	}
	return out
}

// writeTable writes a table of edits, one for each pair of pictures.
func writeTable(path string, pictures []string) error {
	var text strings.Builder
	for i, source := range pictures {
		for j, edit := range pictures {
			if (i+j)%3 > 0 {
				continue
			}
			row := map[string]any{"id": fmt.Sprintf("%d-%d", i, j), "group": fmt.Sprint("g", i), "source": source,
				"edit": edit, "target": pictures[(j+1)%len(pictures)], "instruction": fmt.Sprint("make it picture ", j),
				"source_caption": fmt.Sprint("picture ", i), "target_caption": fmt.Sprint("picture ", j),
				"label": float64(j%3) / 2, "method": "aurora"}
			line, err := json.Marshal(row)
			if err != nil {
				return err
			}
			text.Write(append(line, '\n'))
		}
	}
	return os.WriteFile(path, []byte(text.String()), 0o666)
}

// writeBench writes a small benchmark in AIM-Bench's layout, with outputs of two editors.
func (k *kit) writeBench() error {
	dir := filepath.Join(k.dir, "aim")
	put := func(path, picture string) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if os.Link(picture, path) == nil {
			return nil
		}
		raw, err := os.ReadFile(picture)
		if err != nil {
			return err
		}
		return os.WriteFile(path, raw, 0o666)
	}
	var items []map[string]any
	n := len(k.pictures)
	for i := range 8 {
		emotion := []string{"awe", "fear", "anger"}[i%3]
		items = append(items, map[string]any{"original_image": fmt.Sprintf("s%d.jpg", i), "edit_type": "add_object",
			"edited_image": fmt.Sprintf("s%d_%s_instruction_1.png", i, emotion), "edit_prompt": "make the sky purple",
			"target_emotion": map[string]any{"emotion": emotion, "VAD": []int{5, 5, 5}}})
		if err := put(filepath.Join(dir, "benchmark", fmt.Sprintf("s%d.jpg", i)), k.pictures[i%n]); err != nil {
			return err
		}
		for e, editor := range []string{"A", "B"} {
			path := filepath.Join(dir, editor, "edited_output", fmt.Sprintf("s%d_edited_%s.png", i, emotion))
			if err := put(path, k.pictures[(i+e+1)%n]); err != nil {
				return err
			}
		}
	}
	raw, err := json.Marshal(items)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "Instructions.json"), raw, 0o666)
}

// startJudge starts a chat server that runs until this process ends.
func startJudge() string { return httptest.NewServer(http.HandlerFunc(answer)).URL }

// answer is a chat server with the same answer for every edit.
func answer(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{
		"model": "m",
		"choices": []any{map[string]any{"finish_reason": "stop",
			"message": map[string]string{"role": "assistant", "content": `{"score": [20, 10], "reasoning": "so"}`}}},
		"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
	})
}

// digests returns the digests of the files below a folder that must be equal. Model cards are excluded: they contain
// times.
func digests(root string, names []string) (map[string]string, error) {
	sums := map[string]string{}
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || strings.HasSuffix(path, ".md") {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			sum := sha256.Sum256(raw)
			sums[rel] = hex.EncodeToString(sum[:])
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// unlike lists the files that differ between two runs.
func unlike(want, got map[string]string) (out []string) {
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if want[name] != got[name] {
			out = append(out, name)
		}
	}
	return out
}
