package hub

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// judges are the files by which a folder is a scorer or another judge.
var judges = []string{"scorer.yaml", "judge.yaml", "reward.yaml"}

// The files of a model that Assay reads: configurations, tokenizers, chat templates, cards, adapters, weights.
var (
	texts    = []string{".json", ".jsonl", ".yaml", ".yml", ".txt", ".model", ".tiktoken", ".jinja", ".md"}
	graphs   = []string{".onnx", ".onnx_data", ".data"}
	pickles  = []string{".bin", ".pt", ".pth", ".ckpt"}
	training = regexp.MustCompile(`^(?:optimizer|scheduler|rng_state.*|training_args|trainer_state)\.\w+$`)

	whole   = regexp.MustCompile(`^model(?:-\d+-of-\d+)?\.safetensors$`)
	another = regexp.MustCompile(`^(?:consolidated.*|model\..+)\.safetensors$`) // the same weights in other files
)

// choose selects the files that a name refers to. For a data set these are all files below its path. For a model they
// are the files in the folder itself, and also those below if the folder contains a scorer or no model. Of weights in
// several formats one is chosen, preferably safetensors. One of the files in needs must exist.
func choose(n Name, files []File, needs []string) ([]File, error) {
	var below, own []File
	names := map[string]bool{} // relative to the path
	for _, f := range files {
		if f.Path == n.Path {
			return []File{f}, nil
		}
		rest, ok := strings.CutPrefix(f.Path, n.Path+"/")
		if n.Path == "" {
			rest, ok = f.Path, true
		}
		if !ok {
			continue
		}
		names[rest] = true
		below = append(below, f)
		if !strings.Contains(rest, "/") {
			own = append(own, f)
		}
	}
	if len(below) == 0 {
		return nil, &Error{Name: n, absent: true, final: true,
			text: fmt.Sprintf("the repository has no such file or folder at revision %s", n.revision())}
	}
	chosen := below
	if n.Kind == Model {
		scorer := slices.ContainsFunc(judges, func(name string) bool { return names[name] })
		model := names["config.json"] || names["adapter_config.json"] || slices.ContainsFunc(own, isWeights)
		if model && !scorer {
			chosen = own
		}
		chosen = needed(n.Path, chosen)
	}
	if len(needs) > 0 && !slices.ContainsFunc(needs, func(name string) bool { return names[name] }) {
		return nil, lacks(n, needs, chosen)
	}
	if len(chosen) == 0 {
		one := below[len(below)-1].Path // the first ones are hidden files
		return nil, &Error{Name: n, absent: true, final: true, text: fmt.Sprintf("none of its %d files is of a kind that "+
			"is read, such as safetensors: name one to fetch it (%s)", len(below), n.file(one))}
	}
	return chosen, nil
}

// file returns the name of a file of the repository.
func (n Name) file(name string) Name {
	n.Path = name
	return n
}

// unread matches names of weights of checkpoints and adapters that Assay cannot read.
var unread = regexp.MustCompile(`^(?:pytorch_model.*|adapter_model)\.bin$`)

// choose selects the files of a commit that a name refers to. If they will be loaded, it rejects weights in
// unsupported formats before any file is fetched, and skips the weights of a checkpoint if a run is only planned.
func (h *Hub) choose(n Name, commit string, files []File, needs []string) ([]File, error) {
	chosen, err := choose(n, files, needs)
	if err != nil || !h.loads || n.Kind != Model {
		return chosen, err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(chosen, func(f File) bool { return f.Path == path.Join(n.Path, name) })
	}
	adapter := has("adapter_config.json")
	if !has("config.json") && !adapter {
		return chosen, nil
	}
	for _, f := range chosen {
		if folder, name := path.Split(f.Path); path.Clean(folder) == path.Clean(n.Path) && unread.MatchString(name) {
			return nil, &Error{Name: n, absent: true, final: true, text: fmt.Sprintf("its weights are PyTorch pickles (%s), "+
				"which are not supported: use a repository or revision with safetensors (try refs/convert/safetensors, or "+
				"refs/pr/N)", name)}
		}
	}
	if h.NoWeights && !adapter && !slices.ContainsFunc(judges, has) {
		chosen = h.leaveWeights(n, commit, chosen)
	}
	return chosen, nil
}

// leaveWeights skips weights, and reports how much of them a run would fetch.
func (h *Hub) leaveWeights(n Name, commit string, files []File) (others []File) {
	var weights []File
	for _, f := range files {
		if isWeights(f) {
			weights = append(weights, f)
		} else {
			others = append(others, f)
		}
	}
	var bytes int64
	missing := h.missing(n, commit, weights)
	for _, f := range missing {
		bytes += f.Size
	}
	if len(missing) > 0 && h.Monitor.Note != nil {
		h.Monitor.Note(fmt.Sprintf("%s: its weights, %s, will be fetched by the run", n, Size(bytes)))
	}
	return others
}

// lacks returns the error for a repository that has none of the needed files.
func lacks(n Name, needs []string, files []File) error {
	e := &Error{Name: n, absent: true, final: true}
	e.text = fmt.Sprintf("the repository has no %s", strings.Join(needs, " and no "))
	if len(files) > 0 {
		var bytes int64
		for _, f := range files {
			bytes += f.Size
		}
		e.text += fmt.Sprintf(" (`score fetch %s` would fetch %d files, %s)", n, len(files), Size(bytes))
	}
	if slices.Contains(needs, "scorer.yaml") {
		e.text += ", so it is not a scorer: `score import` creates one from a released judge's weights"
	}
	return e
}

// needed skips files that are never read, such as those in hidden folders below the path, and all but one of several
// formats of the same weights in a folder.
func needed(below string, files []File) (chosen []File) {
	safe, plain := map[string]bool{}, map[string]bool{} // folders with safetensors, and with model.safetensors
	for _, f := range files {
		folder, name := path.Split(f.Path)
		safe[folder] = safe[folder] || path.Ext(name) == ".safetensors"
		plain[folder] = plain[folder] || whole.MatchString(name)
	}
	for _, f := range files {
		folder, name := path.Split(f.Path)
		hidden := strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(f.Path, below), "/"), ".")
		ends := path.Ext(name)
		switch {
		case hidden, strings.HasPrefix(name, "."), training.MatchString(name):
		case strings.HasSuffix(name, ".bin.index.json") && safe[folder]:
		case slices.Contains(pickles, ends) && !safe[folder],
			ends == ".safetensors" && !(plain[folder] && another.MatchString(name)),
			slices.Contains(texts, ends), slices.Contains(graphs, ends):
			chosen = append(chosen, f)
		}
	}
	return chosen
}

func isWeights(f File) bool {
	ends := path.Ext(f.Path)
	return ends == ".safetensors" || slices.Contains(pickles, ends)
}

// Size formats a number of bytes for people.
func Size(n int64) string {
	switch v := float64(n); {
	case v >= 1e9:
		return fmt.Sprintf("%.1f GB", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.1f MB", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.1f kB", v/1e3)
	}
	return fmt.Sprintf("%d B", n)
}
